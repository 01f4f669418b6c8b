//! Go as gofmt writes it, where that is installed.

use std::io::{Seek as _, Write as _};
use std::process::{Command, Stdio};

use hitm_layout::emit::{difference, patched};

/// A diff whose result is formatted, if the text was and there is a gofmt; else the diff as it is.
pub(super) fn formatted(file: &str, before: &str, diff: String) -> String {
    let after = || {
        // Lines that nobody asked for stay as they are.
        let is_formatted = gofmt(before)? == before;
        is_formatted.then(|| gofmt(&patched(before, &diff)?)).flatten()
    };
    match after() {
        Some(after) => difference(file, before, &after),
        None => diff,
    }
}

fn gofmt(text: &str) -> Option<String> {
    let mut input = tempfile::tempfile().ok()?;
    input.write_all(text.as_bytes()).ok()?;
    input.rewind().ok()?;
    let mut gofmt = Command::new("gofmt");
    let gofmt = gofmt.stdin(input).stderr(Stdio::null());
    let output = gofmt.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "package main\n\ntype slab struct {\n\tlength int64\n\tbuf    int64\n}\n";

    #[test]
    fn a_formatted_file_stays_one() {
        if gofmt(BEFORE).is_none() {
            eprintln!("NOT RUN: Go's format: there is no gofmt");
            return;
        }
        let padded = |before: &str| {
            let after = before.replace("\tbuf", "\t_ [56]byte\n\tbuf");
            patched(before, &formatted("a.go", before, difference("a.go", before, &after))).unwrap()
        };
        assert_eq!(
            padded(BEFORE),
            "package main\n\ntype slab struct {\n\tlength int64\n\t_      [56]byte\n\tbuf    int64\n}\n"
        );
        let odd = BEFORE.replace("buf    int64", "buf  int64");
        assert_eq!(padded(&odd), odd.replace("\tbuf", "\t_ [56]byte\n\tbuf"));
    }
}
