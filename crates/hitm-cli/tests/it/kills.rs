//! Kills recorders and recorded programs at random moments, and counts what is lost.
//!
//! The ring that a recorder shares with QEMU is a memfd. The test opens it through /proc before the
//! kill, so that it can still be read when both are dead. It shows which blocks were committed and
//! which of them the recorder had taken. Taken blocks must be in the file, but for the one that the
//! recorder was writing. Of a killed program every committed block must be in it. Before a program
//! runs, the former recording must be there.
//!
//! `cargo xtask kills 200` runs 200 of each kind and prints the table; `cargo test` runs a few.

mod evidence;

use hitm_test::process::{Child, Command, wait_for};
use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use hitm_trace::ring::RingSnapshot;

use self::evidence::{Fate, RecordedFile, RingMemory};
use crate::ends::{OUTLIVES_MAX, outliving};
use crate::programs::{self, hitm, report};
use crate::recording::programs_of;
use hitm_base::Random;

/// Kills of each kind that `cargo test` does.
const KILLS: usize = 8;
/// The file grows to a random length below this before a kill: half a second's work.
const FILE_BYTES_MAX: u64 = 6_000_000;
/// The longest time in which a recorder may take no block.
const TAKE_MAX: Duration = Duration::from_millis(100);
/// One kill in so many comes before anything is recorded.
const EARLY_EVERY: u64 = 5;
const EARLY_MAX: Duration = Duration::from_millis(400);
/// Stands for the former recording.
const FORMER: &[u8] = b"former";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Recorder,
    Program,
}

/// Outcome of the kills of one victim.
#[derive(Debug, Default)]
struct Tally {
    kills: u64,
    /// Kills before the recorder had a ring, or the ring a program.
    early: u64,
    /// Blocks that were committed to the ring.
    committed: u64,
    /// Of these, blocks in the file, and their records.
    read_back: u64,
    records: u64,
    /// Of these, blocks that the recorder had not taken when it died.
    in_ring: u64,
    /// Of these, blocks that were taken and are not in the file; the most of one kill.
    lost: u64,
    lost_max: u64,
    /// Kills after which the file ended within a chunk, and the bytes that reports count of it.
    torn: u64,
    torn_bytes: u64,
    processes_left: usize,
    files_left: usize,
}

#[test]
fn what_was_committed_survives_kills() {
    let kills = std::env::var("HITM_KILLS").map_or(KILLS, |count| {
        count.parse().expect("HITM_KILLS is a number of kills")
    });
    let recorders = tally(Victim::Recorder, kills);
    let programs = tally(Victim::Program, kills);
    // Past the harness, which keeps what passing tests print.
    let table = format!(
        "\n{}\nrecorder  {recorders}\nprogram   {programs}\n",
        Tally::HEAD
    );
    let _ = std::io::stderr().write_all(table.as_bytes());
    for tally in [&recorders, &programs] {
        assert!(tally.kills > tally.early, "no kill hit a recording");
        assert!(tally.read_back > 0);
        assert_eq!((tally.processes_left, tally.files_left), (0, 0));
    }
    assert!(recorders.lost_max <= 1, "{recorders:?}");
    assert_eq!((programs.lost, programs.in_ring), (0, 0), "{programs:?}");
}

fn tally(victim: Victim, kills: usize) -> Tally {
    let mut random = Random::new(18 + victim as u64);
    let mut tally = Tally::default();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let source = directory.path().join("scatter.c");
    fs::write(&source, PROGRAM).expect("a file in it");
    let program = programs::build(directory.path(), "scatter", &source, &[]);
    for number in 0..kills {
        let folder = directory.path().join(number.to_string());
        let attack = Attack::start(&folder, &program);
        attack.kill(victim, &mut random, &mut tally);
    }
    tally
}

/// Four threads on shared lines without end, in an order that hardly compresses: so a recorder spends
/// much of its time with a block in its hands.
const PROGRAM: &str = "
#include <pthread.h>
#include <stdint.h>

static volatile uint64_t lines[4096][8] __attribute__((aligned(64)));

static void *scatter(void *seed)
{
	uint64_t random = (uintptr_t)seed;

	for (;;) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		lines[random >> 52][random >> 49 & 7]++;
	}
	return 0;
}

