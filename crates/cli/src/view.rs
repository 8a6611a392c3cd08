//! `ncclscope view`: a capture in a browser, served from here to here.
//!
//! The page and what it asks for are under a random token, on 127.0.0.1 only ([`crate::http`]).

use crate::http::{Request, Response, Server};
use crate::progress;
use anyhow::Context;
use render::events::Events;
use render::timeline::Timeline;
use render::view::{View, PAGE, PAGE_STYLE, SCRIPT, STYLE};
use std::path::PathBuf;
use std::process::ExitCode;

/// Look at a capture in a browser: who waits for whom, over the run, in a step, in one operation
#[derive(clap::Args)]
pub struct Args {
    /// Capture folder, the folder of one host in it, or one trace file; or files of other tools [default: the
    /// newest capture in this folder or below]
    #[arg(value_name = "DIR")]
    capture: Option<PathBuf>,
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    #[command(flatten)]
    offsets: crate::offsets::Offsets,
    #[command(flatten)]
    attempt: crate::attempt::Attempt,
    #[command(flatten)]
    part: crate::part::Part,
}

/// So many calls are drawn one by one; the page has the same number.
const MOST_CALLS: usize = 20_000;

/// Serves the viewer until it is interrupted.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let path = crate::captures::named_or_newest(args.capture)?;
    let given = args.offsets.read()?;
    let mut capture = crate::report::open_attempt(&path, args.attempt.which())?;
    crate::attempt::tell(&capture);
    args.part.keep(&mut capture)?;
    if capture.processes.iter().all(|p| p.calls.is_empty()) {
        anyhow::bail!(
            "`{0}` holds no single call that could be drawn\
             \n  hint: `ncclscope report {0}` says what it holds",
            path.display()
        );
    }
    let (report, server) = progress::show("reading", |_| {
        let report = analyze::report_with(&capture, given);
        (report, Server::new(args.port))
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
    let port = server.port();
    tell!("{}", server.address());
    tell!("Open this address in a browser on this machine. It is served until Ctrl-C.");
    tell!("From another machine: ssh -L {port}:127.0.0.1:{port} HOST, then open the same address there.");
    let served = server.serve(|request| answer(&view, request));
    served.context("listening")?;
    Ok(ExitCode::SUCCESS)
}

fn with(kind: &'static str, body: impl Into<Vec<u8>>) -> Response {
    Response::new("200 OK", kind, body)
}

fn answer(view: &View, request: &Request) -> Response {
    let lanes = lanes(request);
    let (name, query) = (request.path.as_str(), request.query.as_str());
    let number = |name: &str| -> Option<f64> {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.into_iter().find(|(key, _)| *key == name)?.1;
        value.parse().ok().filter(|value: &f64| value.is_finite())
    };
    let json = |value: serde_json::Value| with("application/json", value.to_string());
    let span = || Some((number("from")?, number("to")?));
    let call = || number("call").map(|call| call as usize);
    let found = match name {
        "/" => Some(with("text/html; charset=utf-8", PAGE)),
        "/viewer.js" => Some(with("text/javascript; charset=utf-8", SCRIPT)),
        "/view.css" => Some(with("text/css; charset=utf-8", PAGE_STYLE)),
        "/viewer.css" => Some(with("text/css; charset=utf-8", STYLE)),
        "/data.json" => Some(json(view.data())),
        "/heat" => span().zip(lanes).map(|((from, to), lanes)| {
            let bins = number("bins").unwrap_or(0.0) as usize;
            let heat = view.heat(&lanes, from, to, bins);
            with("application/octet-stream", heat)
        }),
        "/calls" => span()
            .zip(lanes)
            .map(|((from, to), lanes)| json(view.calls(&lanes, from, to, MOST_CALLS))),
        "/call" => call().and_then(|call| view.call(call)).map(json),
        "/next" | "/previous" | "/worst" => {
            // Before anything was picked, the first of the worst.
            let of = call().unwrap_or(usize::MAX);
            let other = view.other(of, &name[1..]);
            // There may be none: no rank waited, or it was the last of its kind.
            let call = other.and_then(|call| view.call(call));
            Some(json(call.unwrap_or(serde_json::Value::Null)))
        }
        _ => None,
    };
    found.unwrap_or_else(Response::nothing)
}

/// The lanes that a question is about: an array in its body.
fn lanes(request: &Request) -> Option<Vec<u32>> {
    if request.is_get {
        return None;
    }
    serde_json::from_slice(&request.body).ok()
}
