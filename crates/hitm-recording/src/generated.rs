//! Names of code that programs generate while they run: perf's map files, and jitdump.
//!
//! A virtual machine can be asked to write `/tmp/perf-PID.map`, a line for each function: `START
//! SIZE NAME`, the numbers hexadecimal (tools/perf/Documentation/jit-interface.txt, Linux 6.1). Others
//! write `jit-PID.dump` in the folder where they run. These files vanish, and PIDs are reused. So
//! `hitm record` keeps what all of its processes wrote as one map beside the recording. The map names
//! its recording. Names that a runtime's own tables told while it was recorded stand in it too ([`told`]).

mod jitdump;
mod keep;
mod runtimes;
pub mod told;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hitm_files::input_file::NamedBy;
use hitm_files::text_file;
use hitm_trace::PROCESS_SHIFT;

use crate::recording::{Budget, CodeLabel, DataLabel};
pub use keep::keep;
use told::Tellings;

/// Limit on the bytes of a map: those of the largest servers have some 20 MiB.
const MAP_BYTES_MAX: u64 = 64 << 20;

/// Start of a kept map's first line; the size of its recording follows.
const HEADER: &str = "# hitm: code that the program generated; bytes of the recording: ";

/// Start of a line of a kept map that says which file was not read, and why.
const NOT_READ: &str = "# not read: ";

/// Start of a line that has a sentence for the report's reader.
const SAID: &str = "# said: ";

/// Start of its line that says how many functions are left out.
const LEFT_OUT: &str = "# left out: ";

/// Table of names that takes the functions, in a report's notes.
const FUNCTIONS: &str = "generated functions";

/// A function that a program generated.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Function {
    /// Its first address.
    start: u64,
    /// Its bytes.
    size: u64,
    name: String,
}

/// Path of the map that is kept for a recording.
fn kept_path(recording: &Path) -> PathBuf {
    let mut name = recording.as_os_str().to_owned();
    name.push(".jit");
    name.into()
}

/// Parses a line of a map: first address, size in bytes, name.
fn function(line: &str) -> Option<(u64, u64, &str)> {
    let mut fields = line.splitn(3, ' ');
    let mut hex = || {
        let digits = fields.next()?.trim_start_matches("0x");
        u64::from_str_radix(digits, 16).ok()
    };
    Some((hex()?, hex()?, fields.next()?))
}

/// Functions that a program generated.
#[derive(Debug, Default)]
pub struct GeneratedCode {
    /// By first address, without overlaps: the end, and the number of the name.
    functions: BTreeMap<u64, (u64, usize)>,
    names: Vec<String>,
    /// Names that runtimes told.
    told: Tellings,
    /// Sentences about what is missing.
    notes: Vec<String>,
}

impl GeneratedCode {
    /// Reads the map kept for a recording of `len` bytes.
    pub(crate) fn beside(recording: &Path, len: u64, budget: &mut Budget) -> GeneratedCode {
        let path = kept_path(recording);
        let read = text_file::read_named(&path, NamedBy::Input, MAP_BYTES_MAX + 256, "a perf map");
        let text = read.unwrap_or_default();
        let mut lines = text.lines();
        let header = lines.next().and_then(|line| line.strip_prefix(HEADER));
        if header != Some(len.to_string().as_str()) {
            return GeneratedCode::default();
        }
        let mut found = GeneratedCode::parse(&text, budget);
        for line in lines.take_while(|line| line.starts_with('#')) {
            if let Some(why) = line.strip_prefix(NOT_READ) {
                let sentence = format!("names of generated code were not read: {why}");
                found.notes.push(sentence);
            }
            found
                .notes
                .extend(line.strip_prefix(SAID).map(str::to_owned));
            let count = line.strip_prefix(LEFT_OUT).map(str::parse);
            budget.leave_out(FUNCTIONS, count.and_then(Result::ok).unwrap_or(0));
        }
        found
    }

