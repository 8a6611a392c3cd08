//! Sends metrics to a collector: OTLP over HTTP, in protobuf.
//!
//! Rule: a receiver that is slow, gone or hostile costs no look. A thread of its own sends ([`Mailbox`]),
//! with bounds on time and on the answer. Whatever does not fit is left out: the next request has all counts
//! since the start, so nothing is lost by that.

use anyhow::{bail, Context};
use flate2::write::GzEncoder;
use std::io::Write;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::time::Duration;
use ureq::http::Uri;

/// Bound on the time of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bound on an answer, bytes.
const MOST_ANSWER: u64 = 64 << 10;
/// The variable with fields of requests, as OpenTelemetry defines it.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// See the module.
pub struct Sender {
    agent: ureq::Agent,
    url: String,
    fields: Vec<(String, String)>,
}

/// Takes what is to be sent.
pub struct Mailbox(SyncSender<Vec<u8>>);

impl Mailbox {
    /// Leaves a request there, unless the one before it still waits.
    pub fn leave(&self, request: Vec<u8>) {
        let _ = self.0.try_send(request);
    }
}

impl Sender {
    /// To this address.
    ///
    /// # Errors
    /// If that is none, or the variable with fields can't be understood.
    pub fn new(url: &str) -> anyhow::Result<Sender> {
        let given = std::env::var(HEADERS).unwrap_or_default();
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            // A token is for this receiver alone.
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent(concat!("ncclscope/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Sender {
            agent: config.into(),
            url: address(url)?,
            fields: fields(&given)?,
        })
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// If it was not received, or not all of it.
    pub fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        let to = || format!("{}: the metrics were not received", self.url);
        let mut body = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        body.write_all(request)?;
        let mut post = self
            .agent
            .post(&self.url)
            .header("content-type", "application/x-protobuf")
            .header("content-encoding", "gzip");
        for (name, value) in &self.fields {
            post = post.header(name, value);
        }
        let mut response = post.send(body.finish()?).with_context(to)?;
        let status = response.status();
        let answer = response.body_mut().with_config().limit(MOST_ANSWER);
        let answer = answer.read_to_vec();
        if !status.is_success() {
            let hint = match status.as_u16() {
                401 | 403 => format!(
                    "\n  hint: {HEADERS}=\"Authorization=Bearer TOKEN\" sends a token (a space is %20)"
                ),
                404 => "\n  hint: collectors receive metrics at /v1/metrics".to_owned(),
                _ => String::new(),
            };
            bail!("{}: it answered {status}{hint}", to());
        }
        match render::metrics::otlp::rejected(&answer.with_context(to)?) {
            Ok(None) => Ok(()),
            Ok(Some((points, why))) => {
                let why = tables::printable(&why);
                bail!("{}: it rejected {points} points: {why}", self.url)
            }
            Err(_) => bail!("{}: what it answered is not OTLP", to()),
        }
    }

    /// Sends what is left in the mailbox, on a thread of its own. Each trouble is told once, until it is
    /// over.
    ///
    /// # Errors
    /// If there can be no such thread.
    pub fn start(mut self) -> anyhow::Result<Mailbox> {
        let (leave, left) = sync_channel::<Vec<u8>>(1);
        std::thread::Builder::new()
            .name("send".into())
            .spawn(move || {
                let mut told = None;
                for request in left {
                    let trouble = self.send(&request).err().map(|error| format!("{error:#}"));
                    if trouble != told {
                        match &trouble {
                            Some(trouble) => tell!("{trouble}"),
                            None => tell!("{}: the metrics are received again", self.url),
                        }
                        told = trouble;
                    }
                }
            })
            .context("a thread that sends")?;
        Ok(Mailbox(leave))
    }
}

/// Where a collector receives metrics.
fn address(url: &str) -> anyhow::Result<String> {
    let parsed: Option<Uri> = url.parse().ok();
    let known = parsed.filter(|uri| uri.authority().is_some());
    let Some(uri) = known.filter(|uri| uri.scheme_str() == Some("http")) else {
        bail!(
            "`{url}` is no address of a collector\
             \n  hint: `--otlp http://127.0.0.1:4318` sends to one on this machine"
        );
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Ok(match path {
        "" | "/" => format!("{}/v1/metrics", url.trim_end_matches('/')),
        _ => url.to_owned(),
    })
}

/// The fields of `name=value,name=value`, where values are percent-encoded.
fn fields(text: &str) -> anyhow::Result<Vec<(String, String)>> {
    let pairs = text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty());
    let field = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim().to_owned(), decoded(value.trim())?))
    };
    let all: Option<Vec<_>> = pairs.map(field).collect();
    // Values may be secrets, so they are not printed.
    all.with_context(|| {
        format!("{HEADERS} can't be understood\n  hint: name=value,name=value; a space is %20")
    })
}

/// A percent-encoded text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_metrics_is_added_if_there_is_none() {
        let address = |url| address(url).ok();
        let own = "http://127.0.0.1:4318/v1/metrics";
        assert_eq!(address("http://127.0.0.1:4318").as_deref(), Some(own));
        assert_eq!(address("http://127.0.0.1:4318/").as_deref(), Some(own));
        let other = "http://prometheus:9090/api/v1/otlp/v1/metrics";
        assert_eq!(address(other).as_deref(), Some(other));
        for none in ["", "127.0.0.1:4318", "/v1/metrics", "ftp://x", "http://"] {
            assert_eq!(address(none), None, "{none}");
        }
    }

    #[test]
    fn fields_are_those_of_the_variable() {
        let read = fields("Authorization=Bearer%20a=b, x-scope = 7,").expect("fields");
        let expected = [("Authorization", "Bearer a=b"), ("x-scope", "7")];
        assert_eq!(read, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(fields("").expect("fields"), []);
        for wrong in ["x", "a=%", "a=%zz", "a=%+1", "a=%ff"] {
            assert!(fields(wrong).is_err(), "{wrong}");
        }
    }
}
