//! A program that does what it is told, line by line. The tests of `ncclscope attach` use it, too.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// It is killed when this is dropped.
pub struct Told {
    /// The process.
    pub child: Child,
    /// Lines for it.
    pub input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Told {
    /// Starts it.
    pub fn start(command: &mut Command) -> Told {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Told {
            child,
            input,
            output,
        }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the job listens");
    }

    /// Waits for a line.
    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the job answers");
        line.trim().to_owned()
    }

    /// Sends a line, and waits for one.
    pub fn tell(&mut self, line: &str) -> String {
        self.send(line);
        self.answer()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
