//! The host's end of the connection to the guest agent (guest/agent.c has the protocol).

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use hitm_files::temporary;

use super::qmp::Qmp;

/// The agent's first word, before the number of CPUs that are up.
const GREETING: &str = "hitm-agent 2 ";
/// Time that a guest may take to boot on this host. Its CPUs come up one after the other.
const BOOT_TIME_MAX: Duration = Duration::from_secs(600);
const BOOT_TIME_OF_CPU_MAX: Duration = Duration::from_secs(5);
/// Bytes of a piece of a file that the agent hands over.
const PIECE_BYTES: u64 = 2 << 20;
/// Largest file of a guest that is taken over.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Connection to the agent of a running guest.
#[derive(Debug)]
pub(super) struct Agent {
    writer: UnixStream,
    reader: BufReader<UnixStream>,
    /// Start of a line whose end has not come.
    partial: String,
}

impl Agent {
    pub(super) fn connect(socket: &Path) -> io::Result<Agent> {
        let writer = UnixStream::connect(socket)?;
        let reader = BufReader::new(writer.try_clone()?);
        Ok(Agent {
            writer,
            reader,
            partial: String::new(),
        })
    }

    /// Waits until the guest has booted, with all of its CPUs.
    pub(super) fn wait_until_ready(&mut self, cpu_count: usize) -> io::Result<()> {
        let patience = BOOT_TIME_MAX + BOOT_TIME_OF_CPU_MAX * cpu_count as u32;
        let Some(line) = self.read_line(patience)? else {
            let problem = format!("the guest did not boot within {} s", patience.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
        };
        let up = line.strip_prefix(GREETING);
        match up.and_then(|count| count.parse::<usize>().ok()) {
            Some(up) if up == cpu_count => Ok(()),
            Some(up) => Err(io::Error::other(format!(
                "the kernel brought up {up} of {cpu_count} CPUs"
            ))),
            None => Err(io::Error::other(format!("the guest agent says: {line}"))),
        }
    }

    /// Sends a request.
    pub(super) fn send(&mut self, request: &str) -> io::Result<()> {
        writeln!(self.writer, "{request}")
    }

    /// Returns the next line, if one comes within `patience`.
    fn read_line(&mut self, patience: Duration) -> io::Result<Option<String>> {
        self.reader.get_ref().set_read_timeout(Some(patience))?;
        match self.reader.read_line(&mut self.partial) {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the guest ended before its workload did",
            )),
            Ok(_) => Ok(Some(
                std::mem::take(&mut self.partial).trim_end().to_owned(),
            )),
            Err(error) if is_timeout(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the workload's exit status, if it ends within `patience`.
    pub(super) fn exit_status(&mut self, patience: Duration) -> io::Result<Option<u8>> {
        let Some(line) = self.read_line(patience)? else {
            return Ok(None);
        };
        let status = line
            .strip_prefix("exit ")
            .and_then(|text| text.parse().ok());
        match status {
            Some(status) => Ok(Some(status)),
            None => Err(io::Error::other(format!("the guest agent says: {line}"))),
        }
    }

    /// Reads a file of the guest, through its memory.
    pub(super) fn fetch(
        &mut self,
        qmp: &mut Qmp,
        path: &str,
        patience: Duration,
    ) -> io::Result<Vec<u8>> {
        self.send(&format!("file {path}"))?;
        let answer = self.read_line(patience)?.unwrap_or_default();
        let unexpected = || io::Error::other(format!("asked for {path}, the guest says: {answer}"));
        let mut words = answer.split_ascii_whitespace();
        if words.next() != Some("file") {
            return Err(unexpected());
        }
        let size = words.next().and_then(|word| word.parse::<u64>().ok());
        let size = size
            .filter(|&size| size <= FILE_BYTES_MAX)
            .ok_or_else(unexpected)?;
        let piece = temporary::file()?;
        let mut bytes = Vec::new();
        for word in words {
            let digits = word.strip_prefix("0x").ok_or_else(unexpected)?;
            let at = u64::from_str_radix(digits, 16).map_err(|_| unexpected())?;
            qmp.save_physical(at, PIECE_BYTES, piece.path())?;
            bytes.extend(std::fs::read(piece.path())?);
        }
        self.send("ok")?;
        if (bytes.len() as u64) < size {
            return Err(unexpected());
        }
        bytes.truncate(size as usize);
        Ok(bytes)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// The answer of a host that expects four CPUs to the agent's first line.
    fn answer_to(line: &str) -> String {
        let folder = temporary::directory().expect("a folder");
        let socket = folder.path().join("agent");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let mut agent = Agent::connect(&socket).expect("somebody listens");
        let (mut guest, _) = listener.accept().expect("the agent's host");
        writeln!(guest, "{line}").expect("the host is there");
        match agent.wait_until_ready(4) {
            Ok(()) => "ready".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_guest_is_ready_with_all_of_its_cpus() {
        assert_eq!(answer_to("hitm-agent 2 4"), "ready");
        assert_eq!(
            answer_to("hitm-agent 2 3"),
            "the kernel brought up 3 of 4 CPUs"
        );
        assert_eq!(
            answer_to("hitm-agent 1"),
            "the guest agent says: hitm-agent 1"
        );
    }
}
