//! `hitm view` in a terminal, and text that fits one.

use hitm_test::process::Command;
use ratatui::layout::Size;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;

use crate::programs::{self, hitm};
use crate::pty::Pty;

const SIZE: Size = Size::new(80, 24);

/// A recording of false sharing in `directory`, and its source beside it.
fn recorded(directory: &Path) {
    let source = directory.join("false_sharing.c");
    for name in ["false_sharing.c", "common.h"] {
        let example = programs::root().join("examples").join(name);
        std::fs::copy(example, directory.join(name)).expect("room for a copy");
    }
    let program = programs::build(directory, "program", &source, &[]);
    programs::record(directory, &program, &["2000".to_owned()]);
}

/// `hitm` in `directory`, on a terminal as most are.
fn on_terminal(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(hitm());
    command.args(args).current_dir(directory);
    command.env("TERM", "xterm").env("PAGER", "cat");
    command.env_remove("NO_COLOR").env_remove("COLUMNS");
    command
}

/// Waits until the screen has all texts, and returns the screen.
///
/// A frame reaches the terminal in parts, so all that a test reads of one is waited for.
#[track_caller]
fn screen_with(pty: &Pty, texts: &[&str]) -> String {
    for text in texts {
        pty.wait_for(text);
    }
    pty.screen()
}

/// Returns true if one of 256 colours was written, the way in which ratatui writes all of them.
fn has_colors(pty: &Pty) -> bool {
    let written = String::from_utf8_lossy(&pty.bytes()).into_owned();
    written.contains("[38;5;") || written.contains("[48;5;")
}

#[test]
fn a_recording_is_looked_at_and_run_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    recorded(directory);
    let mut other = Pty::start(&mut Command::new("true"), SIZE);
    other.end();
    let mut pty = Pty::start(&mut on_terminal(directory, &["view", "program.hitm"]), SIZE);
    screen_with(&pty, &["[1 Findings]", "false sharing"]);
    pty.press("\r");
    screen_with(&pty, &["> finding 1", "Why: False sharing"]);
    pty.press("\r");
    // Each thread has bytes of its own: a staircase of reads and writes.
    let map = screen_with(&pty, &["lost cycles: 9 is", ".RW9", "f.w", "f.z"]);
    assert!(has_colors(&pty), "{map}");
    pty.press("s");
    screen_with(&pty, &["> false_sharing.c", "*member;"]);
    pty.press("\x1b");
    pty.wait_for("lost cycles: 9 is");
    pty.press("w--threads-to compact\r");
    screen_with(&pty, &["> what if --threads-to", "before", "change"]);
    // Two escapes at once would be another key.
    pty.press("\x1b");
    pty.wait_for("lost cycles: 9 is");
    pty.press("w-m no-such-machine\r");
    pty.wait_for("cannot use the machine 'no-such-machine'");
    pty.press("5");
    pty.wait_for("touch_own_member");
    pty.press("/main\r?");
    pty.wait_for("R reads, W writes, L locked");
    pty.press("q");
    assert_eq!(pty.end().code(), Some(0), "{}", pty.screen());
    pty.wait_until("given back", Pty::is_given_back);
    assert_eq!(pty.settings(), other.settings());
    the_report_opens_it(directory);
    a_long_report_goes_through_the_pager(directory);
    text_keeps_to_the_width(directory);
}

fn the_report_opens_it(directory: &Path) {
    let args = ["report", "-i", "program.hitm", "--tui"];
    let mut command = on_terminal(directory, &args);
    let mut pty = Pty::start(command.env("NO_COLOR", "1"), SIZE);
    pty.wait_for("[1 Findings]");
    pty.press("2");
    pty.wait_for("[2 Lines]");
    pty.press("\r");
    pty.wait_for("lost cycles: 9 is");
    assert!(!has_colors(&pty), "colours with NO_COLOR");
    pty.press("\x03");
    assert_eq!(pty.end().code(), Some(0), "{}", pty.screen());
    pty.wait_until("given back", Pty::is_given_back);
}

fn a_long_report_goes_through_the_pager(directory: &Path) {
    let args = ["report", "-i", "program.hitm"];
    let shown = |pager: &str| {
        let mut command = on_terminal(directory, &args);
        let mut pty = Pty::start(command.env("PAGER", pager), SIZE);
        assert_eq!(pty.end().code(), Some(0), "{}", pty.screen());
        pty.wait_until("the end", |pty| {
            String::from_utf8_lossy(&pty.bytes()).contains("Threads, in virtual cycles")
        });
        String::from_utf8_lossy(&pty.bytes()).into_owned()
    };
    let paged = shown("sed s/^/through-the-pager:/");
    assert!(paged.contains("through-the-pager:"), "{paged}");
    for pager in ["cat", "", "no-such-pager-of-hitm"] {
        let plain = shown(pager);
        assert!(plain.contains("Lost "), "{plain}");
        assert!(!plain.contains("through-the-pager:"), "{plain}");
    }
}

fn text_keeps_to_the_width(directory: &Path) {
    for width in ["80", "100", "200"] {
        let args = ["report", "-i", "program.hitm", "--width", width];
        let output = programs::run(directory, &args);
        let text = String::from_utf8(output.stdout).expect("hitm writes UTF-8");
        let limit: usize = width.parse().expect("a number");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(limit), "{widest:?} in {width}:\n{text}");
        assert_eq!(text.contains("Not shown in"), limit == 80, "{text}");
        // Nothing is cut inside the name of a member.
        assert!(text.contains("f.x"), "{text}");
    }
    let refused = programs::run(
        directory,
        &["report", "-i", "program.hitm", "--width", "79"],
    );
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn without_a_terminal_a_view_is_an_error_of_usage() {
    let view = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
        command.arg0("hitm").args(args).stdin(Stdio::null());
        command
    };
    for args in [&["view", "x.hitm"][..], &["report", "--tui"]] {
        let output = view(args).output().expect("hitm starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("hitm report writes"), "{error}");
    }
    let mut dumb = view(&["view"]);
    let mut pty = Pty::start(dumb.env("TERM", "dumb"), SIZE);
    assert_eq!(pty.end().code(), Some(2));
    pty.wait_for("TERM is dumb");
}
