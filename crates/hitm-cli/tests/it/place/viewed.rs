//! `hitm live` without a verb, in a terminal.

use hitm_test::process::{Command, wait_for};
use ratatui::layout::Size;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::fight::{Fight, here};
use super::{PATIENCE, journals_in, kill};
use crate::pty::Pty;

const SIZE: Size = Size::new(80, 24);
/// Short, so that many windows see nothing but the lock.
const WINDOW: &str = "100ms";

fn live(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
    command.arg("live").args(args).env("TERM", "xterm");
    command.env_remove("NO_COLOR");
    command
}

/// A view of a fight, and the terminal's settings before it.
fn view_of(fight: &Fight, journals: &Path) -> (Pty, (u32, u32, u32, u32)) {
    let pid = fight.pid().to_string();
    let journals = journals.to_str().expect("UTF-8");
    // The settings of any new terminal.
    let mut other = Pty::start(&mut Command::new("true"), SIZE);
    other.end();
    let mut command = live(&["--pid", &pid, "--window", WINDOW, "--journals", journals]);
    let pty = Pty::start(&mut command, SIZE);
    pty.wait_for("rwsem");
    assert_ne!(
        pty.settings(),
        other.settings(),
        "keys are not read as they come"
    );
    (pty, other.settings())
}

/// Presses p until the threads are placed. On two CPUs a lock has to look held all the time: one sample of other
/// work in a window says that two are of use.
fn place(pty: &mut Pty, fight: &Fight) {
    let begun = Instant::now();
    while fight.is_everywhere() {
        assert!(begun.elapsed() < PATIENCE, "not placed:\n{}", pty.screen());
        pty.press("p");
        std::thread::sleep(Duration::from_millis(200));
    }
    pty.wait_for("(placed)");
}

/// A closed terminal gives an end to read, again and again: with SIGHUP, and without where nohup has it ignored.
#[test]
fn a_terminal_that_hangs_up_ends_the_view() {
    if !here("the view", false) {
        return;
    }
    for is_ignored in [false, true] {
        let mut command = live(&["--pid", &std::process::id().to_string()]);
        if is_ignored {
            // SAFETY: a system call alone.
            unsafe {
                command.pre_exec(|| {
                    libc::signal(libc::SIGHUP, libc::SIG_IGN);
                    Ok(())
                });
            }
        }
        let mut pty = Pty::start(&mut command, SIZE);
        pty.wait_for("Locks by CPUs lost");
        pty.hang_up();
        pty.end();
    }
}

#[test]
fn keys_show_a_lock_place_its_threads_and_put_them_back() {
    if !here("the view", true) {
        return;
    }
    let fight = Fight::start();
    let journals = tempfile::tempdir().expect("a temporary directory");
    let (mut pty, before) = view_of(&fight, journals.path());
    pty.wait_for("[1 Locks by CPUs lost]");
    pty.wait_for(">");
    pty.press("\r");
    pty.wait_for("Callers");
    pty.wait_for("Threads");
    pty.press("\x1b");
    pty.wait_for("CPUs lost");
    pty.press("\t");
    pty.wait_for("[2 Throttled groups]");
    pty.press("3");
    pty.wait_for("[3 Late wake-ups]");
    pty.press("1");
    place(&mut pty, &fight);
    assert_eq!(journals_in(journals.path()), 1);
    pty.press("u");
    wait_for("put back", || fight.is_everywhere());
    pty.wait_for("undone:");
    assert_eq!(journals_in(journals.path()), 0);
    pty.press("?");
    pty.wait_for("docs/place.md");
    pty.press("q");
    assert_eq!(pty.end().code(), Some(0), "{}", pty.screen());
    pty.wait_until("given back", Pty::is_given_back);
    assert_eq!(pty.settings(), before);
}

#[test]
fn a_signal_gives_the_terminal_and_the_threads_back() {
    if !here("the view", true) {
        return;
    }
    let fight = Fight::start();
    let journals = tempfile::tempdir().expect("a temporary directory");
    let (mut pty, before) = view_of(&fight, journals.path());
    place(&mut pty, &fight);
    kill(pty.child.id(), libc::SIGTERM);
    assert_eq!(pty.end().code(), Some(0), "{}", pty.screen());
    assert!(fight.is_everywhere());
    assert_eq!(journals_in(journals.path()), 0);
    pty.wait_until("given back", Pty::is_given_back);
    pty.wait_for("undone: ");
    assert_eq!(pty.settings(), before);
}

#[test]
fn without_a_terminal_it_is_an_error_of_usage() {
    for args in [&[][..], &["--pid", "1"], &["--pid", "1", "locks"]] {
        let output = live(args)
            .stdin(Stdio::null())
            .output()
            .expect("hitm starts");
        let said = super::text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(!said.contains('\x1b'), "{said}");
        assert!(said.contains("verb"), "{said}");
    }
    let mut pty = Pty::start(live(&[]).env("TERM", "dumb"), SIZE);
    assert_eq!(pty.end().code(), Some(2));
    pty.wait_for("TERM is dumb");
    assert!(!pty.bytes().contains(&0x1b));
}

#[test]
fn a_missing_layer_is_named_in_color_or_without() {
    let run = |no_color: &str| {
        let mut command = live(&["--window", "200ms"]);
        command.env("NO_COLOR", no_color);
        without_bpf(&mut command);
        let mut pty = Pty::start(&mut command, SIZE);
        pty.press("3");
        pty.wait_for("not used: BPF programs: ");
        pty.press("\x03");
        assert_eq!(pty.end().code(), Some(0), "{}", pty.screen());
        pty.wait_until("given back", Pty::is_given_back);
        let bytes = pty.bytes();
        // What begins a sequence that makes text yellow.
        const YELLOW: &[u8] = b"\x1b[38;5;3";
        bytes.windows(YELLOW.len()).any(|part| part == YELLOW)
    };
    assert!(run(""), "nothing is yellow");
    assert!(!run("1"), "NO_COLOR is not kept to");
}

/// Lets `command` load no BPF programs. A user without rights loads none anyway.
fn without_bpf(command: &mut Command) {
    const CAPABILITIES: [libc::c_ulong; 4] = [21, 34, 38, 39]; // SYS_ADMIN, SYSLOG, PERFMON, BPF
    // SAFETY: system calls alone.
    unsafe {
        command.pre_exec(|| {
            for capability in CAPABILITIES {
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
            Ok(())
        });
    }
}
