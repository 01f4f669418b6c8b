//! QEMU's machine protocol: requests and answers as lines of JSON on a socket.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Time that an answer may take: QEMU writes pages of memory meanwhile, also on a busy host.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Time that writing or reading a machine's state may take.
const STATE_TIME_MAX: Duration = Duration::from_secs(300);
/// Interval between polls.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// A connection to a running QEMU.
#[derive(Debug)]
pub(super) struct Qmp {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Qmp {
    pub(super) fn connect(socket: &Path) -> io::Result<Qmp> {
        let writer = UnixStream::connect(socket)?;
        writer.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        let reader = BufReader::new(writer.try_clone()?);
        let mut qmp = Qmp { writer, reader };
        qmp.read_line()?; // QEMU's greeting.
        qmp.ask("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Sends a command and waits for what it returns.
    pub(super) fn ask(&mut self, command: &str, arguments: Value) -> io::Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        // In one write: QEMU acts at the last brace, and after `quit` a separate line feed would
        // meet a closed socket.
        self.writer.write_all(format!("{request}\n").as_bytes())?;
        loop {
            let line = self.read_line()?;
            let answer: Value = serde_json::from_str(&line)?;
            if let Some(value) = answer.get("return") {
                return Ok(value.clone());
            }
            if let Some(error) = answer.get("error") {
                let text = error["desc"].as_str().unwrap_or("no reason given");
                return Err(io::Error::other(format!("QEMU refuses {command}: {text}")));
            }
            // Any other message is an event.
        }
    }

    /// Copies guest memory at a physical address into a file.
    pub(super) fn save_physical(&mut self, at: u64, size: u64, file: &Path) -> io::Result<()> {
        let arguments = json!({ "val": at, "size": size, "filename": file });
        self.ask("pmemsave", arguments).map(drop)
    }

    /// Stops the machine's CPUs.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.ask("stop", json!({})).map(drop)
    }

    /// Copies guest memory at an address of the first CPU's address space into a file.
    pub(super) fn save_virtual(&mut self, at: u64, size: u64, file: &Path) -> io::Result<()> {
        let arguments = json!({ "val": at, "size": size, "filename": file, "cpu-index": 0 });
        self.ask("memsave", arguments).map(drop)
    }

    /// Writes the whole state of the machine into a file; the machine is stopped afterwards.
    pub(super) fn save_machine(&mut self, file: &Path) -> io::Result<()> {
        self.stop()?;
        let uri = format!("file:{}", file.display());
        self.ask("migrate", json!({ "uri": uri }))?;
        self.wait_for("query-migrate", &["completed"])
    }

    /// Waits until the machine has been read from its file.
    pub(super) fn wait_for_machine(&mut self) -> io::Result<()> {
        // The states "prelaunch" and "inmigrate" come before.
        self.wait_for("query-status", &["paused", "running"])
    }

    /// Lets the machine run.
    pub(super) fn resume_machine(&mut self) -> io::Result<()> {
        self.ask("cont", json!({})).map(drop)
    }

    /// Ends QEMU, whatever the guest does. QEMU may exit before it answers.
    pub(super) fn quit(&mut self) {
        let _ = self.ask("quit", json!({}));
    }

    fn wait_for(&mut self, query: &str, wanted: &[&str]) -> io::Result<()> {
        let started = Instant::now();
        while started.elapsed() < STATE_TIME_MAX {
            let answer = self.ask(query, json!({}))?;
            let status = answer["status"].as_str().unwrap_or("");
            if wanted.contains(&status) {
                return Ok(());
            }
            if status == "failed" {
                let text = answer["error-desc"].as_str().unwrap_or("no reason given");
                return Err(io::Error::other(format!("QEMU: {text}")));
            }
            std::thread::sleep(POLL_EVERY);
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("QEMU did not finish within {} s", STATE_TIME_MAX.as_secs()),
        ))
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "QEMU ended")),
            _ => Ok(line),
        }
    }
}
