//! Counts to prove a placement by: the output of a command, and events of the kernel and the CPU.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::FromRawFd as _;
use std::process::{Command, Stdio};

use super::PlaceError;
use super::prove::Meter;

/// A command that prints a number, run by the shell.
#[derive(Debug)]
pub struct CommandMeter {
    command: String,
}

impl CommandMeter {
    /// A meter whose command has not run yet.
    pub fn new(command: &str) -> CommandMeter {
        CommandMeter {
            command: command.to_owned(),
        }
    }
}

impl Meter for CommandMeter {
    fn unit(&self) -> &str {
        &self.command
    }

    fn count(&mut self) -> Result<f64, PlaceError> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(&self.command);
        shell.stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = shell.output();
        let output = output.map_err(PlaceError::system(format!("run {}", self.command)))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let number = text
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite());
        let number = number.filter(|_| output.status.success());
        number.ok_or_else(|| {
            let short: String = text.chars().take(80).collect();
            PlaceError::Wrong(format!(
                "{} ends with {} and prints {short:?}, expected a number",
                self.command, output.status
            ))
        })
    }
}

/// `PERF_TYPE_HARDWARE` and `PERF_TYPE_SOFTWARE` of include/uapi/linux/perf_event.h.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
/// Names as perf has them, with the type and number of the same header.
const EVENTS: [(&str, u32, u64); 9] = [
    ("cpu-clock", SOFTWARE, 0),
    ("task-clock", SOFTWARE, 1),
    ("page-faults", SOFTWARE, 2),
    ("context-switches", SOFTWARE, 3),
    ("cpu-migrations", SOFTWARE, 4),
    ("cycles", HARDWARE, 0),
    ("instructions", HARDWARE, 1),
    ("cache-references", HARDWARE, 2),
    ("cache-misses", HARDWARE, 3),
];

/// `struct perf_event_attr`, its first version: 64 bytes.
#[repr(C)]
#[derive(Default)]
struct EventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// Bit of `inherit`: also counts threads that the counted ones make.
const INHERIT: u64 = 1 << 1;

/// `PERF_FLAG_FD_CLOEXEC`.
const FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// An event of the bound threads and of their descendants.
#[derive(Debug)]
pub struct EventMeter {
    name: String,
    files: Vec<File>,
}

impl EventMeter {
    /// The names of all events.
    pub fn names() -> impl Iterator<Item = &'static str> {
        EVENTS.iter().map(|(name, ..)| *name)
    }

    /// Counts an event in threads from now on. Ended threads are left out.
    ///
    /// # Errors
    /// There is no such event here, or this process may not count it.
    pub fn open(name: &str, tids: impl Iterator<Item = u32>) -> Result<EventMeter, PlaceError> {
        let event = EVENTS.iter().find(|(known, ..)| *known == name);
        let Some(&(_, kind, config)) = event else {
            let names: Vec<&str> = EventMeter::names().collect();
            return Err(PlaceError::Wrong(format!(
                "no event is called {name:?}, expected one of {}",
                names.join(", ")
            )));
        };
        let mut files = Vec::new();
        for tid in tids {
            match open(kind, config, tid) {
                Ok(file) => files.push(file),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(refused(name, error)),
            }
        }
        Ok(EventMeter {
            name: name.to_owned(),
            files,
        })
    }
}

fn refused(name: &str, source: io::Error) -> PlaceError {
    let what = format!("count {name}");
    let needed = match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "CAP_PERFMON, or the sysctl kernel.perf_event_paranoid at 1 or lower"
        }
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "a CPU whose counters the kernel sees"
        }
        Some(libc::ENOSYS) => "a kernel with CONFIG_PERF_EVENTS",
        _ => return PlaceError::System { what, source },
    };
    PlaceError::Missing {
        what,
        needed: needed.to_owned(),
    }
}

fn open(kind: u32, config: u64, tid: u32) -> io::Result<File> {
    let attr = EventAttr {
        kind,
        size: std::mem::size_of::<EventAttr>() as u32,
        config,
        flags: INHERIT,
        ..EventAttr::default()
    };
    let any_cpu: libc::c_int = -1;
    let no_group: libc::c_int = -1;
    // SAFETY: the kernel reads `size` bytes of the attributes; the descriptor is ours.
    unsafe {
        let descriptor = libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            tid as libc::pid_t,
            any_cpu,
            no_group,
            FD_CLOEXEC,
        );
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(File::from_raw_fd(descriptor as libc::c_int))
    }
}

impl Meter for EventMeter {
    fn unit(&self) -> &str {
        &self.name
    }

    fn count(&mut self) -> Result<f64, PlaceError> {
        let mut sum = 0u64;
        for file in &mut self.files {
            let mut bytes = [0; 8];
            let read = file.read_exact(&mut bytes);
            read.map_err(PlaceError::system(format!(
                "read the count of {}",
                self.name
            )))?;
            sum = sum.saturating_add(u64::from_ne_bytes(bytes));
        }
        Ok(sum as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_prints_a_number() {
        let count = |command: &str| CommandMeter::new(command).count();
        assert_eq!(count("echo 42").unwrap(), 42.0);
        assert_eq!(count("echo ' 1.5e3'").unwrap(), 1500.0);
        for wrong in ["echo x", "true", "echo 1; false", "echo inf", "echo 1 2"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_events_are_told_with_the_known_ones() {
        let error = EventMeter::open("cycle", std::iter::empty()).unwrap_err();
        assert!(error.to_string().contains("context-switches"), "{error}");
    }

    #[test]
    fn the_attributes_have_the_size_of_their_first_version() {
        assert_eq!(std::mem::size_of::<EventAttr>(), 64);
    }
}
