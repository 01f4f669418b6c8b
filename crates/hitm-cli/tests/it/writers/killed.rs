//! Kills writers at random moments.
//!
//! `cargo xtask kills 1000 --writers` kills so many and prints the table; `cargo test` a few.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hitm_test::process::{Child, Command};

use super::bench::{Bench, FORMER, Found, Results, WRITERS};
use crate::programs::hitm;
use hitm_base::Random;

/// Kills that `cargo test` does.
const KILLS: u64 = 36;
/// The longest time until a writer begins to write, or ends.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest time from the first sign of a result to the kill.
const WRITING_MAX: Duration = Duration::from_millis(20);

/// Outcome of the kills of one writer.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    /// Writers that had ended before.
    missed: u64,
    /// Kills after which all files are former ones, all new ones, or some of each.
    former: u64,
    new: u64,
    both: u64,
    /// Kills after which a file is neither or gone.
    torn: u64,
    /// Kills that left a file beside, and the most that one left.
    left: u64,
    left_max: usize,
}

#[test]
fn killed_writers_leave_the_former_result_or_the_new_one() {
    let kills = std::env::var("HITM_WRITER_KILLS").map_or(KILLS, |count| {
        count
            .parse()
            .expect("HITM_WRITER_KILLS is a number of kills")
    });
    let bench = Bench::new();
    let mut table =
        String::from("\nkills  missed  former  new  both  torn  left beside (most)  writer\n");
    let mut torn = 0;
    for (number, args) in WRITERS.into_iter().enumerate() {
        let count = WRITERS.len() as u64;
        let share = kills / count + u64::from((number as u64) < kills % count);
        let tally = tally(&bench, args, Random::new(number as u64), share);
        let Tally {
            kills,
            missed,
            former,
            new,
            both,
            ..
        } = tally;
        table.push_str(&format!(
            "{kills:5}  {missed:6}  {former:6}  {new:3}  {both:4}  {:4}  {:11} {:6}  {args}\n",
            tally.torn, tally.left, tally.left_max,
        ));
        torn += tally.torn;
    }
    // Past the harness, which keeps what passing tests print.
    let _ = std::io::stderr().write_all(table.as_bytes());
    assert_eq!(torn, 0);
}

fn tally(bench: &Bench, args: &str, mut random: Random, count: u64) -> Tally {
    let mut tally = Tally::default();
    let started = Instant::now();
    let new = bench.results_of(args);
    let whole = started.elapsed();
    for _ in 0..count {
        bench.place_former(&new);
        let writer = start(bench.folder(), args);
        // Half of the kills come anywhere, half while something is written.
        let is_missed = match random.below(2) {
            0 => {
                let micros = random.below(whole.as_micros() as u64);
                sleep(Duration::from_micros(micros));
                kill(writer)
            }
            _ => {
                let mut writer = writer;
                wait_for_result(bench, &new, &mut writer);
                let micros = random.below(WRITING_MAX.as_micros() as u64);
                sleep(Duration::from_micros(micros));
                kill(writer)
            }
        };
        tally.add(bench.find(&new), is_missed);
    }
    // The next writer removes what the killed ones left.
    let status = start(bench.folder(), args).wait();
    assert!(status.expect("hitm ends").success(), "{args}");
    let Found {
        new: whole, left, ..
    } = bench.find(&new);
    assert_eq!((whole, left), (new.len(), 0), "{args}");
    tally
}

fn start(folder: &Path, args: &str) -> Child {
    let mut command = Command::new(hitm());
    command.args(args.split(' ')).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null());
    command.spawn().expect("hitm starts")
}

/// Returns true if the writer had ended by itself.
fn kill(mut writer: Child) -> bool {
    writer.kill().expect("it was not waited for");
    writer.wait().expect("hitm is gone").code().is_some()
}

/// Waits until a file appears beside, or another one than the former has a name.
fn wait_for_result(bench: &Bench, new: &Results, writer: &mut Child) {
    let started = Instant::now();
    let names: Vec<_> = new.keys().map(|name| bench.out().join(name)).collect();
    let is_changed = |path: &std::path::PathBuf| {
        let name = path.file_name().expect("a file").to_string_lossy();
        let beside = path.with_file_name(format!(".{name}.part"));
        fs::metadata(path).map_or(true, |found| found.len() != FORMER.len() as u64)
            || beside.exists()
    };
    while !names.iter().any(is_changed) {
        if writer.try_wait().expect("it is a child").is_some() {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "nothing is written");
        sleep(Duration::from_micros(50));
    }
}

impl Tally {
    fn add(&mut self, found: Found, is_missed: bool) {
        self.kills += 1;
        self.missed += u64::from(is_missed);
        match (found.former, found.new) {
            _ if found.torn > 0 => self.torn += 1,
            (_, 0) => self.former += 1,
            (0, _) => self.new += 1,
            _ => self.both += 1,
        }
        self.left += u64::from(found.left > 0);
        self.left_max = self.left_max.max(found.left);
    }
}
