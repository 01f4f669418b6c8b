//! Kills tools, guards and both at random moments, and compares masks, cpusets and cgroups with those before.
//!
//! `cargo xtask kills 1000 --place` runs so many and prints the table; `cargo test` runs a few.

use hitm_test::process::{Child, wait_for};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::load::{self, backends, cpus_of};
use super::{PATIENCE, Trial, command, journals_in, kill, run, text};
use crate::programs::say_not_run;
use hitm_base::Random;

/// Kills that `cargo test` does.
const KILLS: u64 = 12;
/// Starts of hitm after which nothing may be left.
const STARTS_MAX: usize = 3;
/// Time that the threads stay placed when nobody is killed.
const PLACED: &str = "60ms";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Tool,
    Guard,
    Both,
}

impl Victim {
    const ALL: [Victim; 3] = [Victim::Tool, Victim::Guard, Victim::Both];
}

/// Outcome of the kills of one victim with one means.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    /// The victim had ended by itself, or had not started.
    missed: u64,
    /// Threads were placed at the moment of the kill.
    placed: u64,
    /// Tasks that were not as before when tool and guard had ended, undone by the next start.
    next_start: u64,
    /// Tasks, cgroups or journals that were not as before at the end.
    different: u64,
}

#[test]
fn everything_is_as_before_after_kills() {
    if cpus_of(std::process::id()).len() < 2 {
        return say_not_run("kills of placements", "one CPU is no choice");
    }
    let kills = std::env::var("HITM_PLACE_KILLS").map_or(KILLS, |count| {
        count
            .parse()
            .expect("HITM_PLACE_KILLS is a number of kills")
    });
    let backends = backends();
    let kinds = (Victim::ALL.len() * backends.len()) as u64;
    let mut table = String::from(
        "\nkilled  means      kills  missed  while placed  left to the next start  different\n",
    );
    let mut different = 0;
    for (index, backend) in backends.iter().enumerate() {
        let trial = Trial::new(backend);
        for (number, victim) in Victim::ALL.into_iter().enumerate() {
            let place = (index * Victim::ALL.len() + number) as u64;
            let count = kills / kinds + u64::from(place < kills % kinds);
            let tally = tally(&trial, victim, count, place);
            let Tally {
                kills,
                missed,
                placed,
                next_start,
                ..
            } = tally;
            table.push_str(&format!(
                "{:6}  {backend:9}  {kills:5}  {missed:6}  {placed:12}  {next_start:22}  {:9}\n",
                format!("{victim:?}").to_lowercase(),
                tally.different,
            ));
            different += tally.different;
            assert!(
                victim != Victim::Both || count < 20 || next_start > 0,
                "no kill left anything"
            );
        }
    }
    // Past the harness, which keeps what passing tests print.
    let _ = std::io::stderr().write_all(table.as_bytes());
    assert_eq!(different, 0);
}

fn tally(trial: &Trial, victim: Victim, count: u64, seed: u64) -> Tally {
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    let before = load::groups();
    let pid = trial.load.pid().to_string();
    let start = || -> Child {
        let args = trial.args(&pid, &["--for", PLACED]);
        let child = command(trial.folder(), &args).spawn();
        child.expect("hitm starts")
    };
    let mut whole = Duration::ZERO;
    for number in 0..count {
        // The moments are those of a whole run, from its first instruction to its last. How long one takes
        // depends on what else the host does.
        if number % 25 == 0 {
            let begun = Instant::now();
            let output = start().wait_with_output().expect("it ends");
            assert!(output.status.success(), "{}", text(&output));
            whole = begun.elapsed();
        }
        let child = start();
        sleep(Duration::from_micros(
            random.below(whole.as_micros() as u64),
        ));
        strike(trial, victim, child, &mut tally);
        settle(trial, &before, &mut tally);
    }
    tally
}

fn strike(trial: &Trial, victim: Victim, mut child: Child, tally: &mut Tally) {
    tally.kills += 1;
    let tool = child.id();
    let is_placed = trial
        .load
        .tasks()
        .iter()
        .all(|tid| cpus_of(*tid).len() <= 1);
    let has_ended = child.try_wait().expect("it is our child").is_some();
    match victim {
        Victim::Tool => kill(tool, libc::SIGKILL),
        Victim::Both => load::kill_both(tool, trial.folder()),
        Victim::Guard => match load::guard_of(tool) {
            Some(guard) => kill(guard, libc::SIGKILL),
            None => tally.missed += u64::from(!has_ended),
        },
    }
    tally.missed += u64::from(has_ended);
    tally.placed += u64::from(is_placed);
    let _ = child.wait_with_output();
}

/// Waits for the guard, lets the next start undo what is left, and compares.
fn settle(trial: &Trial, before: &BTreeSet<PathBuf>, tally: &mut Tally) {
    wait_for("guards end", || {
        load::processes_of(trial.folder()).is_empty()
    });
    tally.next_start += u64::from(journals_in(trial.folder()) > 0);
    // A process that is ending has no command line any more, and its lock still: then the start after.
    for _ in 0..STARTS_MAX {
        if journals_in(trial.folder()) == 0 {
            break;
        }
        let output = run(trial.folder(), &["status"]);
        assert!(output.status.success(), "{}", text(&output));
    }
    let difference = trial.load.difference();
    let left = load::groups()
        .difference(before)
        .filter(|group| stays(group))
        .count();
    let journals = journals_in(trial.folder());
    if difference.is_some() || left > 0 || journals > 0 {
        tally.different += 1;
        let _ = writeln!(
            std::io::stderr(),
            "{difference:?}, {left} cgroups, {journals} journals"
        );
    }
}

/// A group of another test goes away by itself.
fn stays(group: &Path) -> bool {
    let begun = Instant::now();
    while group.exists() {
        if begun.elapsed() > PATIENCE / 12 {
            return true;
        }
        sleep(Duration::from_millis(20));
    }
    false
}
