//! The commands of the README and of the guide, run as they stand there.
//!
//! A block of kind `console` has commands behind `$ ` and below each one what it prints. Numbers, addresses and the
//! widths of columns may differ; `...` stands for any lines. A page's blocks share one folder. A comment
//! `<!-- needs: java, javac -->` before a block names what not every host has.

use hitm_test::process::Command;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::programs::{hitm, root, say_not_run};

/// A command, and the lines that its page shows below it.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    line: usize,
    command: String,
    shown: Vec<String>,
    /// Programs, or files with their paths.
    needs: Vec<String>,
}

/// The steps of a page's console blocks.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut is_console, mut end_of_input) = (false, None);
    let mut needs = Vec::new();
    for (line, text) in (1..).zip(page.lines()) {
        if text.starts_with("```") {
            let was_console = std::mem::replace(&mut is_console, text == "```console");
            if was_console {
                needs.clear();
            }
            continue;
        }
        if let Some(named) = text.strip_prefix("<!-- needs: ") {
            let named = named.trim_end_matches(" -->").split(", ");
            needs = named.map(str::to_owned).collect();
            continue;
        }
        if !is_console {
            continue;
        }
        if let Some(end) = &end_of_input {
            let last = steps.last_mut().expect("input belongs to a command");
            last.command += &format!("\n{text}");
            if text == end {
                end_of_input = None;
            }
            continue;
        }
        match text.strip_prefix("$ ") {
            Some(command) => {
                end_of_input = command
                    .split_once("<<'")
                    .and_then(|(_, end)| end.split_once('\''))
                    .map(|(end, _)| end.to_owned());
                steps.push(Step {
                    line,
                    command: command.to_owned(),
                    shown: Vec::new(),
                    needs: needs.clone(),
                });
            }
            None => {
                let last = steps.last_mut().expect("a block begins with a command");
                last.shown.push(text.to_owned());
            }
        }
    }
    steps
}

/// A line whose numbers are `#` and whose columns have one blank between them.
fn form(line: &str) -> String {
    let mut form = String::new();
    for word in line.split_whitespace() {
        if !form.is_empty() {
            form.push(' ');
        }
        let mut rest = word;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            form.push_str(rest[..start].trim_end_matches(['-', '+']));
            form.push('#');
            let number = &rest[start..];
            let hex = number.strip_prefix("0x");
            let end = match hex {
                Some(digits) => digits
                    .find(|c: char| !c.is_ascii_hexdigit())
                    .map(|end| end + 2),
                None => number.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ','),
            };
            rest = number[end.unwrap_or(number.len())..].trim_start_matches(['k', 'M', 'G']);
        }
        form.push_str(rest);
    }
    form
}

/// Finds the first line of `shown` that `printed` does not have in its place.
fn mismatch<'s>(shown: &'s [String], printed: &str) -> Option<&'s str> {
    let printed: Vec<String> = printed.lines().map(form).collect();
    let (mut at, mut may_skip) = (0, false);
    for line in shown {
        if line == "..." {
            may_skip = true;
            continue;
        }
        let wanted = form(line);
        let found = match may_skip {
            true => (at..printed.len()).find(|index| printed[*index] == wanted),
            false => Some(at).filter(|at| printed.get(*at) == Some(&wanted)),
        };
        match found {
            Some(index) => at = index + 1,
            None => return Some(line),
        }
        may_skip = false;
    }
    let is_over = may_skip || at == printed.len();
    (!is_over && !shown.is_empty()).then_some("(the end)")
}

fn run(page: &str) {
    let text = fs::read_to_string(root().join(page)).expect("the page is there");
    let steps = steps(&text);
    assert!(!steps.is_empty(), "{page} has no commands");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["examples", "layouts", "plans", "profiles", "scenarios"] {
        let shared = root().join(name);
        std::os::unix::fs::symlink(shared, folder.path().join(name)).expect("room for a link");
    }
    let programs = hitm().parent().expect("it lies in a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    for step in &steps {
        if let Some(missing) = step.needs.iter().find(|need| !is_there(need, &path)) {
            say_not_run(&format!("{page}:{}", step.line), &format!("no {missing}"));
            continue;
        }
        check(
            page,
            step,
            folder.path(),
            &format!("{}:{path}", programs.display()),
        );
    }
}

/// Returns true for a program of the search path, and for a file that exists.
fn is_there(need: &str, path: &str) -> bool {
    std::env::split_paths(path).any(|folder| folder.join(need).exists())
}

