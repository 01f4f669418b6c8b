//! The command as a user meets it: what it prints where, and how it ends.

mod accuracy;
mod advice;
mod advice_profiles;
mod callers;
mod cases;
mod ci;
mod ci_action;
mod clock;
mod company;
mod compare;
mod completions;
mod contended;
mod control;
mod cpus;
mod debuginfod;
mod deposit;
mod emitted;
mod ends;
mod examples;
mod explain;
mod export_perfetto;
mod export_views;
mod fix;
mod folders;
mod forks;
mod generated;
mod groups;
mod growth;
mod guide;
mod habits;
mod handed_over;
mod heap_sites;
mod heap_types;
mod home;
mod hostile_names;
mod hostile_program;
mod increments;
mod java;
mod kills;
mod layout;
mod layout_btf;
mod limited;
mod limits;
mod linked_allocators;
mod live_fleet;
mod live_holders;
mod live_lines;
mod live_locks;
mod live_neighbours;
mod live_rt;
mod live_throttle;
mod lost_recordings;
mod mcp;
mod namespaces;
mod page;
mod perf_data;
mod perf_data_hostile;
mod perf_data_names;
mod place;
mod processes;
mod programs;
mod pty;
mod published;
mod quiet;
mod recording;
mod recording_hostile;
mod review;
mod rt_app;
mod runs;
mod schema;
mod sentences;
mod sim;
mod sim_calls;
mod sleeping;
mod stalls;
mod steady;
mod stripped;
mod sweep;
mod thread_ends;
mod timers;
mod totals;
mod verdicts;
mod view;
mod vm;
mod waiting;
mod walks;
mod whatif;
mod writers;

use hitm_test::process::Command;
use std::process::Stdio;

use expect_test::{Expect, expect};

/// Runs `hitm` and compares standard output, standard error and exit code.
fn check(args: &[&str], expected: Expect) {
    let output = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .args(args)
        .stdin(Stdio::null())
        .env("COLUMNS", "100")
        .output()
        .expect("hitm starts");
    let text = |bytes| String::from_utf8(bytes).expect("hitm prints UTF-8");
    let code = output
        .status
        .code()
        .map_or("signal".to_owned(), |code| code.to_string());
    let (out, err) = (text(output.stdout), text(output.stderr));
    expected.assert_eq(&format!(
        "exit code {code}\n-- stdout\n{out}-- stderr\n{err}"
    ));
}

