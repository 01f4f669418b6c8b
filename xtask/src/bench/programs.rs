//! What `hitm record` costs: programs natively, under the emulator and recorded, in turn, as a table of
//! docs/performance.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::recording::{Used, compiled, run_into};
use crate::{root, target, text};

/// Runs of each program in each way.
const ROUNDS: usize = 3;
/// Heading of the table.
const HEADING: &str =
    "| program | native | emulator | hitm record | times native | times emulator | switches |";
const RULE: &str = "|---|---|---|---|---|---|---|";
/// The document that has it.
const PAGE: &str = "docs/performance.md";

/// A program that is recorded.
struct Program {
    /// Its name in the table.
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
    program("`xtask/programs/mixed.c`", &["./mixed"]),
    program("`xtask/programs/turns.c`, a mutex", &["./turns", "lock"]),
    program("the same, an atomic", &["./turns", "atomic"]),
    program("the same, a plain increment", &["./turns", "plain"]),
    program(
        "`pigz -p4 -1` on 8 MB",
        &["pigz", "-p4", "-1", "-kfc", "eight"],
    ),
    program("`xz -T4 -1` on 2 MB", &["xz", "-T4", "-1", "-kfc", "two"]),
    program(
        "`zstd -T4 -3` on 8 MB",
        &["zstd", "-T4", "-3", "-qfc", "eight"],
    ),
    Program {
        starts_others: true,
        ..program(
            "`gcc -O2 -c` of `turns.c`",
            &["gcc", "-O2", "-c", "turns.c", "-o", "turns.o"],
        )
    },
    program(
        "`python3 -c 'print(1)'`",
        &["/usr/bin/python3", "-c", "print(1)"],
    ),
    program(
        "`node -e 'console.log(1)'`",
        &["node", "-e", "console.log(1)"],
    ),
    program("`java -version`", &["java", "-version"]),
    program("`true`", &["true"]),
];

/// Medians of one program's runs.
struct Row {
    name: &'static str,
    native: f64,
    emulator: Option<f64>,
    recorded: f64,
    switches: f64,
}

/// Measures all programs that this host has, and writes the table.
pub(super) fn write_table() -> Result<()> {
    let folder = inputs()?;
    println!("{HEADING}\n{RULE}");
    let mut rows = Vec::new();
    for program in PROGRAMS {
        if !program.is_there() {
            println!("{} is not on this host", program.command[0]);
            continue;
        }
        let row = program.measure(&folder)?;
        println!("{}", row.text());
        rows.push(row.text());
    }
    let page = root().join(PAGE);
    let before = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
    fs::write(&page, replaced(&before, &rows)?).with_context(|| format!("cannot write {PAGE}"))
}

/// The page with these rows in its table.
fn replaced(page: &str, rows: &[String]) -> Result<String> {
    let at = page.lines().position(|line| line == HEADING);
    let at = at.with_context(|| format!("{PAGE} has no table with the heading {HEADING}"))?;
    let (before, after) = (page.lines().take(at), page.lines().skip(at));
    let after = after.skip_while(|line| line.starts_with('|'));
    let rows = rows.iter().map(String::as_str);
    let lines = before.chain([HEADING, RULE]).chain(rows).chain(after);
    Ok(lines.map(|line| format!("{line}\n")).collect())
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

    fn measure(&self, folder: &Path) -> Result<Row> {
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
        Ok(Row {
            name: self.name,
            native: median(native).context("no run")?,
            emulator: median(emulator),
            recorded: median(recorded).context("no run")?,
            switches: median(switches).context("no run")?,
        })
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

fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied()
}

impl Row {
    fn text(&self) -> String {
        let seconds = |seconds: f64| format!("{seconds:.2} s");
        let times = |seconds: f64| format!("{:.1}", self.recorded / seconds.max(0.001));
        let [emulator, over_emulator] = match self.emulator {
            Some(emulator) => [seconds(emulator), times(emulator)],
            None => ["-".to_owned(), "-".to_owned()],
        };
        format!(
            "| {} | {} | {emulator} | {} | {} | {over_emulator} | {:.0} |",
            self.name,
            seconds(self.native),
            seconds(self.recorded),
            times(self.native),
            self.switches,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_replaced_and_nothing_else() {
        let page = format!("# Title\n\n{HEADING}\n{RULE}\n| old |\n| older |\n\nText.\n");
        let row = Row {
            name: "`x`",
            native: 0.5,
            emulator: Some(2.0),
            recorded: 10.0,
            switches: 7.0,
        };
        assert_eq!(
            replaced(&page, &[row.text()]).expect("it has the heading"),
            format!(
                "# Title\n\n{HEADING}\n{RULE}\n| `x` | 0.50 s | 2.00 s | 10.00 s | 20.0 | 5.0 | 7 |\n\nText.\n"
            )
        );
        assert!(replaced("# Title\n", &[]).is_err());
    }
}
