//! How far long work is, for who waits at a terminal.
//!
//! Rule: nothing is shown in the first second, nor where standard error is not a terminal, and nothing stays
//! behind.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;
use tables::ReadProgress;

const PATIENCE: Duration = Duration::from_secs(1);
const REFRESH: Duration = Duration::from_millis(100);

/// Does `work`, which says how far it is; `what` names it.
pub fn show<T>(what: &'static str, work: impl FnOnce(&ReadProgress) -> T) -> T {
    let progress = ReadProgress::default();
    if !std::io::stderr().is_terminal() {
        return work(&progress);
    }
    std::thread::scope(|scope| {
        let (working, over) = channel::<()>();
        scope.spawn(|| draw(what, &progress, over));
        let done = work(&progress);
        drop(working);
        done
    })
}

/// Draws until the other end of `over` is gone.
fn draw(what: &'static str, progress: &ReadProgress, over: Receiver<()>) {
    if over.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_message(what);
    let style = |text: &str| {
        ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_bar())
    };
    loop {
        match progress.of.load(Relaxed) {
            0 => bar.set_style(style("{msg}, {bytes} in {elapsed}")),
            of => {
                bar.set_style(
                    style("{msg} [{bar:40}] {percent}%, {eta} left").progress_chars("=> "),
                );
                bar.set_length(of);
            }
        }
        bar.set_position(progress.done.load(Relaxed));
        bar.tick();
        if over.recv_timeout(REFRESH) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    bar.finish_and_clear();
}

/// Counts the bytes that go through.
pub struct CountingReader<'a, W> {
    /// Where they go.
    pub to: W,
    /// How many there were.
    pub bytes: &'a AtomicU64,
}

impl<W: Write> Write for CountingReader<'_, W> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(buffer)?;
        self.bytes.fetch_add(written as u64, Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}