#[test]
fn help_is_a_result() {
    check(
        &["--help"],
        expect![[r#"
            exit code 0
            -- stdout
            Finds out which cache lines the threads of a program fight over, and what it costs

            Usage: hitm [OPTIONS] <COMMAND>

            Commands:
              record       Run a program and record what its threads do to shared cache lines
              report       Show which lines the threads of a recording fight over, and what to do about it
              explain      Explain a word of a report or a verdict: the rule, what met it, what would change it
              view         Look at a recording in the terminal: lines, objects, types, functions, source
              diff         Show recordings of one load side by side: where each waits, and who
              compare      Record two programs, or two revisions of one, in turn, and say what the second one
                           gains
              whatif       Run a recording again with members moved or on another machine, and compare
              fix          Change the source of a program so that its threads share less, built, checked and
                           measured
              review       Compare two builds of structures: memory, and what each line costs on four machines
              import       Make a recording of another tool's samples
              export       Write a recording in another tool's format
              live         Look at this host while it runs: locks, throttling, late wake-ups
              vm           Record a whole kernel on a machine that you do not have
              sim          Simulate a scheduler on a machine that you do not have: what a load costs, and why
              reproduce    Simulate published cases again, and show published and simulated figures side by side
              sweep        Make thousands of runs from one plan: simulations or recordings over machines,
                           layouts and keys
              machine      Show, import and measure machine models
              layout       Show, list, compare and check how structures lie in cache lines; propose better
                           layouts
              place        Put the threads that fight for a lock on the CPUs that it can keep busy, and back
              schema       Describe what commands write as JSON, by JSON Schema
              mcp          Serve recordings, reports and advice to an agent over standard input and output
                           (Model Context Protocol)
              doctor       Check this host: what works, what to install
              completions  Write what a shell needs to complete hitm's commands and options
              help         Print this message or the help of the given subcommand(s)

            Options:
                  --width <N>  Columns of text, 80 to 1000 [default: COLUMNS, else the terminal's, else 120]
              -q, --quiet      Write neither progress nor notes to standard error, only errors; exit codes say
                               the rest
              -h, --help       Print help
              -V, --version    Print version

            Exit codes:
              0   done (hitm record: the recorded program's own exit code)
              1   a condition of --fail-on or --check holds, or a rule is broken
              2   wrong usage, or something cannot be read or written
              3   something is missing on this host; the message says what to install
              70  an internal error of hitm

            Results go to standard output, everything else to standard error.
            Colours are used on a terminal only, and not when NO_COLOR is set or TERM is dumb. On a terminal a
            long report goes through PAGER, or through less; PAGER=cat shows it at once.
            -- stderr
        "#]],
    );
}

#[test]
fn an_unknown_command_is_wrong_usage() {
    check(
        &["recrod"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: unrecognized subcommand 'recrod'

              tip: some similar subcommands exist: 'reproduce', 'record'

            Usage: hitm [OPTIONS] <COMMAND>

            For more information, try '--help'.
        "#]],
    );
}

#[test]
fn no_command_is_wrong_usage() {
    check(
        &[],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            Finds out which cache lines the threads of a program fight over, and what it costs

            Usage: hitm [OPTIONS] <COMMAND>

            Commands:
              record       Run a program and record what its threads do to shared cache lines
              report       Show which lines the threads of a recording fight over, and what to do about it
              explain      Explain a word of a report or a verdict: the rule, what met it, what would change it
              view         Look at a recording in the terminal: lines, objects, types, functions, source
              diff         Show recordings of one load side by side: where each waits, and who
              compare      Record two programs, or two revisions of one, in turn, and say what the second one
                           gains
              whatif       Run a recording again with members moved or on another machine, and compare
              fix          Change the source of a program so that its threads share less, built, checked and
                           measured
              review       Compare two builds of structures: memory, and what each line costs on four machines
              import       Make a recording of another tool's samples
              export       Write a recording in another tool's format
              live         Look at this host while it runs: locks, throttling, late wake-ups
              vm           Record a whole kernel on a machine that you do not have
              sim          Simulate a scheduler on a machine that you do not have: what a load costs, and why
              reproduce    Simulate published cases again, and show published and simulated figures side by side
              sweep        Make thousands of runs from one plan: simulations or recordings over machines,
                           layouts and keys
              machine      Show, import and measure machine models
              layout       Show, list, compare and check how structures lie in cache lines; propose better
                           layouts
              place        Put the threads that fight for a lock on the CPUs that it can keep busy, and back
              schema       Describe what commands write as JSON, by JSON Schema
              mcp          Serve recordings, reports and advice to an agent over standard input and output
                           (Model Context Protocol)
              doctor       Check this host: what works, what to install
              completions  Write what a shell needs to complete hitm's commands and options
              help         Print this message or the help of the given subcommand(s)

            Options:
                  --width <N>  Columns of text, 80 to 1000 [default: COLUMNS, else the terminal's, else 120]
              -q, --quiet      Write neither progress nor notes to standard error, only errors; exit codes say
                               the rest
              -h, --help       Print help
              -V, --version    Print version

            Exit codes:
              0   done (hitm record: the recorded program's own exit code)
              1   a condition of --fail-on or --check holds, or a rule is broken
              2   wrong usage, or something cannot be read or written
              3   something is missing on this host; the message says what to install
              70  an internal error of hitm

            Results go to standard output, everything else to standard error.
            Colours are used on a terminal only, and not when NO_COLOR is set or TERM is dumb. On a terminal a
            long report goes through PAGER, or through less; PAGER=cat shows it at once.
        "#]],
    );
}

#[test]
fn an_unknown_option_is_wrong_usage() {
    check(
        &["doctor", "--fast"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: unexpected argument '--fast' found

            Usage: hitm doctor [OPTIONS]

            For more information, try '--help'.
        "#]],
    );
}
