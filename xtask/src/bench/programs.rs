//! What `hitm record` costs: programs natively, under the emulator and recorded, in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::history::Figure;
use super::recording::{Used, compiled, run_into};
use crate::{root, target, text};

/// Runs of each program in each way.
const ROUNDS: usize = 3;

/// A program that is recorded.
struct Program {
    /// Its part of a benchmark's name.
    name: &'static str,
    /// Its command, in the folder of its inputs.
    command: &'static [&'static str],
    /// It starts others, which the emulator alone leaves to the host.
    starts_others: bool,
}

const fn program(name: &'static str, command: &'static [&'static str]) -> Program {
    Program {
        name,
        command,
        starts_others: false,
    }
}

const PROGRAMS: [Program; 12] = [
    program("mixed", &["./mixed"]),
    program("turns-lock", &["./turns", "lock"]),
    program("turns-atomic", &["./turns", "atomic"]),
    program("turns-plain", &["./turns", "plain"]),
    program("pigz", &["pigz", "-p4", "-1", "-kfc", "eight"]),
    program("xz", &["xz", "-T4", "-1", "-kfc", "two"]),
    program("zstd", &["zstd", "-T4", "-3", "-qfc", "eight"]),
    Program {
        starts_others: true,
        ..program("gcc", &["gcc", "-O2", "-c", "turns.c", "-o", "turns.o"])
    },
    program("python3", &["/usr/bin/python3", "-c", "print(1)"]),
    program("node", &["node", "-e", "console.log(1)"]),
    program("java", &["java", "-version"]),
    program("true", &["true"]),
];

/// Measures all programs that this host has.
pub(super) fn measure(keep: &dyn Fn(Figure) -> Result<()>) -> Result<()> {
    let folder = inputs()?;
    for program in PROGRAMS {
        if program.is_there() {
            program.measure(&folder)?.into_iter().try_for_each(keep)?;
        } else {
            println!("{} is not on this host", program.command[0]);
        }
    }
    Ok(())
}

/// A folder with the programs and files that the commands name.
fn inputs() -> Result<PathBuf> {
    let folder = target().join("bench");
    compiled("mixed")?;
    compiled("turns")?;
    fs::copy(
        root().join("xtask/programs/turns.c"),
        folder.join("turns.c"),
    )?;
    // What a compressor gets is a program with its symbols.
    let bytes = fs::read(crate::hitm()?).context("cannot read target/release/hitm")?;
    for (name, len) in [("two", 2_000_000), ("eight", 8_000_000)] {
        let part = bytes.get(..len).context("hitm is smaller than 8 MB")?;
        fs::write(folder.join(name), part)?;
    }
    Ok(folder)
}

impl Program {
    fn is_there(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = self.command[0];
        program.starts_with("./")
            || std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    }

    fn measure(&self, folder: &Path) -> Result<Vec<Figure>> {
        let hitm = crate::hitm()?;
        let record = [text(&hitm)?, "record", "-o", "x.hitm", "--"];
        let [mut native, mut emulator, mut recorded, mut switches] = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            native.push(self.run(&[], folder)?.cpu_seconds);
            if !self.starts_others {
                emulator.push(self.run(&["qemu-x86_64"], folder)?.cpu_seconds);
            }
            let used = self.run(&record, folder)?;
            recorded.push(used.cpu_seconds);
            switches.push(used.switches);
        }
        let times = |others: &[f64]| {
            let pairs = recorded.iter().zip(others);
            pairs
                .map(|(recorded, other)| recorded / other.max(0.001))
                .collect()
        };
        let [over_native, over_emulator] = [times(&native), times(&emulator)];
        let figures = [
            ("native", "CPU s", native),
            ("emulator", "CPU s", emulator),
            ("recorded", "CPU s", recorded),
            ("times-native", "x native CPU time", over_native),
            ("times-emulator", "x the emulator's CPU time", over_emulator),
            ("switches", "context switches", switches),
        ];
        let mut measured = Vec::new();
        for (what, unit, samples) in figures {
            if !samples.is_empty() {
                let name = format!("recording-{}-{what}", self.name);
                measured.push(Figure::of(&name, unit, samples)?);
            }
        }
        Ok(measured)
    }

    /// Runs the command behind others.
    fn run(&self, before: &[&str], folder: &Path) -> Result<Used> {
        let mut words = before.iter().chain(self.command).peekable();
        let program = words.next().context("an empty command")?;
        let mut command = Command::new(program);
        if before.first() == Some(&"qemu-x86_64") {
            // QEMU does not look for it.
            let path = std::env::var_os("PATH").unwrap_or_default();
            let name = words.next().context("an empty command")?;
            let found = std::env::split_paths(&path).map(|folder| folder.join(name));
            let found = found.into_iter().find(|path| path.exists());
            command.arg(found.unwrap_or_else(|| PathBuf::from(name)));
        }
        command.args(words).current_dir(folder);
        run_into(&mut command, Stdio::null()).with_context(|| format!("{} failed", self.name))
    }
}
