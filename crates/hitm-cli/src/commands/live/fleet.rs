//! Looks of `hitm live lines` as files in a directory, once or again and again: what many hosts collect.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hitm::live::{LineLooks, LinesConfig, LinesError, LiveProgress};
use hitm_files::output_file::{self, OutputFile};

use crate::commands::duration::duration;
use crate::{Exit, Terminal};

/// Files that are kept without --keep: those of a day with a look each minute.
const KEEP_DEFAULT: u32 = 1440;
/// Shortest time between looks: their names have seconds.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// Place of the looks' files, and the time between looks.
#[derive(Debug, Args)]
pub(super) struct FleetArgs {
    /// Write what was seen to a file of its own in this directory, whose name has the host and the time
    #[arg(long, value_name = "DIR", conflicts_with = "record")]
    output: Option<PathBuf>,
    /// Look again each TIME, with a file for each look, until a signal comes or the target ends
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "output")]
    every: Option<Duration>,
    /// Files of this host and form that stay in --output: those of the oldest looks go
    #[arg(long, value_name = "N", default_value_t = KEEP_DEFAULT, requires = "output",
          value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
}

impl FleetArgs {
    /// The directory, if looks are to be files.
    pub(super) fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Fails for times that do not go together.
    pub(super) fn check(&self, duration: Option<Duration>) -> Result<()> {
        let Some(every) = self.every else {
            return Ok(());
        };
        if every < EVERY_MIN {
            bail!("found --every {every:?}, expected 1s or more");
        }
        match duration {
            Some(duration) if duration > every => {
                bail!("found --every {every:?}, expected no less than --duration {duration:?}")
            }
            _ => Ok(()),
        }
    }

    /// Returns true if there is more than one look.
    pub(super) fn is_series(&self) -> bool {
        self.every.is_some()
    }
}

/// A look that has ended.
pub(super) struct Look<'a> {
    /// Name of the host.
    pub(super) host: &'a str,
    /// Time at which it began.
    pub(super) begun: UtcTime,
    /// The recording, as the bytes of its file.
    pub(super) recording: &'a [u8],
}

/// The form of the files.
pub(super) struct Form<'a> {
    /// End of their names.
    pub(super) extension: &'static str,
    /// Makes the content of a look's file.
    pub(super) content: &'a dyn Fn(&Look<'_>) -> Result<Vec<u8>>,
}

/// Looks as often as was asked for, and writes a file each time.
pub(super) fn run(
    args: &FleetArgs,
    config: LinesConfig,
    form: &Form<'_>,
    terminal: &mut Terminal,
) -> Result<Exit> {
    let directory = args.output().expect("it is asked for");
    let files = Files::open(directory, args.keep, form.extension)?;
    let mut looks = LineLooks::begin(config)?;
    let started = Instant::now();
    let mut slot = 0;
    loop {
        let begun = UtcTime::now();
        let ended = match looks.look(&mut |_: LiveProgress| {}) {
            // It ended since anybody asked.
            Err(LinesError::NoThreads { .. }) if slot > 0 => break,
            ended => ended?,
        };
        let content = (form.content)(&Look {
            host: &files.host,
            begun,
            recording: &ended.recording,
        })?;
        let path = files.write(begun, &content)?;
        let Some(every) = args.every else {
            terminal.note(&format!("wrote {}", path.display()));
            break;
        };
        slot = next_slot(slot, started.elapsed(), every);
        if !looks.wait_until(started + every * slot) {
            break;
        }
    }
    Ok(looks.exit_code().map_or(Exit::Done, Exit::OfProgram))
}

/// Number of the next look: that behind the last one, or if its time has passed the one whose time it is.
fn next_slot(last: u32, elapsed: Duration, every: Duration) -> u32 {
    let now = (elapsed.as_nanos() / every.as_nanos()) as u32;
    now.max(last + 1)
}

/// The files of this host in a directory.
struct Files<'a> {
    directory: &'a Path,
    host: String,
    extension: &'static str,
    keep: usize,
}

