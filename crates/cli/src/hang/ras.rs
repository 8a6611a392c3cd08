//! Asks NCCL's RAS, which answers for all processes of a job (NCCL 2.24 or newer; text, over TCP).
//!
//! RAS does not say how long a rank has waited. So it is asked a second time if the first answer leaves the
//! verdict open: a count that stands still in between is a wait of that length.
//!
//! Rule: an answer is read within bounds of bytes and time. RAS waits a few seconds for processes that do not
//! answer, so its own limit is told to it.

use analyze::hang::Hang;
use anyhow::{bail, Context};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;
use tables::Capture;

/// Bytes of an answer at most.
const MOST_BYTES: u64 = 1 << 28;
/// Time for a connection, and for each line of the greeting.
const PATIENCE: Duration = Duration::from_secs(5);
/// For how long RAS collects, and for how long its answer is awaited: RAS adds some seconds itself.
const COLLECT_S: u64 = 5;
const ANSWER: Duration = Duration::from_secs(60);
/// Between two answers, unless the user says from when on a wait is a hang: just beyond what is part of any
/// job.
const APART: Duration = Duration::from_secs(6);

/// `HOST:PORT`, if a text is one.
pub(super) fn address(text: &str) -> Option<&str> {
    let (host, port) = text.rsplit_once(':')?;
    let is_host = !host.is_empty() && !host.contains(['/', ' ']);
    (is_host && port.parse::<u16>().is_ok()).then_some(text)
}

/// Asks RAS, and gives its answers to `look`; once more if the first one leaves the verdict open.
pub(super) fn ask(
    address: &str,
    after_ns: Option<i64>,
    look: impl Fn(&Path) -> anyhow::Result<(Hang, Capture)>,
) -> anyhow::Result<(Hang, Capture)> {
    let folder = tempfile::Builder::new().prefix("ncclscope-").tempdir()?;
    let once = |number: u32| -> anyhow::Result<()> {
        let answer = answer(address).with_context(|| format!("asking NCCL's RAS at {address}"))?;
        let file = folder.path().join(format!("ras-{number}"));
        std::fs::write(&file, answer).with_context(|| format!("writing `{}`", file.display()))
    };
    once(0)?;
    let (first, capture) = look(folder.path())?;
    let is_open = first.verdict.hang().is_none() && !first.verdict.blamed().is_empty();
    if !is_open {
        return Ok((first, capture));
    }
    let apart = after_ns
        .and_then(|ns| u64::try_from(ns).ok())
        .map_or(APART, Duration::from_nanos);
    tell!(
        "Some ranks are behind the others: RAS is asked again in {:.0} s.",
        apart.as_secs_f64().max(1.0)
    );
    // Its times are whole seconds.
    std::thread::sleep(apart.max(Duration::from_secs(1)));
    once(1)?;
    look(folder.path())
}

/// One answer: JSON, or text of an NCCL before 2.28.7.
fn answer(address: &str) -> anyhow::Result<Vec<u8>> {
    let mut last = None;
    for place in address.to_socket_addrs().context("finding the host")? {
        match TcpStream::connect_timeout(&place, PATIENCE) {
            Ok(stream) => return talk(stream),
            Err(error) => last = Some(error),
        }
    }
    let error = last.map_or("it has no address".to_owned(), |error| error.to_string());
    bail!(
        "no connection ({error})\n  hint: ask on a node of the job while it runs; NCCL 2.24 or newer listens \
         on localhost:28028 there, or where NCCL_RAS_ADDR says"
    )
}

fn talk(mut stream: TcpStream) -> anyhow::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut from = BufReader::new(stream.try_clone()?.take(MOST_BYTES));
    let mut say = |line: &str| -> anyhow::Result<String> {
        stream.write_all(line.as_bytes())?;
        let mut reply = String::new();
        (&mut from).take(4096).read_line(&mut reply)?;
        Ok(reply)
    };
    let greeting = say("CLIENT PROTOCOL 2\n")?;
    if !greeting
        .to_ascii_uppercase()
        .starts_with("SERVER PROTOCOL ")
    {
        bail!(
            "expected `SERVER PROTOCOL`, found `{}`\n  hint: another program listens there",
            greeting.trim().escape_debug()
        );
    }
    say(&format!("TIMEOUT {COLLECT_S}\n"))?;
    // An error before 2.28.7, whose text is then all there is.
    say("SET FORMAT json\n")?;
    stream.write_all(b"VERBOSE STATUS\n")?;
    stream.set_read_timeout(Some(ANSWER))?;
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_told_apart() {
        assert_eq!(address("localhost:28028"), Some("localhost:28028"));
        assert_eq!(address("[::1]:28028"), Some("[::1]:28028"));
        for text in ["run", "run:", ":28028", "a/b:1", "run:99999", "run:x"] {
            assert_eq!(address(text), None, "{text}");
        }
    }
}
