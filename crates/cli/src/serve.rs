//! `ncclscope serve`: metrics of a running job, over HTTP, in a file, or sent to a collector.
//!
//! A thread looks at the capture again and again, as `ncclscope top` does, and keeps the newest page. A
//! request gets that page, so it costs no look, and no request can make another wait. Another thread sends
//! ([`otlp`]), so that no receiver can make a look wait.
//!
//! Rule: without a token, only programs on this machine are served ([`crate::http`]).

mod otlp;

use crate::http::{Request, Response, Server};
use crate::top::watch::{self, Look, Watch};
use anyhow::{bail, Context};
use render::metrics::otlp::Origin;
use render::metrics::text::{text, Format};
use render::metrics::{self, Family, Metrics};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use tables::OpenError;

/// Serve metrics of a running job to Prometheus, write them for node_exporter, or send them by OTLP
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
    /// Names of the metrics: ncclscope's own, or those of NCCL Inspector's exporter
    #[arg(long, value_enum, default_value_t)]
    names: Names,
    /// Send the metrics to this collector, too (OTLP over HTTP). Without a path, /v1/metrics is added. Fields
    /// such as a token come from OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Write the metrics to this file, too, for node_exporter's textfile collector (*.prom)
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
    /// Write the file or send once and end, without listening
    #[arg(long)]
    once: bool,
    /// How much gauges look at, up to the newest call, like 60s or 5min
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::top::time)]
    span: i64,
    /// How often to look, at most
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = crate::top::time)]
    every: i64,
}

/// Whose names metrics have.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Names {
    /// ncclscope_calls_total and so on
    #[default]
    Own,
    /// nccl_bus_bandwidth_gbs and so on, for dashboards that are there already
    Inspector,
}

impl From<Names> for metrics::Names {
    fn from(names: Names) -> metrics::Names {
        match names {
            Names::Own => metrics::Names::Own,
            Names::Inspector => metrics::Names::Inspector,
        }
    }
}

/// The newest page; nothing before the first look.
type Newest = Arc<Mutex<Option<String>>>;

/// Serves until it is interrupted.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    if args.once && args.textfile.is_none() && args.otlp.is_none() {
        bail!("`--once` needs a place for the metrics\n  hint: `--textfile FILE` or `--otlp URL`");
    }
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
    let sender = args.otlp.as_deref().map(otlp::Sender::new).transpose()?;
    let mut outlets = Outlets {
        metrics: Metrics::new(args.names.into()),
        newest: Newest::default(),
        file: args.textfile,
        mailbox: None,
        last: None,
    };
    let mut watch = Watch::new(&folder, args.span, args.every).counting();
    if args.once {
        let look = watch.look().map_err(crate::report::hinted)?;
        let families = outlets.put(&look)?;
        if let Some(mut sender) = sender {
            sender.send(&metrics::otlp::request(&families, &origin(&look)))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let server = Server::open(args.listen, token).map_err(|error| {
        anyhow::anyhow!(
            "{} can't be used: {error}\n  hint: `--listen 127.0.0.1:0` takes a free port",
            args.listen
        )
    })?;
    outlets.mailbox = sender.map(otlp::Sender::start).transpose()?;
    // What can't be read at all is said before anything is served.
    match watch.look() {
        Ok(look) => drop(outlets.put(&look)?),
        Err(OpenError::NoTrace { .. }) => {}
        Err(error) => return Err(crate::report::hinted(error)),
    }
    let address = server.listens_at().context("listening")?;
    tell!("http://{address}/metrics");
    tell!(
        "Metrics of {}. They are served until Ctrl-C.",
        folder.display()
    );
    let newest = outlets.newest.clone();
    std::thread::Builder::new()
        .name("watch".into())
        .spawn(move || outlets.watch(watch))
        .context("a thread that reads")?;
    server
        .serve(|request| answer(request, &newest))
        .context("listening")?;
    Ok(ExitCode::SUCCESS)
}

/// Where metrics go.
struct Outlets {
    metrics: Metrics,
    newest: Newest,
    file: Option<PathBuf>,
    mailbox: Option<otlp::Mailbox>,
    /// What the newest look gave.
    last: Option<(Vec<Family>, Origin)>,
}

impl Outlets {
    /// Looks for as long as the process runs. Each trouble is told once, until it is over.
    fn watch(mut self, mut watch: Watch) {
        let mut told = None;
        loop {
            watch.pause();
            let trouble = match watch.look() {
                Ok(look) => self.put(&look).err().map(|error| format!("{error:#}")),
                // Nothing was recorded yet.
                Err(OpenError::NoTrace { .. }) if self.last.is_none() => None,
                Err(error) => {
                    let said = self.put_unreadable();
                    let error = format!("{:#}", crate::report::hinted(error));
                    Some(said.err().map_or(error, |error| format!("{error:#}")))
                }
            };
            if trouble != told {
                if let Some(trouble) = &trouble {
                    tell!("{trouble}");
                }
                told = trouble;
            }
        }
    }

    /// Puts what was seen where it belongs.
    fn put(&mut self, look: &Look) -> anyhow::Result<Vec<Family>> {
        let families = self.metrics.families(&look.now, &look.capture);
        let origin = origin(look);
        self.last = Some((families.clone(), origin.clone()));
        self.hand_out(&families, &origin)?;
        Ok(families)
    }

    /// Says that there is nothing new, because the capture can't be read.
    fn put_unreadable(&mut self) -> anyhow::Result<()> {
        let Some((families, origin)) = self.last.clone() else {
            return Ok(());
        };
        let origin = Origin {
            at_ns: now_ns(),
            ..origin
        };
        self.hand_out(&metrics::unreadable(families), &origin)
    }

    fn hand_out(&self, families: &[Family], origin: &Origin) -> anyhow::Result<()> {
        let page = text(families, Format::OpenMetrics);
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
        if let Some(mailbox) = &self.mailbox {
            mailbox.leave(metrics::otlp::request(families, origin));
        }
        if let Some(file) = &self.file {
            let page = text(families, Format::Text);
            // node_exporter may read at any moment: the file is replaced as a whole.
            crate::report::replace(file, page.as_bytes())?;
        }
        Ok(())
    }
}

/// Time of this machine, ns since 1970.
fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Whose metrics these are.
fn origin(look: &Look) -> Origin {
    let began = look.capture.attempts.last().and_then(|last| last.began_ns);
    let at_ns = now_ns();
    Origin {
        instance: look.now.job.clone().unwrap_or_default(),
        start_ns: began.map_or(at_ns, i64::unsigned_abs),
        at_ns,
    }
}

fn answer(request: &Request, newest: &Newest) -> Response {
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
