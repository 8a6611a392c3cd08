//! `ncclscope view`: a capture in a browser, served from here to here.
//!
//! The page and what it asks for are under a random token, so that no other user of the machine can guess
//! them, and on 127.0.0.1 only. A request must name that address as its host, so that no page of another site
//! can reach it by a name of its own. The page's policy allows nothing but this address.

use crate::progress;
use anyhow::Context;
use render::events::Events;
use render::timeline::Timeline;
use render::view::{View, PAGE, PAGE_STYLE, SCRIPT, STYLE};
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tiny_http::{Method, Request, Server};

/// Look at a capture in a browser: who waits for whom, over the run, in a step, in one operation
#[derive(clap::Args)]
pub struct Args {
    /// Capture folder, the folder of one host in it, or one trace file
    capture: PathBuf,
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    #[command(flatten)]
    offsets: crate::offsets::Offsets,
}

/// What a page may do: use this address, and nothing else.
const POLICY: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// So many calls are drawn one by one; the page has the same number.
const MOST_CALLS: usize = 20_000;
/// A question names no more lanes than fit into so many bytes.
const MOST_BODY: u64 = 8 << 20;

/// Serves the viewer until it is interrupted.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let given = args.offsets.read()?;
    let capture = crate::report::open(&args.capture)?;
    if capture.processes.iter().all(|p| p.calls.is_empty()) {
        anyhow::bail!(
            "`{0}` holds no single call that could be drawn\
             \n  hint: `ncclscope report {0}` says what it holds",
            args.capture.display()
        );
    }
    let (report, server) = progress::show("reading", |_| {
        let report = analyze::report_with(&capture, given);
        (report, Server::http(("127.0.0.1", args.port)))
    });
    let server = server.map_err(|error| {
        anyhow::anyhow!(
            "port {} of 127.0.0.1 can't be used: {error}\n  hint: leave `--port` out for a free one",
            args.port
        )
    })?;
    let timeline = Timeline::trimmed(&capture, report.clocks.as_ref());
    let clocks = report.clocks.as_ref();
    let events = capture
        .has_mode("callbacks")
        .then(|| Events::new(&capture, clocks));
    let view = View::with_events(&timeline, &report, events.as_ref());
    let port = server
        .server_addr()
        .to_ip()
        .map_or(0, |address| address.port());
    let token = token().context("making a token")?;
    tell!("http://127.0.0.1:{port}/{token}/");
    tell!("Open this address in a browser on this machine. It is served until Ctrl-C.");
    tell!("From another machine: ssh -L {port}:127.0.0.1:{port} HOST, then open the same address there.");
    for mut request in server.incoming_requests() {
        let answer = answer(&view, &mut request, port, &token);
        // A browser that has gone away is no failure.
        let _ = answer.write(request.into_writer());
    }
    Ok(ExitCode::SUCCESS)
}

/// 128 random bits, as text.
fn token() -> std::io::Result<String> {
    let mut bytes = [0u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// What a request gets.
struct Response {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Response {
    /// Writes it, and asks the browser to close the connection. tiny_http has a thread for each connection.
    /// If several come at once, it may leave one without a thread until another connection ends.
    fn write(&self, mut out: impl Write) -> std::io::Result<()> {
        let Response { status, kind, body } = self;
        let length = body.len();
        write!(
            out,
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}\r\n\
             Content-Length: {length}\r\nContent-Security-Policy: {POLICY}\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cache-Control: no-store\r\n\r\n"
        )?;
        out.write_all(body)?;
        out.flush()
    }
}

fn with(status: &'static str, kind: &'static str, body: impl Into<Vec<u8>>) -> Response {
    Response {
        status,
        kind,
        body: body.into(),
    }
}

fn answer(view: &View, request: &mut Request, port: u16, token: &str) -> Response {
    let refused = || with("404 Not Found", "text/plain; charset=utf-8", "not here\n");
    let host = request.headers().iter().find(|h| h.field.equiv("Host"));
    let is_here = host.is_some_and(|host| {
        let host = host.value.as_str();
        host == format!("127.0.0.1:{port}") || host == format!("localhost:{port}")
    });
    if !is_here || !matches!(request.method(), Method::Get | Method::Post) {
        return refused();
    }
    let lanes = lanes(request);
    let request = &*request;
    let (path, query) = request.url().split_once('?').unwrap_or((request.url(), ""));
    let Some(name) = path
        .strip_prefix('/')
        .and_then(|path| path.strip_prefix(token))
    else {
        return refused();
    };
    let number = |name: &str| -> Option<f64> {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.into_iter().find(|(key, _)| *key == name)?.1;
        value.parse().ok().filter(|value: &f64| value.is_finite())
    };
    let json = |value: serde_json::Value| with("200 OK", "application/json", value.to_string());
    let span = || Some((number("from")?, number("to")?));
    let call = || number("call").map(|call| call as usize);
    let found = match name {
        "/" => Some(with("200 OK", "text/html; charset=utf-8", PAGE)),
        "/viewer.js" => Some(with("200 OK", "text/javascript; charset=utf-8", SCRIPT)),
        "/view.css" => Some(with("200 OK", "text/css; charset=utf-8", PAGE_STYLE)),
        "/viewer.css" => Some(with("200 OK", "text/css; charset=utf-8", STYLE)),
        "/data.json" => Some(json(view.data())),
        "/heat" => span().zip(lanes).map(|((from, to), lanes)| {
            let bins = number("bins").unwrap_or(0.0) as usize;
            let heat = view.heat(&lanes, from, to, bins);
            with("200 OK", "application/octet-stream", heat)
        }),
        "/calls" => span()
            .zip(lanes)
            .map(|((from, to), lanes)| json(view.calls(&lanes, from, to, MOST_CALLS))),
        "/call" => call().and_then(|call| view.call(call)).map(json),
        "/next" | "/previous" | "/worst" => {
            // Before anything was picked, the first of the worst.
            let of = call().unwrap_or(usize::MAX);
            let other = view.other(of, &name[1..]);
            other.and_then(|call| view.call(call)).map(json)
        }
        _ => None,
    };
    found.unwrap_or_else(refused)
}

/// The lanes that a question is about: an array in its body.
fn lanes(request: &mut Request) -> Option<Vec<u32>> {
    if *request.method() != Method::Post {
        return None;
    }
    serde_json::from_reader(request.as_reader().take(MOST_BODY)).ok()
}
