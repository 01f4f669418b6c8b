//! Keeps what processes wrote down about their generated code.
//!
//! Any user may leave files in /tmp, under the name of any process: only those of the recording's
//! owner and of root count, and no link is followed. A process that still runs may write while its
//! file is read, so every file has a limit and none is mapped.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hitm_files::ours;
use hitm_files::output_file::{self, OutputError};
use hitm_trace::PROCESS_SHIFT;

use super::told::{Lines, Told};
use super::{
    Function, HEADER, LEFT_OUT, MAP_BYTES_MAX, NOT_READ, SAID, function, jitdump, kept_path,
};

/// Limit on the bytes of a jitdump, which has the code itself.
const DUMP_BYTES_MAX: u64 = 1 << 30;
/// Longest name of a function: those of templates reach some thousand bytes.
const NAME_BYTES_MAX: usize = 4096;
/// Files of which a map says that they were not read.
const NOTES_MAX: usize = 16;

/// Keeps the functions that processes generated, and what their runtimes `told`, by the number of the program.
/// `programs` has the number of the program that each PID ran last.
///
/// # Errors
/// Those of writing the map.
pub fn keep(
    programs: &BTreeMap<u32, u32>,
    told: &BTreeMap<u32, Told>,
    recording: &Path,
) -> Result<(), OutputError> {
    let Ok(of_recording) = fs::metadata(recording) else {
        return Ok(());
    };
    if !of_recording.is_file() {
        return Ok(());
    }
    let owners = [of_recording.uid(), 0];
    let mut kept = Kept::default();
    for (pid, number) in programs {
        let map = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        let dump = PathBuf::from(format!("jit-{pid}.dump"));
        kept.read(&map, &owners, |file, kept| {
            let take = &mut |function| kept.add(*number, &function);
            read_map(file, take)
        });
        kept.read(&dump, &owners, |file, kept| {
            let take = &mut |function| kept.add(*number, &function);
            read_dump(file, take)
        });
    }
    for (number, told) in told {
        kept.tell(*number, told);
    }
    match kept.is_empty() {
        true => Ok(()),
        false => write(&kept_path(recording), &kept.text(of_recording.len())),
    }
}

/// Writes the map. The user did not name it, so nothing but a file may be there.
fn write(path: &Path, text: &str) -> Result<(), OutputError> {
    let regular = match fs::symlink_metadata(path) {
        Ok(found) => ours::check_regular(&found),
        Err(_) => Ok(()),
    };
    regular.map_err(|source| OutputError::System {
        path: path.into(),
        source,
    })?;
    output_file::write(path, text.as_bytes())
}

/// Lines of a kept map.
#[derive(Default)]
struct Kept {
    functions: String,
    told: Lines,
    left_out: u64,
    notes: Vec<String>,
    said: Vec<String>,
}

impl Kept {
    /// Adds what the runtime of a process told. Functions come behind those of its map, and count.
    fn tell(&mut self, process: u32, told: &Told) {
        for (code, name) in &told.functions {
            let name = name.clone();
            let (start, size) = (code.start, code.end.saturating_sub(code.start));
            self.add(process, &Function { start, size, name });
        }
        let is_inside = |end: Option<u64>| end.is_some_and(|end| end <= 1 << PROCESS_SHIFT);
        for object in &told.objects {
            match self.has_room() && is_inside(object.start.checked_add(object.size)) {
                true => self.told.add_object(process, object),
                false => self.left_out += 1,
            }
        }
        for (code, frames) in &told.places {
            match self.has_room() && is_inside(Some(code.end)) && code.start < code.end {
                true => self.told.add_place(process, code, frames),
                false => self.left_out += 1,
            }
        }
        let room = NOTES_MAX.saturating_sub(self.said.len());
        self.said.extend(told.notes.iter().take(room).cloned());
    }

    /// Returns true while the map is below its limit, with room for a line.
    fn has_room(&self) -> bool {
        const LINE_BYTES_MAX: usize = 1 << 20;
        self.functions.len() + self.told.text.len() + LINE_BYTES_MAX <= MAP_BYTES_MAX as usize
    }