fn check(page: &str, step: &Step, folder: &Path, path: &str) {
    let (printed, is_done) = print(step, folder, path);
    let place = format!("{page}:{}: $ {}", step.line, step.command);
    if let Some(line) = mismatch(&step.shown, &printed) {
        panic!("{place}\nnot printed: {line}\nprinted:\n{printed}");
    }
    let says_code = step.command.contains("$?");
    assert!(is_done || says_code, "{place}\n{printed}");
    if step.command.starts_with("hitm report") {
        let (again, _) = print(step, folder, path);
        assert_eq!(printed, again, "{place}, when asked again");
    }
}

/// All that a command prints but the progress that a busy host shows, and true if it ends with success.
fn print(step: &Step, folder: &Path, path: &str) -> (String, bool) {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 2>&1\n{}", step.command)]);
    shell.current_dir(folder).env("PATH", path);
    shell.env("COLUMNS", "120").stdin(Stdio::null());
    let output = shell.output().expect("the shell starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let told = printed
        .split_inclusive('\n')
        .filter(|line| !is_progress(line));
    (told.collect(), output.status.success())
}

/// Returns true for a line that is written only after ten seconds of work.
fn is_progress(line: &str) -> bool {
    let line = line.trim_end();
    line.starts_with("hitm: ") && (line.ends_with(" MB/s") || line.ends_with(" s)"))
}

macro_rules! pages {
    ($($name:ident: $page:literal,)*) => {
        $(#[test]
        fn $name() {
            run($page);
        })*
    };
}

pages! {
    readme: "README.md",
    cookbook: "docs/guide/cookbook.md",
    glossary: "docs/guide/glossary.md",
    kernels: "docs/guide/kernels.md",
    layouts: "docs/guide/layouts.md",
    machines: "docs/guide/machines.md",
    reading_a_report: "docs/guide/reading-a-report.md",
    simulation: "docs/guide/simulation.md",
    policies: "docs/guide/policies.md",
    verdicts: "docs/guide/verdicts.md",
}

#[test]
fn every_page_with_commands_is_run() {
    let own = include_str!("guide.rs");
    for entry in fs::read_dir(root().join("docs/guide")).expect("the guide") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a page");
        let name = path.file_name().expect("a name").to_string_lossy();
        let is_run = own.contains(&format!("\"docs/guide/{name}\""));
        assert_eq!(is_run, text.contains("```console"), "{name}");
    }
}

#[test]
fn numbers_may_differ_and_words_may_not() {
    let shown =
        |lines: &[&str]| -> Vec<String> { lines.iter().map(|line| (*line).into()).collect() };
    let printed = "  lost 4.663M  -61.4%\n  at 0x40ab f\nend\n";
    let matches = |lines: &[&str]| mismatch(&shown(lines), printed).is_none();
    assert!(matches(&["  lost 1,234 12.0%", "at 0x1 f", "end"]));
    assert!(matches(&["...", "end"]) && matches(&["lost 1 1%", "..."]) && matches(&[]));
    assert!(!matches(&["  found 1,234 12.0%", "..."]));
    assert!(!matches(&["  lost 1 1%", "end"]), "a line is left out");
    assert!(
        !matches(&["  lost 1 1%", "at 0x1 f"]),
        "a line is left over"
    );
    assert!(!matches(&["...", "end", "more"]));
}

#[test]
fn progress_is_no_result() {
    assert!(is_progress("hitm: advising: 30 %, 0.0 MB/s\n"));
    assert!(is_progress(
        "hitm: recording: 1.5 M cycles, 2 records (10 s)\n"
    ));
    assert!(!is_progress("hitm: error: no recording\n") && !is_progress("  0.5 MB/s\n"));
}

#[test]
fn a_block_is_commands_with_what_they_print() {
    let page = "x\n<!-- needs: go, /lib/x -->\n```console\n$ a <<'E'\nin\nE\nout\n```\n```console\n$ b\n```\n```\n$ no\n```\n";
    let step = |line, command: &str, shown: &[&str], needs: &[&str]| Step {
        line,
        command: command.to_owned(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
        needs: needs.iter().map(|need| (*need).to_owned()).collect(),
    };
    assert_eq!(
        steps(page),
        [
            step(4, "a <<'E'\nin\nE", &["out"], &["go", "/lib/x"]),
            step(10, "b", &[], &[])
        ]
    );
}