impl<'a> Files<'a> {
    /// Finds out that files can be written there.
    fn open(directory: &'a Path, keep: u32, extension: &'static str) -> Result<Files<'a>> {
        let cannot = || format!("cannot write to the directory {}", directory.display());
        fs::create_dir_all(directory).with_context(cannot)?;
        tempfile::tempfile_in(directory).with_context(cannot)?;
        let files = Files {
            directory,
            host: host_name(),
            extension,
            keep: keep as usize,
        };
        files.remove_left_over()?;
        Ok(files)
    }

    /// Writes the file of a look, and removes those that are too many.
    fn write(&self, begun: UtcTime, content: &[u8]) -> Result<PathBuf> {
        let name = format!("{}{}.{}", self.prefix(), begun.compact(), self.extension);
        let path = self.directory.join(name);
        output_file::write(&path, content)?;
        self.remove_oldest()?;
        Ok(path)
    }

    fn prefix(&self) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let host = self.host.chars();
        let host: String = host.map(|c| if is_plain(c) { c } else { '_' }).collect();
        format!("lines-{host}-")
    }

    fn remove_oldest(&self) -> Result<()> {
        let mut own: Vec<String> = self.names()?;
        own.retain(|name| self.is_own(name));
        // Times of equal length: the oldest come first.
        own.sort_unstable();
        let too_many = own.len().saturating_sub(self.keep);
        for name in &own[..too_many] {
            let path = self.directory.join(name);
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }

    /// Removes what killed writers have left beside the names of their files.
    fn remove_left_over(&self) -> Result<()> {
        for name in self.names()? {
            let own = name
                .strip_prefix('.')
                .and_then(|name| name.strip_suffix(".part"));
            if let Some(own) = own.filter(|name| self.is_own(name)) {
                // The next writer of a name takes over what is beside it, and leaves it if somebody writes it.
                drop(OutputFile::create(&self.directory.join(own)));
            }
        }
        Ok(())
    }

    /// Returns true for the name of a look's file of this host and form.
    fn is_own(&self, name: &str) -> bool {
        let time = name.strip_prefix(&self.prefix());
        let time = time.and_then(|rest| rest.strip_suffix(self.extension)?.strip_suffix('.'));
        time.is_some_and(UtcTime::is_compact)
    }

    fn names(&self) -> Result<Vec<String>> {
        let cannot = || format!("cannot read the directory {}", self.directory.display());
        let mut names = Vec::new();
        for entry in fs::read_dir(self.directory).with_context(cannot)? {
            let name = entry.with_context(cannot)?.file_name();
            names.extend(name.into_string().ok());
        }
        Ok(names)
    }
}

/// The name that this host has for itself.
fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

/// A time in seconds, as UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UtcTime {
    /// Since the epoch.
    seconds: u64,
}

impl UtcTime {
    fn now() -> UtcTime {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        UtcTime {
            seconds: now.map_or(0, |now| now.as_secs()),
        }
    }

    /// As file names have it: `20261128T090000Z`.
    fn compact(self) -> String {
        self.text().replace(['-', ':'], "")
    }

    fn is_compact(text: &str) -> bool {
        let bytes = text.bytes();
        let shape: Vec<u8> = bytes
            .map(|byte| if byte.is_ascii_digit() { b'0' } else { byte })
            .collect();
        shape == b"00000000T000000Z"
    }

    /// As ISO 8601 has it: `2026-11-28T09:00:00Z`.
    pub(super) fn text(self) -> String {
        const DAY: u64 = 86_400;
        let of_day = self.seconds % DAY;
        let [hour, minute, second] = [of_day / 3600, of_day / 60 % 60, of_day % 60];
        let date = date(self.seconds / DAY);
        format!("{date}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The date so many days after the epoch. Years begin in March here, so that a leap day is the last of its year.
fn date(days: u64) -> String {
    const OF_ERA: u64 = 146_097;
    const FROM_YEAR_0: u64 = 719_468;
    let days = days + FROM_YEAR_0;
    let (era, day) = (days / OF_ERA, days % OF_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let month = if is_next_year { month - 9 } else { month + 3 };
    let year = era * 400 + year + u64::from(is_next_year);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let text = |seconds| UtcTime { seconds }.text();
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00Z");
        let time = UtcTime {
            seconds: 1_795_856_400,
        };
        assert_eq!(time.text(), "2026-11-28T09:00:00Z");
        assert_eq!(time.compact(), "20261128T090000Z");
        assert!(UtcTime::is_compact("20261128T090000Z"));
        assert!(!UtcTime::is_compact("20261128T09000aZ") && !UtcTime::is_compact(""));
    }

    #[test]
    fn looks_do_not_drift_and_are_not_made_up_for() {
        let ms = Duration::from_millis;
        assert_eq!(next_slot(0, ms(1_100), ms(10_000)), 1);
        assert_eq!(next_slot(4, ms(41_100), ms(10_000)), 5);
        // A look and its file took longer than the time between two: the next one begins at once.
        assert_eq!(next_slot(4, ms(50_200), ms(10_000)), 5);
        assert_eq!(next_slot(4, ms(75_000), ms(10_000)), 7);
    }

    #[test]
    fn the_oldest_files_of_this_host_go() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let files = Files {
            host: "web/1".to_owned(),
            ..Files::open(directory.path(), 2, "json").expect("it can be written")
        };
        let others = ["lines-web_1-x.json", "lines-web_1-20000101T000000Z.hitm"];
        for name in others {
            fs::write(directory.path().join(name), "").expect("a file");
        }
        for seconds in [3, 1, 2, 4] {
            files.write(UtcTime { seconds }, b"{}").expect("it is written");
        }
        let mut names = files.names().expect("it can be read");
        names.sort();
        let expected = [
            "lines-web_1-19700101T000003Z.json",
            "lines-web_1-19700101T000004Z.json",
            "lines-web_1-20000101T000000Z.hitm",
            "lines-web_1-x.json",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn what_a_killed_writer_left_goes() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let open = || Files::open(directory.path(), 2, "json").expect("it can be written");
        let prefix = open().prefix();
        let left = format!(".{prefix}20000101T000000Z.json.part");
        let others = format!(".{prefix}20000101T000000Z.hitm.part");
        for name in [&left, &others] {
            fs::write(directory.path().join(name), "").expect("a file");
        }
        assert_eq!(open().names().expect("it can be read"), [others]);
    }
}