    /// Reads a file, if it is there, or notes why not.
    fn read(
        &mut self,
        path: &Path,
        owners: &[u32],
        read: impl FnOnce(File, &mut Kept) -> io::Result<()>,
    ) {
        let opened = ours::open_owned(path, OpenOptions::new().read(true), owners);
        if let Err(error) = opened.and_then(|file| read(file, self))
            && error.kind() != io::ErrorKind::NotFound
            && self.notes.len() < NOTES_MAX
        {
            self.notes.push(format!("{}: {error}", path.display()));
        }
    }

    /// Adds a function of a process, in its part of the address space.
    fn add(&mut self, process: u32, function: &Function) {
        let size = function.size;
        let end = function.start.checked_add(size);
        let is_inside = size > 0 && end.is_some_and(|end| end <= 1 << PROCESS_SHIFT);
        // A name ends its line.
        let name = function.name.lines().next().unwrap_or_default();
        let ends = name.char_indices().map(|(at, one)| at + one.len_utf8());
        let end = ends.take_while(|end| *end <= NAME_BYTES_MAX).last();
        let name = &name[..end.unwrap_or(0)];
        let start = function.start | u64::from(process) << PROCESS_SHIFT;
        let line = format!("{start:x} {size:x} {name}\n");
        let bytes = self.functions.len() + self.told.text.len() + line.len();
        match is_inside && bytes <= MAP_BYTES_MAX as usize {
            true => self.functions.push_str(&line),
            false => self.left_out += 1,
        }
    }

    fn is_empty(&self) -> bool {
        let lines = [&self.functions, &self.told.text];
        let notes = [&self.notes, &self.said];
        lines.iter().all(|text| text.is_empty())
            && notes.iter().all(|notes| notes.is_empty())
            && self.left_out == 0
    }

    /// The map of a recording of so many bytes.
    fn text(&self, recording_bytes: u64) -> String {
        let mut text = format!("{HEADER}{recording_bytes}\n");
        for note in &self.notes {
            let note = note.escape_debug();
            text.push_str(&format!("{NOT_READ}{note}\n"));
        }
        for said in &self.said {
            let said = said.replace('\n', " ");
            text.push_str(&format!("{SAID}{said}\n"));
        }
        if self.left_out > 0 {
            text.push_str(&format!("{LEFT_OUT}{}\n", self.left_out));
        }
        text + &self.functions + &self.told.text
    }
}

/// Reads the functions of a perf map. Of one that is longer than allowed the first part counts.
fn read_map(file: File, take: &mut dyn FnMut(Function)) -> io::Result<()> {
    let mut bytes = Vec::new();
    file.take(MAP_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let is_cut = bytes.len() as u64 > MAP_BYTES_MAX;
    let whole = match is_cut {
        true => bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0),
        false => bytes.len(),
    };
    for line in bytes[..whole].split(|byte| *byte == b'\n') {
        if let Some((start, size, name)) = function(&String::from_utf8_lossy(line)) {
            take(Function {
                start,
                size,
                name: name.to_owned(),
            });
        }
    }
    check_length(is_cut, MAP_BYTES_MAX)
}

fn read_dump(file: File, take: &mut dyn FnMut(Function)) -> io::Result<()> {
    let mut bytes = BufReader::new(file.take(DUMP_BYTES_MAX));
    jitdump::functions(&mut bytes, take)?;
    check_length(bytes.get_ref().limit() == 0, DUMP_BYTES_MAX)
}

