//! Compiles a fixture, runs it, and checks each line that it prints.

use hitm_test::process::Command;
use std::path::{Path, PathBuf};

use hitm_layout::{Bytes, Mapping, Symbolizer, Unread};
use tempfile::TempDir;

/// A compiled fixture in a directory of its own.
pub(crate) struct Fixture {
    directory: TempDir,
    pub(crate) program: PathBuf,
    flags: String,
}

impl Fixture {
    /// Compiles `source`, a file of `fixtures/`.
    pub(crate) fn compile(compiler: &str, source: &str, flags: &[&str]) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let stem = source.split('.').next().unwrap();
        let program = directory.path().join(stem);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures");
        let status = Command::new(compiler)
            .current_dir(&sources)
            .args(flags)
            .arg("-o")
            .arg(&program)
            .arg(source)
            .status()
            .unwrap_or_else(|error| panic!("{compiler} is needed for this test: {error}"));
        assert!(status.success(), "{compiler} {flags:?} {source}");
        Fixture {
            directory,
            program,
            flags: flags.join(" "),
        }
    }

    /// The split debug information that the compiler wrote beside the program.
    pub(crate) fn dwo_files(&self) -> impl Iterator<Item = PathBuf> {
        let files = std::fs::read_dir(self.directory.path()).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|e| e == "dwo"))
    }

    /// Runs the program and returns what it prints.
    pub(crate) fn run(&self) -> String {
        let output = Command::new(&self.program).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the program and checks every line. Returns how many were checked.
    pub(crate) fn check(&self) -> usize {
        let output = self.run();
        let mut symbolizer = Symbolizer::new(mappings(&output), load);
        let mut checked = 0;
        for line in output.lines().filter(|line| !line.starts_with("map|")) {
            let fields: Vec<&str> = line.split('|').collect();
            let context = format!("{} {}: {line}", self.program.display(), self.flags);
            check_line(&mut symbolizer, line, &fields, &context);
            if fields[0] == "layout" {
                let path = self.program.to_str().unwrap();
                let file = symbolizer.file(path).unwrap();
                let layout = file.struct_layout(fields[1]).expect(&context);
                assert_eq!(layout.size, number(fields[2]), "{context}");
            }
            checked += 1;
        }
        assert_eq!(symbolizer.diagnostics(), [], "{}", self.flags);
        checked
    }
}

/// The bytes of a file that the test made or that the system has.
pub(crate) fn load(path: &str) -> Result<Bytes, Unread> {
    let bytes = std::fs::read(path).map_err(|_| Unread::Missing)?;
    Ok(Bytes::from(bytes))
}

fn check_line(symbolizer: &mut Symbolizer<'_>, line: &str, fields: &[&str], context: &str) {
    match fields[0] {
        "member" => {
            let (address, size) = (number(fields[2]), number(fields[3]));
            let name = symbolizer.data(address, size);
            assert_eq!(name.to_string(), fields[1], "{context}");
            let location = name.location.unwrap();
            assert_eq!(
                location.object.start + location.offset,
                address,
                "{context}"
            );
            let mut leaves = location.path.leaves.iter();
            let exact = leaves.any(|leaf| (leaf.offset, leaf.size) == (location.offset, size));
            assert!(exact, "{context}: {location:?}");
            // The line that the member begins in lists it.
            let first = address & !63;
            let members = symbolizer.members_in(first..first + 64);
            let listed = members.iter().any(|member| member.start() <= address);
            assert!(listed, "{context}: {members:?}");
        }
        "either" => {
            // The name itself may contain the separator.
            let [kind, size, address] = [0, 1, 2].map(|back| {
                let mut fields = line.rsplit('|');
                if back == 0 {
                    fields.next_back()
                } else {
                    fields.nth(back - 1)
                }
            });
            let name_end = line.len() - size.unwrap().len() - address.unwrap().len() - 2;
            let wanted = &line[kind.unwrap().len() + 1..name_end];
            let name = symbolizer.data(number(address.unwrap()), number(size.unwrap()));
            assert_eq!(name.to_string(), wanted, "{context}");
        }
        "bits" => {
            let (first, count) = (number(fields[3]), number(fields[4]));
            let name = symbolizer.data(number(fields[2]) + first / 8, 1);
            let location = name.location.unwrap();
            let leaves = &location.path.leaves;
            let path = fields[1].strip_prefix(&location.object.name).unwrap();
            let leaf = leaves.iter().find(|leaf| leaf.path == path).expect(context);
            assert_eq!(leaf.bits, Some((first, count)), "{context}");
        }
        "code" | "inlined" => {
            let name = symbolizer.code(number(fields[3]) - 1).location;
            assert_eq!(name.function.as_deref(), Some(fields[1]), "{context}");
            assert_eq!(
                name.line.map(u64::from),
                Some(number(fields[2])),
                "{context}"
            );
            let file = name.file.unwrap();
            assert!(file.ends_with("members.c"), "{context}: {file}");
            let caller = name.inlined_from.first();
            let wanted = fields.get(4).map(|function| (*function, number(fields[5])));
            let found = caller.map(|frame| {
                let line = u64::from(frame.line.unwrap());
                (frame.function.as_deref().unwrap(), line)
            });
            assert_eq!(found, wanted, "{context}");
            let owner = fields.get(4).unwrap_or(&fields[1]);
            assert_eq!(name.symbol.unwrap().0, *owner, "{context}");
        }
        "tls" => {
            let name = symbolizer.data(number(fields[2]), 4);
            assert_eq!(name.location, None, "{context}");
        }
        "layout" => {}
        other => panic!("the fixture printed {other}"),
    }
}

fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

/// The mappings in a fixture's output.
pub(crate) fn mappings(output: &str) -> Vec<Mapping> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("map|"));
    let parse = |line: &str| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next().unwrap().split_once('-').unwrap();
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        Mapping {
            start: hex(start),
            end: hex(end),
            file_offset: hex(fields.nth(1).unwrap()),
            path: fields.nth(2).unwrap_or_default().to_owned(),
            build_id: None,
        }
    };
    lines.map(parse).collect()
}
