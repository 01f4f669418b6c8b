//! Rules about the text of single files.
//!
//! Words that are forbidden are put together from two halves here, so that this file does not break
//! its own rules.

use std::collections::BTreeSet;

use super::{Checkout, File};

/// Lines of code that a file may have; the aim is 400.
const CODE_LINES_MAX: usize = 1000;
/// Bytes that a file may have.
const FILE_SIZE_MAX: u64 = 500 << 10;
/// Names of folders that hold files made elsewhere.
const FIXTURE_FOLDERS: [&str; 3] = ["fixtures", "golden", "corpus"];

const UNFINISHED: [(&str, &str); 4] = [
    ("todo", "!("),
    ("unimplemented", "!("),
    ("#[ign", "ore"),
    ("dbg", "!("),
];
const MACHINE_PATHS: [(&str, &str); 3] = [("/ho", "me/"), ("/ro", "ot/"), ("/wo", "rk/")];

/// Applies a rule to every text file; returns its findings, each behind the file's path.
pub(super) fn each_file(checkout: &Checkout, rule: fn(&File, &str) -> Vec<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for file in &checkout.files {
        if let Some(text) = &file.text {
            let found = rule(file, text).into_iter();
            problems.extend(found.map(|problem| format!("{}{problem}", file.path)));
        }
    }
    problems
}

fn is_rust(file: &File) -> bool {
    file.path.ends_with(".rs")
}

pub(super) fn too_long(file: &File, text: &str) -> Vec<String> {
    let is_test = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
    let lines = code_lines(text);
    if !is_rust(file) || is_test || lines <= CODE_LINES_MAX {
        return Vec::new();
    }
    vec![format!(" has {lines}")]
}

/// Lines that are neither blank nor comment, up to the module of tests that ends a file.
fn code_lines(text: &str) -> usize {
    let product = text
        .split("\n#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let code = product.lines().map(str::trim);
    code.filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

pub(super) fn unfinished(file: &File, text: &str) -> Vec<String> {
    if is_rust(file) {
        containing(text, &UNFINISHED)
    } else {
        Vec::new()
    }
}

/// Processes of the standard library, which have no deadline.
pub(super) fn endless(file: &File, text: &str) -> Vec<String> {
    if !is_rust(file) || !file.path.contains("/tests/") {
        return Vec::new();
    }
    let standard = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.contains("std::process::"));
    let starts = |line: &str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word == "Command" || word == "Child")
    };
    standard
        .filter(|(_, line)| starts(line))
        .map(|(number, _)| format!(":{number} has a process of the standard library"))
        .collect()
}

pub(super) fn machine_path(_: &File, text: &str) -> Vec<String> {
    containing(text, &MACHINE_PATHS)
}

fn containing(text: &str, words: &[(&str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (head, tail) in words {
            let word = format!("{head}{tail}");
            if line.contains(&word) {
                problems.push(format!(":{number} has {word}"));
            }
        }
    }
    problems
}

pub(super) fn markdown_title(file: &File, text: &str) -> Vec<String> {
    if !file.path.ends_with(".md") {
        return Vec::new();
    }
    // A skill of an agent begins with its name and what it is for.
    let matter = text
        .strip_prefix("---\n")
        .and_then(|text| text.split_once("\n---\n"));
    let text = matter.map_or(text, |(_, text)| text.trim_start());
    if !text.starts_with("# ") {
        return vec![":1 is no title".to_owned()];
    }
    // Titles of the parts of the guide.
    if file.path.ends_with("/SUMMARY.md") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        fenced ^= line.trim_start().starts_with("```");
        if number > 1 && !fenced && line.starts_with("# ") {
            problems.push(format!(":{number} is a second title"));
        }
    }
    problems
}

pub(super) fn fixtures_without_readme(checkout: &Checkout) -> Vec<String> {
    without_readme(checkout.files.iter().map(|file| file.path.as_str()))
}

fn without_readme<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut folders = BTreeSet::new();
    for path in paths.clone() {
        let parts: Vec<&str> = path.split('/').collect();
        let parents = &parts[..parts.len() - 1];
        if let Some(depth) = parents
            .iter()
            .position(|part| FIXTURE_FOLDERS.contains(part))
        {
            folders.insert(parts[..=depth].join("/"));
        }
    }
    folders.retain(|folder| {
        let readme = format!("{folder}/README.md");
        !paths.clone().any(|path| path == readme)
    });
    folders.into_iter().collect()
}

pub(super) fn blobs(checkout: &Checkout) -> Vec<String> {
    let large = checkout
        .files
        .iter()
        .filter(|file| file.size_bytes > FILE_SIZE_MAX);
    large
        .map(|file| format!("{} has {} bytes", file.path, file.size_bytes))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_without_a_deadline_are_found_in_tests() {
        let text = "use std::process::{Command, Output};\nuse std::process::{CommandExt, Stdio};\n\
            use hitm_test::process::Child;\nfn a(child: &std::process::Child) {}\n";
        let found = |path| endless(&File::of(path, text), text);
        assert_eq!(found("crates/a/src/b.rs"), [""; 0]);
        let place = |number| format!(":{number} has a process of the standard library");
        assert_eq!(found("crates/a/tests/b.rs"), [place(1), place(4)]);
    }

    #[test]
    fn comments_blanks_and_tests_are_no_code() {
        let text = "//! Doc.\n\nfn a() {}\n    // Why.\nfn b() {}\n\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
        assert_eq!(code_lines(text), 2);
    }

    #[test]
    fn a_file_is_too_long_beyond_its_limit() {
        let text = "fn f() {}\n".repeat(CODE_LINES_MAX + 1);
        let long = |path| too_long(&File::of(path, &text), &text).len();
        assert_eq!(long("crates/a/src/lib.rs"), 1);
        assert_eq!(long("crates/a/src/lib/tests.rs"), 0);
        assert_eq!(long("crates/a/tests/it/main.rs"), 0);
        assert_eq!(long("notes.md"), 0);
    }

    #[test]
    fn forbidden_words_are_found_with_their_lines() {
        let text = format!("fn a() {{}}\nfn b() {{ {}{}) }}\n", "todo", "!(");
        let found = unfinished(&File::of("a.rs", &text), &text);
        assert_eq!(found, [format!(":2 has {}{}", "todo", "!(")]);
        let text = format!("see {}{}me/notes\n", "/ho", "me/");
        assert_eq!(machine_path(&File::of("a.md", &text), &text).len(), 1);
    }

    #[test]
    fn a_title_comes_first_and_once() {
        let titles = |text: &str| markdown_title(&File::of("a.md", text), text).len();
        assert_eq!(titles("# A\n\n## B\n\n```\n# comment\n```\n"), 0);
        assert_eq!(titles("A\n"), 1);
        assert_eq!(titles("# A\n\n# B\n"), 1);
    }

    #[test]
    fn a_folder_of_fixtures_needs_a_readme_at_its_top() {
        let paths = [
            "crates/a/tests/golden/README.md",
            "crates/a/tests/golden/x/y.txt",
            "crates/b/tests/fixtures/z.bin",
            "crates/c/src/golden.rs",
        ];
        assert_eq!(
            without_readme(paths.into_iter()),
            ["crates/b/tests/fixtures"]
        );
    }
}
