//! The journal of a placement: all that undoing needs, written before anything is changed.
//!
//! Text, a line a record, each behind the CRC-32C of its text in hexadecimal. Records are only
//! added. The last line may be cut off: its writer died while writing it, so no change of that line
//! was made. Any other damage is an error with its line. docs/place.md has the table of records.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use hitm_base::of_word;
use thiserror::Error;

use super::backend::Backend;
use super::cpus::CpuSet;
use crate::procfs::TaskId;

/// Version that the first line names.
const VERSION: &str = "1";
/// Longest journal that is read: some 600,000 threads.
pub const JOURNAL_BYTES_MAX: usize = 64 << 20;
/// First part of the name of every cgroup that hitm makes.
pub(super) const GROUP_PREFIX: &str = "hitm-";
/// The CPUs that a cgroup may set aside, in Linux 6.7 and later.
pub(super) const EXCLUSIVE_FILE: &str = "cpuset.cpus.exclusive";

/// A malformed line of a journal.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: {found}, expected {expected}")]
pub struct JournalError {
    /// Its number, from 1.
    pub line: usize,
    /// Text found there.
    pub found: String,
    /// Description of the expected text.
    pub expected: &'static str,
}

/// Earlier affinity of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldMask {
    /// Its CPU mask.
    pub cpus: CpuSet,
    /// Set if the mask was all that its cpuset allowed. Undoing then gives the mask of every CPU,
    /// which follows the cpuset.
    pub is_free: bool,
}

/// A task before it was placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldTask {
    /// The task.
    pub id: TaskId,
    /// Its process.
    pub pid: u32,
    /// Earlier affinity.
    pub mask: OldMask,
}

/// A process with placed threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldProcess {
    /// Its first thread.
    pub id: TaskId,
    /// Its process group, which its children are in as well.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// Set if all of its threads are placed, and new ones too.
    pub is_whole: bool,
    /// Mask of its first thread: threads and children of placed threads get it at the end.
    pub mask: OldMask,
}

/// User and cgroups of a process, which its descendants have as well, whoever their parents are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its /proc/PID/cgroup.
    pub cgroups: String,
}

/// One line behind the first ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A guard watches from now on.
    Guard(TaskId),
    /// hitm makes this cgroup; its tasks came from the cgroup above it.
    Group(PathBuf),
    /// hitm turns the cpuset controller on in this `cgroup.subtree_control`.
    Control(PathBuf),
    /// hitm changes a cgroup's `cpuset.cpus.exclusive`, which had this text.
    Setting(PathBuf, String),
    /// A process, before its tasks.
    Process(OldProcess),
    /// A process's user and cgroups.
    Home(Home),
    /// A task that is placed.
    Task(OldTask),
    /// A task that is excluded from the domain.
    Other(OldTask),
}

/// The first lines: fixed when the placement begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The kernel's id of this boot: after another one nothing is left to undo.
    pub boot: String,
    /// The process that placed.
    pub tool: TaskId,
    /// Seconds since 1970.
    pub since: u64,
    /// The means by which it placed.
    pub backend: Backend,
    /// CPUs of the placement.
    pub cpus: CpuSet,
    /// The lock, or the caller's own name for the placement.
    pub name: String,
}

/// A journal in memory, in the order of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Its first lines.
    pub head: Head,
    /// Its other lines.
    pub records: Vec<Record>,
}