int main(void)
{
	pthread_t thread;

	for (uintptr_t seed = 1; seed < 4; seed++)
		pthread_create(&thread, 0, scatter, (void *)seed);
	scatter((void *)4);
}
";

/// One recording that is to be killed.
struct Attack {
    folder: PathBuf,
    recorder: Child,
}

impl Attack {
    fn start(folder: &Path, program: &Path) -> Attack {
        fs::create_dir_all(folder.join("tmp")).expect("a folder");
        fs::write(folder.join("x.hitm"), FORMER).expect("a file in it");
        let mut command = Command::new(hitm());
        command.args(["record", "-o", "x.hitm", "--"]);
        command.arg(program);
        command
            .current_dir(folder)
            .env("TMPDIR", folder.join("tmp"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        Attack {
            folder: folder.to_owned(),
            recorder: command.spawn().expect("hitm starts"),
        }
    }

    fn recording(&self) -> PathBuf {
        self.folder.join("x.hitm")
    }

    fn kill(mut self, victim: Victim, random: &mut Random, tally: &mut Tally) {
        tally.kills += 1;
        let is_early = random.below(EARLY_EVERY) == 0;
        let memory = match (is_early, victim) {
            (true, Victim::Recorder) => {
                let micros = random.below(EARLY_MAX.as_micros() as u64);
                std::thread::sleep(Duration::from_micros(micros));
                None
            }
            _ => {
                let memory = self.wait_for_ring();
                let target = if is_early {
                    0
                } else {
                    random.below(FILE_BYTES_MAX)
                };
                self.wait_for_length(target);
                Some(memory)
            }
        };
        let (pids, opened) = self.observe();
        if let Some(memory) = &memory {
            // Half of the kills come anywhere, half while the recorder has a block.
            std::thread::sleep(Duration::from_micros(random.below(5000)));
            if random.below(2) == 0 {
                memory.wait_for_take(TAKE_MAX);
            }
        }
        let status = self.strike(victim);
        let left = outliving(&pids, OUTLIVES_MAX);
        tally.processes_left += left.len() + self.processes_here();
        let file = RecordedFile::read(&self.recording(), FORMER);
        tally.files_left += opened.iter().filter(|path| path.exists()).count();
        tally.files_left += self.files_left(victim, &file);
        match memory {
            Some(memory) => {
                let ended = (victim == Victim::Program).then_some(status);
                self.compare(&memory, &file, ended, tally);
            }
            None => tally.early += 1,
        }
        fs::remove_dir_all(&self.folder).expect("the folder is there");
    }

    /// Waits for QEMU with the recorder in it; the ring's memory, which this process keeps alive.
    fn wait_for_ring(&self) -> RingMemory {
        let mut memory = None;
        wait_for("a ring", || {
            memory = self.ring();
            memory.is_some()
        });
        memory.expect("waited for")
    }

    fn ring(&self) -> Option<RingMemory> {
        let pid = *self.qemus().first()?;
        let command_line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command_line = String::from_utf8_lossy(&command_line).into_owned();
        let (_, rest) = command_line.split_once("ring_offset=")?;
        let offset = rest.split(',').next()?.parse().ok()?;
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.recorder.id())).ok()?;
        let path = descriptors
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| {
                let link = fs::read_link(path).unwrap_or_default();
                link.to_string_lossy().starts_with("/memfd:hitm-ring")
            });
        let file = File::open(path?).ok()?;
        Some(RingMemory { file, offset })
    }

    /// The program that is recorded: the QEMU that was given a ring, not one that was asked something.
    fn qemus(&self) -> Vec<libc::pid_t> {
        let has_ring = |pid: &libc::pid_t| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("ring_offset=")
        };
        programs_of(&self.recorder)
            .into_iter()
            .filter(has_ring)
            .collect()
    }

    fn wait_for_length(&self, target: u64) {
        wait_for("a file that grows", || {
            fs::metadata(self.recording()).is_ok_and(|data| data.len() >= target)
        });
    }

    /// All processes of the recording, and what they have open in the folder for shared memory.
    fn observe(&self) -> (Vec<libc::pid_t>, Vec<PathBuf>) {
        let mut pids = programs_of(&self.recorder);
        pids.push(self.recorder.id() as libc::pid_t);
        let links = pids.iter().flat_map(|pid| {
            ["fd", "map_files"].into_iter().flat_map(move |folder| {
                let entries = fs::read_dir(format!("/proc/{pid}/{folder}"));
                entries.into_iter().flatten()
            })
        });
        let opened = links.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let opened = opened.filter(|path| path.starts_with("/dev/shm")).collect();
        (pids, opened)
    }

    fn strike(&mut self, victim: Victim) -> ExitStatus {
        let pids = match victim {
            Victim::Recorder => vec![self.recorder.id() as libc::pid_t],
            Victim::Program => self.qemus(),
        };
        assert_eq!(pids.len(), 1, "one process to kill");
        for pid in pids {
            // SAFETY: a signal to a process that this test started.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        self.recorder.wait().expect("hitm ends")
    }

    /// Processes with the name of this recording's folder in their command line.
    fn processes_here(&self) -> usize {
        let folder = self.folder.to_string_lossy().into_owned();
        let entries = fs::read_dir("/proc").expect("there is /proc");
        let is_here = |path: PathBuf| {
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.split('\0').any(|word| word.starts_with(&folder))
        };
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_here(path.clone()))
            .count()
    }

    /// Files beside the recording and the former one, and temporary ones. A killed recorder may leave one that had not
    /// taken the former recording's place.
    fn files_left(&self, victim: Victim, file: &RecordedFile) -> usize {
        let may_be_beside = victim == Victim::Recorder && file.is_former;
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).expect("the folder is there");
            let entries = entries.map(|entry| entry.expect("it is readable").file_name());
            entries
                .filter(|name| name != "tmp" && name != "x.hitm" && name != "x.hitm.old")
                .filter(|name| !may_be_beside || name != ".x.hitm.part")
                .count()
        };
        names(&self.folder) + names(&self.folder.join("tmp"))
    }

    /// Compares what was recorded with the ring; `ended` says how a killed program ended.
    fn compare(
        &self,
        memory: &RingMemory,
        file: &RecordedFile,
        ended: Option<ExitStatus>,
        tally: &mut Tally,
    ) {
        if let Some(status) = ended.filter(|_| file.is_former) {
            // It was killed before it made itself known: nothing of it is recorded, and hitm says so.
            assert_eq!(status.code(), Some(2));
            return;
        }
        let bytes = memory.read();
        let ring = RingSnapshot::parse(&bytes).expect("the recorder made a ring");
        if let Some(status) = ended {
            file.check_end(status);
        }
        if file.torn_bytes > 0 {
            tally.torn += 1;
            tally.torn_bytes += file.torn_bytes;
        }
        let fate = Fate::of(&ring, file);
        tally.committed += fate.read_back + fate.in_ring + fate.lost;
        tally.read_back += fate.read_back;
        tally.in_ring += fate.in_ring;
        tally.lost += fate.lost;
        tally.lost_max = tally.lost_max.max(fate.lost);
        tally.records += file.record_count();
        if file.blocks.is_empty() {
            tally.early += 1;
        }
        if !file.is_former {
            self.check_report(file);
        }
    }

    /// The report reads as much, and says that it is not all.
    fn check_report(&self, file: &RecordedFile) {
        let report = report(&self.recording());
        assert_eq!(
            report["run"]["complete"],
            !file.is_cut && file.end.is_some()
        );
        let counted = report["totals"]["access_count"].as_u64();
        assert_eq!(counted, Some(file.access_count));
        let said = report["diagnostics"].to_string();
        let expected = match file.is_cut {
            true => format!("{} bytes are missing", file.torn_bytes),
            false if file.end.is_some() => "signal 9 ended the program".to_owned(),
            false => "the recording was cut short".to_owned(),
        };
        assert!(said.contains(&expected), "{said}");
    }
}

impl Tally {
    const HEAD: &str = "killed    kills  early  blocks committed  read back  (records)  in the ring  lost  at most  torn (bytes)  processes left  files left";
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { kills, early, .. } = self;
        let Tally {
            committed,
            read_back,
            records,
            ..
        } = self;
        let Tally {
            in_ring,
            lost,
            lost_max,
            ..
        } = self;
        let Tally {
            torn,
            torn_bytes,
            processes_left,
            files_left,
            ..
        } = self;
        write!(
            f,
            "{kills:5}  {early:5}  {committed:16}  {read_back:9}  {records:9}  {in_ring:11}  {lost:4}  {lost_max:7}  {torn:4} {torn_bytes:7}  {processes_left:14}  {files_left:10}"
        )
    }
}
