//! Turning a recording on and off while the program runs: after a delay, and by commands that come
//! through a FIFO, as `perf record --control fifo:` takes them.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hitm_weave::board::Switch;

use super::host_time::host_nanos;

/// Time between two looks for commands.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes of a line beyond which it is no command.
const LINE_BYTES_MAX: usize = 256;

/// The moment at which a recording begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Begin {
    /// With the program.
    #[default]
    AtOnce,
    /// So long after the program.
    After(Duration),
    /// By the command `enable`.
    WhenAsked,
}

/// FIFOs through which a recording is controlled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlFiles {
    /// Commands come from here, one a line.
    pub commands: PathBuf,
    /// Each command is acknowledged here.
    pub answers: Option<PathBuf>,
}

/// A command of the user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Enable,
    Disable,
    Stop,
    Ping,
}

impl Command {
    fn parse(line: &str) -> Option<Command> {
        match line.trim() {
            "enable" | "start" => Some(Command::Enable),
            "disable" => Some(Command::Disable),
            "stop" => Some(Command::Stop),
            "ping" => Some(Command::Ping),
            _ => None,
        }
    }
}

/// Bytes of a FIFO, as lines.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    is_too_long: bool,
}

impl Lines {
    /// Adds bytes; the commands that are whole by now, none for a line that is no command.
    fn add(&mut self, bytes: &[u8]) -> Vec<Option<Command>> {
        let mut found = Vec::new();
        for &byte in bytes {
            match byte {
                b'\n' => {
                    let line = String::from_utf8_lossy(&self.bytes);
                    let is_empty = line.trim().is_empty() && !self.is_too_long;
                    let command = Command::parse(&line).filter(|_| !self.is_too_long);
                    found.extend((!is_empty).then_some(command));
                    *self = Lines::default();
                }
                _ if self.bytes.len() < LINE_BYTES_MAX => self.bytes.push(byte),
                _ => self.is_too_long = true,
            }
        }
        found
    }
}

/// The open FIFOs.
#[derive(Debug)]
pub(super) struct Pipe {
    commands: File,
    answers: Option<File>,
    lines: Lines,
}

/// Opens a FIFO without waiting for its other end.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    // For writing as well: so there is another end always, and no end of file.
    options.read(true).write(true);
    options.custom_flags(libc::O_NONBLOCK);
    if !path.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other("it is no FIFO"));
    }
    options.open(path)
}

impl Pipe {
    /// Opens the FIFOs; the one that cannot be opened, and why.
    pub(super) fn open(files: &ControlFiles) -> Result<Pipe, (PathBuf, io::Error)> {
        let open = |path: &PathBuf| open(path).map_err(|error| (path.clone(), error));
        Ok(Pipe {
            commands: open(&files.commands)?,
            answers: files.answers.as_ref().map(open).transpose()?,
            lines: Lines::default(),
        })
    }

    /// The commands that have come; none for a line that is no command.
    fn take(&mut self) -> Vec<Option<Command>> {
        let mut bytes = [0; 4096];
        // Without a command the answer is that it would block.
        let length = self.commands.read(&mut bytes).unwrap_or(0);
        self.lines.add(&bytes[..length])
    }

    /// Tells that a command was obeyed. An answer that nobody takes stops no recording.
    fn acknowledge(&mut self) {
        if let Some(answers) = &mut self.answers {
            let _ = answers.write_all(b"ack\n");
        }
    }
}

/// The user's wishes for when to record.
#[derive(Debug)]
pub(super) struct Control {
    pipe: Option<Pipe>,
    switch: Switch,
    begin: Begin,
    /// The time at which the recording is to begin, if it has not.
    begins_at: Option<Instant>,
    duration: Option<Duration>,
    /// The time at which it is to end.
    ends_at: Option<Instant>,
    has_begun: bool,
    is_stop_asked: bool,
    looked_at: Instant,
    unknown_commands: u64,
}

impl Control {
    /// The recording is off unless it is to begin `AtOnce`. Times count from [`Control::start`] on.
    pub(super) fn new(
        pipe: Option<Pipe>,
        begin: Begin,
        duration: Option<Duration>,
        switch: Switch,
    ) -> Control {
        switch.set_paused(begin != Begin::AtOnce, host_nanos());
        Control {
            pipe,
            switch,
            begin,
            begins_at: None,
            duration,
            ends_at: None,
            has_begun: false,
            is_stop_asked: false,
            looked_at: Instant::now(),
            unknown_commands: 0,
        }
    }

    /// The program runs.
    pub(super) fn start(&mut self) {
        let now = Instant::now();
        match self.begin {
            Begin::AtOnce => self.enable(now),
            Begin::After(delay) => self.begins_at = Some(now + delay),
            Begin::WhenAsked => {}
        }
    }

    /// Obeys commands and the clock.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        if now - self.looked_at < LOOK_EVERY {
            return;
        }
        self.looked_at = now;
        if self.begins_at.is_some_and(|begin| now >= begin) {
            self.enable(now);
        }
        let commands = self.pipe.as_mut().map(Pipe::take).unwrap_or_default();
        for command in commands {
            self.obey(command, now);
        }
    }

    fn obey(&mut self, command: Option<Command>, now: Instant) {
        match command {
            Some(Command::Enable) => self.enable(now),
            Some(Command::Disable) => {
                self.begins_at = None;
                self.switch.set_paused(true, host_nanos());
            }
            Some(Command::Stop) => self.is_stop_asked = true,
            Some(Command::Ping) => {}
            None => {
                self.unknown_commands += 1;
                return;
            }
        }
        if let Some(pipe) = &mut self.pipe {
            pipe.acknowledge();
        }
    }

    fn enable(&mut self, now: Instant) {
        self.begins_at = None;
        self.switch.set_paused(false, host_nanos());
        if !std::mem::replace(&mut self.has_begun, true) {
            self.ends_at = self.duration.map(|duration| now + duration);
        }
    }

    /// Returns true if the recording is to end.
    pub(super) fn is_over(&self) -> bool {
        self.is_stop_asked || self.ends_at.is_some_and(|end| Instant::now() >= end)
    }

    /// Lines of the FIFO that were no commands.
    pub(super) fn unknown_commands(&self) -> u64 {
        self.unknown_commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_in_lines_however_they_are_cut() {
        let mut lines = Lines::default();
        assert_eq!(lines.add(b"ena"), []);
        assert_eq!(
            lines.add(b"ble\n\ndisable \nstart\nst"),
            [
                Some(Command::Enable),
                Some(Command::Disable),
                Some(Command::Enable)
            ]
        );
        assert_eq!(lines.add(b"op\nsnapshot\n"), [Some(Command::Stop), None]);
        let long = [b"ping".as_slice(), &[b' '; LINE_BYTES_MAX], b"x\nping\n"].concat();
        assert_eq!(lines.add(&long), [None, Some(Command::Ping)]);
    }

    #[test]
    fn what_is_no_fifo_is_refused_without_being_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "stop\n").unwrap();
        assert_eq!(open(&path).unwrap_err().to_string(), "it is no FIFO");
        let missing = open(&directory.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