impl Journal {
    /// Parses a journal.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse(bytes: &[u8]) -> Result<Journal, JournalError> {
        if bytes.len() > JOURNAL_BYTES_MAX {
            let found = format!("a file of {} bytes", bytes.len());
            return Err(wrong(1, found, "at most 64 MiB"));
        }
        let mut lines = Lines {
            rest: bytes,
            line: 0,
        };
        let head = lines.head()?;
        let mut records = Vec::new();
        while let Some(text) = lines.next()? {
            let record = record(text).ok_or_else(|| lines.wrong(text, RECORD))?;
            records.push(record);
        }
        Ok(Journal { head, records })
    }

    /// Encodes the journal.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let Head {
            boot,
            tool,
            since,
            backend,
            cpus,
            name,
        } = &self.head;
        let mut line = |words: String| push_line(&mut text, &words);
        line(format!("hitm-place {VERSION}"));
        line(format!("boot {boot}"));
        line(format!("tool {} {}", tool.tid, tool.start_ticks));
        line(format!("since {since}"));
        line(format!("backend {}", backend.id()));
        line(format!("cpus {cpus}"));
        line(format!("name {}", escaped(name.as_bytes())));
        text.push_str(&encode_records(&self.records));
        text
    }

    /// The last guard that was started.
    pub fn guard(&self) -> Option<TaskId> {
        self.guards().next_back()
    }

    /// All guards that were started.
    pub fn guards(&self) -> impl DoubleEndedIterator<Item = TaskId> {
        self.records.iter().filter_map(|record| match record {
            Record::Guard(id) => Some(*id),
            _ => None,
        })
    }

    /// Users and cgroups of the processes.
    pub fn homes(&self) -> impl Iterator<Item = &Home> {
        self.records.iter().filter_map(|record| match record {
            Record::Home(home) => Some(home),
            _ => None,
        })
    }

    /// The cgroups that hitm made.
    pub fn groups(&self) -> impl DoubleEndedIterator<Item = &Path> {
        self.records.iter().filter_map(|record| match record {
            Record::Group(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Control files in which hitm turned the cpuset controller on.
    pub fn controls(&self) -> impl DoubleEndedIterator<Item = &Path> {
        self.records.iter().filter_map(|record| match record {
            Record::Control(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Control files that hitm changed, each with its earlier text.
    pub fn settings(&self) -> impl DoubleEndedIterator<Item = (&Path, &str)> {
        self.records.iter().filter_map(|record| match record {
            Record::Setting(path, old) => Some((path.as_path(), old.as_str())),
            _ => None,
        })
    }

    /// Excluded tasks.
    pub fn others(&self) -> impl Iterator<Item = &OldTask> {
        self.records.iter().filter_map(|record| match record {
            Record::Other(task) => Some(task),
            _ => None,
        })
    }

    /// Tasks of the placement.
    pub fn tasks(&self) -> impl Iterator<Item = &OldTask> {
        self.records.iter().filter_map(|record| match record {
            Record::Task(task) => Some(task),
            _ => None,
        })
    }

    /// Processes of the placement.
    pub fn processes(&self) -> impl Iterator<Item = &OldProcess> {
        self.records.iter().filter_map(|record| match record {
            Record::Process(process) => Some(process),
            _ => None,
        })
    }
}

/// Records as lines, to be added to a journal.
pub(super) fn encode_records(records: &[Record]) -> String {
    let mut text = String::new();
    for record in records {
        let words = match record {
            Record::Guard(id) => format!("guard {} {}", id.tid, id.start_ticks),
            Record::Group(path) => format!("group {}", escaped(path.as_os_str().as_bytes())),
            Record::Control(path) => format!("control {}", escaped(path.as_os_str().as_bytes())),
            Record::Process(process) => {
                let OldProcess {
                    id, group, session, ..
                } = process;
                let whole = if process.is_whole { "whole" } else { "part" };
                let mask = mask_words(&process.mask);
                format!(
                    "process {} {} {group} {session} {whole} {mask}",
                    id.tid, id.start_ticks
                )
            }
            Record::Home(Home { pid, uid, cgroups }) => {
                format!("home {pid} {uid} {}", escaped(cgroups.as_bytes()))
            }
            Record::Setting(path, old) => {
                let path = escaped(path.as_os_str().as_bytes());
                format!("setting {path} {}", escaped(old.as_bytes()))
            }
            Record::Task(task) => task_words("task", task),
            Record::Other(task) => task_words("other", task),
        };
        push_line(&mut text, &words);
    }
    text
}

fn task_words(kind: &str, task: &OldTask) -> String {
    let TaskId { tid, start_ticks } = task.id;
    let (pid, mask) = (task.pid, mask_words(&task.mask));
    format!("{kind} {tid} {start_ticks} {pid} {mask}")
}

fn mask_words(mask: &OldMask) -> String {
    let kind = if mask.is_free { "free" } else { "bound" };
    format!("{kind} {}", mask.cpus)
}

fn push_line(text: &mut String, words: &str) {
    let sum = crc32c::crc32c(words.as_bytes());
    let _ = writeln!(text, "{sum:08x} {words}");
}

struct Lines<'a> {
    rest: &'a [u8],
    line: usize,
}

const LINE: &str = "a line with its CRC-32C";
const RECORD: &str = "a guard, group, control, setting, process, home, task or other";

impl<'a> Lines<'a> {
    /// Returns the next whole line without its checksum; `None` at the end, and before a line that
    /// is cut off.
    fn next(&mut self) -> Result<Option<&'a str>, JournalError> {
        let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        self.line += 1;
        let checked = std::str::from_utf8(line).ok().and_then(|line| {
            let (sum, words) = line.split_once(' ')?;
            let expected = format!("{:08x}", crc32c::crc32c(words.as_bytes()));
            (sum == expected).then_some(words)
        });
        let shown = || String::from_utf8_lossy(line).into_owned();
        checked.map(Some).ok_or_else(|| self.wrong(&shown(), LINE))
    }

    fn wrong(&self, text: &str, expected: &'static str) -> JournalError {
        let short: String = text.chars().take(80).collect();
        wrong(self.line.max(1), format!("{short:?}"), expected)
    }

    /// Returns the rest of the next line, behind `key`.
    fn value<T>(
        &mut self,
        expected: &'static str,
        read: impl FnOnce(&'a str) -> Option<T>,
    ) -> Result<T, JournalError> {
        let Some(text) = self.next()? else {
            return Err(wrong(self.line + 1, String::from("the end"), expected));
        };
        let key = expected.split(' ').next().unwrap_or_default();
        let value = text
            .strip_prefix(key)
            .and_then(|rest| rest.strip_prefix(' '));
        value
            .and_then(read)
            .ok_or_else(|| self.wrong(text, expected))
    }

    fn head(&mut self) -> Result<Head, JournalError> {
        self.value("hitm-place 1", |version| (version == VERSION).then_some(()))?;
        Ok(Head {
            boot: self.value("boot ID", |id| is_boot_id(id).then(|| id.to_owned()))?,
            tool: self.value("tool PID START", |text| {
                let mut words = text.split(' ');
                end(task_id(&mut words)?, words)
            })?,
            since: self.value("since SECONDS", digits)?,
            backend: self.value("backend NAME", |name| of_word(&Backend::WORDS, name))?,
            cpus: self.value("cpus LIST", cpu_list)?,
            name: self.value("name TEXT", |text| String::from_utf8(unescaped(text)?).ok())?,
        })
    }
}

fn wrong(line: usize, found: String, expected: &'static str) -> JournalError {
    JournalError {
        line,
        found,
        expected,
    }
}

type Words<'a> = std::str::Split<'a, char>;

fn record(text: &str) -> Option<Record> {
    let mut words = text.split(' ');
    let record = match words.next()? {
        "guard" => Record::Guard(task_id(&mut words)?),
        "group" => Record::Group(group_path(words.next()?)?),
        "control" => Record::Control(control_path(words.next()?)?),
        "setting" => {
            let path = path(words.next()?).filter(|path| path.ends_with(EXCLUSIVE_FILE))?;
            let old = unescaped(words.next()?)?;
            // Only a list of CPUs may be written back.
            let old = String::from_utf8(old)
                .ok()
                .filter(|old| CpuSet::parse(old).is_some())?;
            Record::Setting(path, old)
        }
        "process" => Record::Process(OldProcess {
            id: task_id(&mut words)?,
            group: digits(words.next()?)?,
            session: digits(words.next()?)?,
            is_whole: match words.next()? {
                "whole" => true,
                "part" => false,
                _ => return None,
            },
            mask: old_mask(&mut words)?,
        }),
        "home" => Record::Home(Home {
            pid: digits(words.next()?)?,
            uid: digits(words.next()?)?,
            cgroups: String::from_utf8(unescaped(words.next()?)?).ok()?,
        }),
        "task" => Record::Task(old_task(&mut words)?),
        "other" => Record::Other(old_task(&mut words)?),
        _ => return None,
    };
    end(record, words)
}

fn old_task(words: &mut Words<'_>) -> Option<OldTask> {
    Some(OldTask {
        id: task_id(words)?,
        pid: digits(words.next()?)?,
        mask: old_mask(words)?,
    })
}

fn end<T>(value: T, mut words: Words<'_>) -> Option<T> {
    words.next().is_none().then_some(value)
}

/// Parses digits as the encoder writes them: `+5`, ` 5` and `05` are refused.
fn digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = is_plain && (text == "0" || !text.starts_with('0'));
    is_plain.then(|| text.parse().ok())?
}

fn task_id(words: &mut Words<'_>) -> Option<TaskId> {
    let tid = digits(words.next()?).filter(|tid| *tid > 0)?;
    let start_ticks = digits(words.next()?)?;
    Some(TaskId { tid, start_ticks })
}

fn old_mask(words: &mut Words<'_>) -> Option<OldMask> {
    let is_free = match words.next()? {
        "free" => true,
        "bound" => false,
        _ => return None,
    };
    let cpus = cpu_list(words.next()?)?;
    Some(OldMask { cpus, is_free })
}

/// Parses a set as the encoder writes it, with at least one CPU.
fn cpu_list(text: &str) -> Option<CpuSet> {
    let cpus = CpuSet::parse(text)?;
    (!cpus.is_empty() && cpus.to_string() == text).then_some(cpus)
}

fn is_boot_id(id: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    (1..=64).contains(&id.len()) && id.bytes().all(is_part)
}

/// Parses an absolute path without `..`.
fn path(text: &str) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(unescaped(text)?));
    let mut parts = path.components();
    let is_absolute = parts.next() == Some(Component::RootDir);
    let is_plain = parts.all(|part| matches!(part, Component::Normal(_)));
    (is_absolute && is_plain).then_some(path)
}

/// Only cgroups of hitm's own are ever removed.
fn group_path(text: &str) -> Option<PathBuf> {
    let path = path(text)?;
    let name = path.file_name()?.as_bytes();
    name.starts_with(GROUP_PREFIX.as_bytes()).then_some(path)
}

fn control_path(text: &str) -> Option<PathBuf> {
    path(text).filter(|path| path.ends_with("cgroup.subtree_control"))
}

/// Encodes bytes as one printable word: blanks, `%` and all but ASCII letters, digits and marks as
/// `%20`.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte.is_ascii_graphic() && byte != b'%' {
            true => text.push(char::from(byte)),
            false => {
                let _ = write!(text, "%{byte:02x}");
            }
        }
    }
    text
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        bytes.push((high * 16 + low) as u8);
    }
    // One spelling for each text, so that a journal reads back as it was written.
    (escaped(&bytes) == text).then_some(bytes)
}

#[cfg(test)]
mod tests;