    /// Sentences about what the recorder could not read.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> + '_ {
        self.notes.iter().cloned()
    }

    /// Label of the byte at an address, in an object of a runtime.
    pub(crate) fn data(&self, address: u64) -> Option<DataLabel> {
        self.told.data(address)
    }

    /// Functions that the instruction at an address is in, the innermost first; none if no name is known.
    pub(crate) fn frames(&self, address: u64) -> Vec<CodeLabel> {
        let told = self.told.code(address);
        match self.at(address) {
            Some(name) if told.is_empty() => vec![runtimes::label(name)],
            _ => told,
        }
    }

    /// The option to start a program with, whose runtime names its functions only if it is asked to.
    pub(crate) fn hint(&self, number: u32, program: &str) -> Option<&'static str> {
        let first = u64::from(number) << PROCESS_SHIFT;
        let mut own = self
            .functions
            .range(first..first.saturating_add(1 << PROCESS_SHIFT));
        let runtime = runtimes::of_program(program)?;
        own.next().is_none().then_some(runtime.hint)
    }

    /// Like [`GeneratedCode::of_text`], within a budget.
    pub(crate) fn parse(text: &str, budget: &mut Budget) -> GeneratedCode {
        const ENTRY_BYTES: usize = size_of::<(u64, u64, usize)>() + size_of::<String>();
        let mut found = GeneratedCode {
            told: Tellings::parse(text, budget),
            ..GeneratedCode::default()
        };
        for (start, size, name) in text.lines().filter_map(function) {
            let end = start.checked_add(size).filter(|end| *end > start);
            if let Some(end) = end
                && budget.admits(FUNCTIONS, ENTRY_BYTES + name.len())
            {
                found.add(start..end, name);
            }
        }
        found
    }

    fn add(&mut self, bytes: Range<u64>, name: &str) {
        // A function that begins before the new one is cut at its start, and may continue behind
        // its end.
        if let Some((_, part)) = self.functions.range_mut(..bytes.start).next_back()
            && part.0 > bytes.start
        {
            let (old_end, old) = *part;
            part.0 = bytes.start;
            if old_end > bytes.end {
                self.functions.insert(bytes.end, (old_end, old));
            }
        }
        while let Some((&from, &(to, old))) = self.functions.range(bytes.clone()).next() {
            self.functions.remove(&from);
            if to > bytes.end {
                self.functions.insert(bytes.end, (to, old));
            }
        }
        self.functions
            .insert(bytes.start, (bytes.end, self.names.len()));
        self.names.push(name.trim_end().to_owned());
    }

    /// Parses a map and skips lines of another form. Of overlapping functions the later one
    /// replaced the earlier.
    pub fn of_text(text: &str) -> GeneratedCode {
        GeneratedCode::parse(text, &mut Budget::default())
    }

    /// Last function of the map: its first address, and its name.
    pub fn last(&self) -> Option<(u64, &str)> {
        let last = self.names.len().checked_sub(1)?;
        let mut functions = self.functions.iter();
        let (start, _) = functions.find(|(_, (_, name))| *name == last)?;
        Some((*start, &self.names[last]))
    }

    /// Function that has the instruction at an address.
    pub fn at(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then(|| self.names[*name].as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn parse(text: &str) -> GeneratedCode {
        GeneratedCode::parse(text, &mut Budget::default())
    }

    #[test]
    fn the_later_function_took_the_place_of_the_one_before() {
        let code = parse(
            "1000 40 LazyCompile:*add file.js:3\n1010 10 new\nfoo\n2000 0 none\n0x3000 8 x y\n",
        );
        let names = [
            0xfff, 0x1000, 0x1010, 0x101f, 0x1020, 0x103f, 0x1040, 0x2000, 0x3007,
        ];
        let names = names.map(|address| code.at(address));
        let add = Some("LazyCompile:*add file.js:3");
        let new = Some("new");
        assert_eq!(
            names,
            [None, add, new, new, add, add, None, None, Some("x y")]
        );
        let around = parse("1010 10 inner\n1000 40 outer\n1030 20 behind\n");
        let names = [0x1010, 0x1030, 0x104f].map(|address| around.at(address));
        assert_eq!(names, [Some("outer"), Some("behind"), Some("behind")]);
    }

    #[test]
    fn a_map_of_another_recording_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let recording = directory.path().join("a.hitm");
        fs::write(&recording, "12345").unwrap();
        let kept = |len| {
            let text = format!("{HEADER}{len}\n1000 10 f\n");
            fs::write(kept_path(&recording), text).unwrap();
            let code = GeneratedCode::beside(&recording, 5, &mut Budget::default());
            code.at(0x1008).map(str::to_owned)
        };
        assert_eq!(kept(5), Some("f".to_owned()));
        assert_eq!(kept(6), None);
    }

    proptest::proptest! {
        #[test]
        fn lookups_are_those_of_a_search_from_the_last(
            functions in proptest::collection::vec((0u64..40, 1u64..20), 0..12)
        ) {
            let lines = functions.iter().enumerate();
            let lines = lines.map(|(number, (start, size))| format!("{start:x} {size:x} f{number}\n"));
            let code = parse(&lines.collect::<String>());
            for address in 0..64 {
                let holds = |(start, size): &(u64, u64)| (*start..start + size).contains(&address);
                let wanted = functions.iter().rposition(holds).map(|number| format!("f{number}"));
                proptest::prop_assert_eq!(code.at(address), wanted.as_deref());
            }
        }
    }
}
