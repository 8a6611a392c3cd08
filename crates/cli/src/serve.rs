//! `ncclscope serve`: metrics of a running job, over HTTP or in a file.
//!
//! A thread looks at the capture again and again, as `ncclscope top` does, and keeps the newest page. A
//! request gets that page, so it costs no look, and no request can make another wait.
//!
//! Rule: without a token, only programs on this machine are served ([`crate::http`]).

use crate::http::{Request, Response, Server};
use crate::top::watch::{self, Watch};
use anyhow::{bail, Context};
use render::metrics::{self, Format};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use tables::OpenError;

/// Serve metrics of a running job to Prometheus, or write them for node_exporter
///
/// Metrics are at http://ADDRESS/metrics in the format OpenMetrics. The judgement is that of `report` and
/// `hang`. Other nodes may write to the folder, too.
#[derive(clap::Args)]
pub struct Args {
    /// Capture folder; without it, the job of yours that runs on this node
    #[arg(value_name = "DIR")]
    capture: Option<PathBuf>,
    /// Where to listen. An address that other machines can reach needs --token-file
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9477")]
    listen: SocketAddr,
    /// Serve only those who send the token in this file (Authorization: Bearer TOKEN)
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Write the metrics to this file, too, for node_exporter's textfile collector (*.prom)
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// Write the file once and end, without listening
    #[arg(long, requires = "textfile")]
    once: bool,
    /// How much gauges look at, up to the newest call, like 60s or 5min
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::top::time)]
    span: i64,
    /// How often to look, at most
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = crate::top::time)]
    every: i64,
}

/// The newest page; nothing before the first look.
type Newest = Arc<Mutex<Option<String>>>;

/// Serves until it is interrupted.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let folder = match args.capture {
        Some(folder) => folder,
        None => watch::running()?,
    };
    let token = args.token_file.as_deref().map(token).transpose()?;
    if token.is_none() && !args.listen.ip().is_loopback() {
        bail!(
            "other machines can reach {}, and there is no token\
             \n  hint: `--token-file FILE` serves only those who send the token in FILE. The token travels \
             unencrypted: outside of a trusted network, put a proxy with TLS in front of 127.0.0.1",
            args.listen
        );
    }
    let mut watch = Watch::new(&folder, args.span, args.every).counting();
    let file = args.textfile;
    if args.once {
        look(&mut watch, file.as_deref(), None).map_err(Failed::hinted)?;
        return Ok(ExitCode::SUCCESS);
    }
    let server = Server::open(args.listen, token).map_err(|error| {
        anyhow::anyhow!(
            "{} can't be used: {error}\n  hint: `--listen 127.0.0.1:0` takes a free port",
            args.listen
        )
    })?;
    let newest = Newest::default();
    // What can't be read at all is said before anything is served.
    match look(&mut watch, file.as_deref(), Some(&newest)) {
        Ok(()) | Err(Failed::Capture(OpenError::NoTrace { .. })) => {}
        Err(error) => return Err(error.hinted()),
    }
    let address = server.listens_at().context("listening")?;
    tell!("http://{address}/metrics");
    tell!(
        "Metrics of {}. They are served until Ctrl-C.",
        folder.display()
    );
    let of_thread = newest.clone();
    std::thread::Builder::new()
        .name("watch".into())
        .spawn(move || loop {
            watch.pause();
            // Nothing to read for a moment is no reason to stop. The age of the evidence shows it.
            if let Err(Failed::File(error)) = look(&mut watch, file.as_deref(), Some(&of_thread)) {
                tell!("{error:#}");
            }
        })
        .context("a thread that reads")?;
    server
        .serve(|request| answer(request, &newest))
        .context("listening")?;
    Ok(ExitCode::SUCCESS)
}

/// Why a look gave nothing.
enum Failed {
    /// The capture can't be read.
    Capture(OpenError),
    /// The file can't be written.
    File(anyhow::Error),
}

impl Failed {
    fn hinted(self) -> anyhow::Error {
        match self {
            Failed::Capture(error) => crate::report::hinted(error),
            Failed::File(error) => error,
        }
    }
}

/// Looks, and puts the metrics where they belong.
fn look(watch: &mut Watch, file: Option<&Path>, newest: Option<&Newest>) -> Result<(), Failed> {
    let seen = watch.look().map_err(Failed::Capture)?;
    if let Some(newest) = newest {
        let page = metrics::text(&seen.now, &seen.capture, Format::OpenMetrics);
        *newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
    }
    if let Some(file) = file {
        let page = metrics::text(&seen.now, &seen.capture, Format::Text);
        // node_exporter may read at any moment: the file is replaced as a whole.
        crate::report::replace(file, page.as_bytes()).map_err(Failed::File)?;
    }
    Ok(())
}

fn answer(request: &Request, newest: &Newest) -> Response {
    if !request.is_get {
        return Response::nothing();
    }
    match request.path.as_str() {
        "/metrics" => {
            let newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
            match &*newest {
                Some(page) => Response::new("200 OK", Format::OpenMetrics.kind(), page.as_bytes()),
                None => {
                    let text = "nothing was recorded yet\n";
                    Response::new("503 Service Unavailable", "text/plain; charset=utf-8", text)
                }
            }
        }
        "/" => {
            let text = "ncclscope serve: metrics are at /metrics\n";
            Response::new("200 OK", "text/plain; charset=utf-8", text)
        }
        _ => Response::nothing(),
    }
}

/// The token in a file.
fn token(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("the token in `{}`", file.display()))?;
    let token = text.trim();
    if token.len() < 16 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!(
            "`{0}` holds no token: 16 or more letters, digits or signs on one line are expected\
             \n  hint: openssl rand -hex 16 > {0} && chmod 600 {0}",
            file.display()
        );
    }
    Ok(token.to_owned())
}