fn check_length(is_cut: bool, max: u64) -> io::Result<()> {
    match is_cut {
        false => Ok(()),
        true => Err(io::Error::other(format!(
            "only its first {} MiB count",
            max >> 20
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::generated::GeneratedCode;
    use crate::recording::Budget;

    /// A process that no kernel has, and the file of its map.
    struct Process(u32, PathBuf);

    impl Process {
        fn new(number: u32) -> Process {
            let pid = 4_000_000_000 + std::process::id() * 8 + number;
            let map = PathBuf::from(format!("/tmp/perf-{pid}.map"));
            let _ = fs::remove_file(&map);
            Process(pid, map)
        }

        /// The names of a recording of this process as program 2, and what its report says.
        fn names(&self) -> (GeneratedCode, Vec<String>) {
            let directory = tempfile::tempdir().unwrap();
            let recording = directory.path().join("a.hitm");
            fs::write(&recording, "12345").unwrap();
            keep(&BTreeMap::from([(self.0, 2)]), &BTreeMap::new(), &recording).unwrap();
            let mut budget = Budget::default();
            let code = GeneratedCode::beside(&recording, 5, &mut budget);
            let said = code.notes().chain(budget.describe()).collect();
            (code, said)
        }
    }

    impl Drop for Process {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.1);
        }
    }

    #[test]
    fn links_and_files_of_others_are_not_read() {
        let process = Process::new(0);
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        fs::write(&target, "1000 10 f\n").unwrap();
        symlink(&target, &process.1).unwrap();
        let (code, said) = process.names();
        assert_eq!(code.at(2 << 48 | 0x1000), None);
        assert!(
            said[0].ends_with(".map: found a symbolic link, expected a regular file"),
            "{said:?}"
        );
        let mut kept = Kept::default();
        let other = [ours::user() + 1];
        kept.read(&target, &other, |_, _| panic!("it is opened"));
        kept.read(&directory.path().join("none"), &other, |_, _| Ok(()));
        assert_eq!(kept.notes.len(), 1, "{:?}", kept.notes);
        assert!(kept.notes[0].contains("it belongs to user"));
    }

    #[test]
    fn a_hostile_map_names_its_own_process_alone() {
        let process = Process::new(1);
        let long = "n".repeat(1 << 20);
        let lines = [
            "1000 20 \u{1b}]0;x\u{7}",
            "fffffffffffffff0 20 wraps",
            "ffffffffffffffff 1 last",
            "3000000000010 10 of another process",
            "fffffffffff0 20 across the end",
            "2000 0 empty",
            "1010 20 later",
            "# not read: forged",
            "no number",
            &format!("4000 10 {long}"),
        ];
        fs::write(&process.1, lines.join("\n")).unwrap();
        let (code, said) = process.names();
        let at = |address: u64| code.at(2 << 48 | address);
        assert_eq!(at(0x1008), Some("\u{1b}]0;x\u{7}"));
        assert_eq!((at(0x1010), at(0x102f)), (Some("later"), Some("later")));
        assert_eq!((at(0x2000), at(0xffff_ffff_fff8)), (None, None));
        assert_eq!(code.at(3 << 48 | 0x18), None);
        assert_eq!(code.at(u64::MAX), None);
        assert_eq!(at(0x4000).map(str::len), Some(NAME_BYTES_MAX));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("5 generated functions"), "{said:?}");
    }

    /// A million functions, each over the one before.
    #[test]
    fn a_million_overlapping_functions_are_kept() {
        let process = Process::new(2);
        let lines = (0..1_000_000_u64).map(|number| format!("{:x} 40 f{number}\n", number * 0x20));
        fs::write(&process.1, lines.collect::<String>()).unwrap();
        let (code, said) = process.names();
        assert_eq!(code.at(2 << 48 | 0x30), Some("f1"));
        // The report's tables have room for a part of them, and say so.
        assert!(said[0].contains("generated functions"), "{said:?}");
    }

    #[test]
    fn a_file_that_grows_for_ever_ends() {
        let mut taken = 0;
        let zeros = || File::open("/dev/zero").unwrap();
        let said = read_map(zeros(), &mut |_| taken += 1).unwrap_err();
        assert_eq!(said.to_string(), "only its first 64 MiB count");
        read_dump(zeros(), &mut |_| taken += 1).unwrap();
        assert_eq!(taken, 0);
    }
}
