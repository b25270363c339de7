//! Who is at the terminal? Questions go to /dev/tty and answers come from there, never from piped standard input.

use agent::ask::{Answer, Person, Question};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How often Ctrl-C is looked for while a question waits.
pub const LOOK: Duration = Duration::from_millis(100);
/// The longest line that is read, in bytes; a longer one is cut into several, none of which is an answer.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Lines that wait to be read.
const LINES_WAITING_MAX: usize = 64;

/// A person at the terminal that this process belongs to.
pub struct Terminal<'a> {
    tty: File,
    /// Lines as they are typed, from the first question on.
    lines: Option<Receiver<String>>,
    cancel: &'a AtomicBool,
}

impl<'a> Terminal<'a> {
    /// `None` where nobody looks at what this process prints, or it has no terminal.
    pub fn open(cancel: &'a AtomicBool) -> Option<Self> {
        let watched = std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
        let tty = watched.then(|| OpenOptions::new().read(true).write(true).open("/dev/tty").ok()).flatten()?;
        Some(Self { tty, lines: None, cancel })
    }

    fn lines(&mut self) -> std::io::Result<&Receiver<String>> {
        if self.lines.is_none() {
            self.lines = Some(lines_of(self.tty.try_clone()?));
        }
        self.lines.as_ref().ok_or_else(|| std::io::Error::other("just made"))
    }

    fn put(&mut self, question: &Question, deadline: Instant) -> std::io::Result<()> {
        let seconds = deadline.saturating_duration_since(Instant::now()).as_secs();
        let rule = question.rule.as_deref().unwrap_or("none");
        writeln!(self.tty, "\nThe agent asks whether this may run (rule {rule}: {}):", question.reason)?;
        // What is asked about cannot leave its margin, so it cannot look like the question.
        for line in question.shown.lines() {
            writeln!(self.tty, "  | {line}")?;
        }
        if !question.shown.is_ascii() {
            writeln!(self.tty, "  (not only ASCII: letters may look like others)")?;
        }
        writeln!(self.tty, "  yes      this time\n  session  as long as this session lives: {}", question.covers())?;
        write!(self.tty, "  no       not\nyes, session or no? ({seconds} s, silence is no) ")?;
        self.tty.flush()
    }

    /// Whole words, so that a key that was hit before the question was there answers nothing.
    fn wait(&mut self, deadline: Instant) -> std::io::Result<Answer> {
        let cancel = self.cancel;
        while !cancel.load(Ordering::Relaxed) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let answer = match self.lines()?.recv_timeout(left.min(LOOK)) {
                Ok(line) => match line.trim() {
                    "yes" => Some(Answer::Yes),
                    "session" => Some(Answer::YesForSession),
                    "no" | "n" => Some(Answer::No),
                    _ => None,
                },
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match answer {
                Some(answer) => return Ok(answer),
                None => write!(self.tty, "yes, session or no? ")?,
            }
        }
        writeln!(self.tty, "\n(no answer: it does not run)")?;
        Ok(Answer::Silence)
    }
}

/// The lines of something that blocks. Nothing can wake the thread that reads it: it ends with the process.
pub fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = sync_channel(LINES_WAITING_MAX);
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            let read = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let over = !matches!(read, Ok(1..));
            if over || send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

impl Person for Terminal<'_> {
    fn ask(&mut self, question: &Question, deadline: Instant) -> Answer {
        let asked = self.lines().map(|lines| while lines.try_recv().is_ok() {});
        asked.and_then(|()| self.put(question, deadline)).and_then(|()| self.wait(deadline)).unwrap_or(Answer::Silence)
    }
}
