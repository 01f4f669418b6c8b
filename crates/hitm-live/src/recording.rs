//! A live recording: samples by names, so that another host can judge it.
//!
//! The file is one JSON object (docs/formats/live.md). Numbers in it name entries of its own tables.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::shim::Observation;

/// The version of the file's form.
pub const VERSION: u32 = 1;

/// The layer of all sleeps in futex(2), in words.
pub const FUTEX_LAYER: &str = "waits in futex(2), by BPF at switches between threads";

/// Contents of a live recording.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiveRecording {
    /// [`VERSION`].
    pub hitm_live: u32,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs that were online.
    pub cpu_count: u32,
    /// The target, in words.
    pub target: String,
    /// The layers that were used, in words.
    pub layers: Vec<String>,
    /// Unused layers, each with the reason.
    pub missing: Vec<String>,
    /// Nanoseconds of CPU time for which each sample stands.
    pub period_ns: u64,
    /// Nanoseconds from the first sample to the last.
    pub duration_ns: u64,
    /// Samples that were lost in the kernel's full rings, or in full tables here.
    pub lost_count: u64,
    /// Threads with samples or waits.
    pub threads: Vec<LiveThread>,
    /// Names of functions.
    pub names: Vec<String>,
    /// Places in the code.
    pub stacks: Vec<LiveStack>,
    /// Files and addresses that system calls were about.
    pub objects: Vec<LiveObject>,
    /// Samples of each thread in each place.
    pub samples: Vec<LiveSample>,
    /// Waits for locks of the kernel, from its tracepoints. None where they were not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Vec<LiveWait>>,
    /// States of the holders of locks while others waited. None where they were not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holders: Option<LiveHolders>,
    /// All uses of the program's own locks. None where they were not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Observation>,
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiveThread {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its last known name.
    pub comm: String,
    /// Clock ticks from boot to its start; 0 when it ended before it could be read.
    pub start_ticks: u64,
}

/// Running functions, by number in [`LiveRecording::names`], innermost first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct LiveStack {
    /// In the kernel.
    pub kernel: Vec<u32>,
    /// In the program.
    pub user: Vec<u32>,
    /// True if the program's code waits for another thread's write there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spins: bool,
}

/// Object of a system call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveObject {
    /// An inode.
    File {
        /// Device and number, as `8:1:1234`.
        inode: String,
        /// A name that it was opened by.
        path: String,
    },
    /// A word that threads of a program sleep for in futex(2), or spin for.
    Futex {
        /// The process.
        pid: u32,
        /// The address in it.
        address: u64,
        /// The variable there; empty on the heap, on stacks, and where no name is known.
        #[serde(skip_serializing_if = "String::is_empty", default)]
        name: String,
    },
}

/// Samples of one thread in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSample {
    /// Number in [`LiveRecording::threads`].
    pub thread: u32,
    /// Number in [`LiveRecording::stacks`].
    pub stack: u32,
    /// Number in [`LiveRecording::objects`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<u32>,
    /// Their number.
    pub count: u64,
}

/// Waits of one thread for one lock of the kernel, or for one futex, in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveWait {
    /// Number in [`LiveRecording::threads`].
    pub thread: u32,
    /// Number in [`LiveRecording::stacks`].
    pub stack: u32,
    /// The lock's address: in the kernel, or a futex word's in its process.
    pub lock: u64,
    /// The futex: a number in [`LiveRecording::objects`]. None for locks of the kernel.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub object: Option<u32>,
    /// Their number.
    pub count: u64,
    /// Nanoseconds of all of them.
    pub wait_ns: u64,
    /// Nanoseconds of the longest.
    pub longest_ns: u64,
}

/// Locks with the states of their holders.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiveHolders {
    /// Locks that somebody waited for.
    pub locks: Vec<LiveHeld>,
    /// Events that are missing.
    pub lost_count: u64,
    /// Nanoseconds of CPU time for which each of the ticks stands.
    #[serde(default)]
    pub tick_ns: u64,
    /// Ticks of a clock at which a word named the running thread as the owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ticks: Vec<LiveTicks>,
}

impl LiveHolders {
    /// Words of programs that have named an owner, by process.
    pub fn naming(&self) -> BTreeSet<(u32, u64)> {
        let locks = self.locks.iter();
        let naming = locks.filter(|lock| lock.pid != 0 && lock.times.names_owner());
        naming.map(|lock| (lock.pid, lock.lock)).collect()
    }
}

/// Time that a thread ran outside of futex(2), while a word named it as the owner of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LiveTicks {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The word's address; none for all of its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word: Option<u64>,
    /// Ticks of the clock.
    pub count: u64,
}

/// A lock, and where its holders were while others waited.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiveHeld {
    /// Its process; 0 for a lock of the kernel.
    pub pid: u32,
    /// Its address in the process, or in the kernel.
    pub lock: u64,
    /// Times of the waiters.
    pub times: HolderTimes,
    /// Processes that had the CPU of a preempted holder, by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takers: Vec<LiveTaker>,
    /// Locks that sleeping holders waited for, by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<LiveChain>,
    /// Its holds, of a word whose writes were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<LiveHolds>,
}

/// Holds of a lock in the time in which all writes to its word were seen. Sums over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiveHolds {
    /// Nanoseconds in which all writes were seen.
    pub watched_ns: u64,
    /// Times that a thread took the lock.
    pub takes: u64,
    /// Holds from taking to release.
    pub holds: u64,
    /// Nanoseconds of holds in which the holder ran, outside of page faults.
    pub running_ns: u64,
    /// Nanoseconds in page faults without input.
    pub minor_fault_ns: u64,
    /// Nanoseconds in page faults that waited for input.
    pub major_fault_ns: u64,
    /// Nanoseconds asleep, until the holder ran again.
    pub asleep_ns: u64,
    /// Nanoseconds without a CPU that the holder wanted, or in an unknown state.
    pub off_ns: u64,
    /// Page faults without input.
    pub minor_faults: u64,
    /// Squares of the microseconds that the holder ran, in page faults too.
    pub ran_us_squares: u64,
}

/// Nanoseconds that threads waited for a lock, by the state of its holder. Each waiter's time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HolderTimes {
    /// The holder ran, outside of page faults.
    pub running_ns: u64,
    /// It was ready to run, and another thread had its CPU.
    pub preempted_ns: u64,
    /// Its group had no quota left.
    pub throttled_ns: u64,
    /// It was in a page fault without input.
    pub minor_fault_ns: u64,
    /// It was in a page fault that waited for input.
    pub major_fault_ns: u64,
    /// It slept.
    pub asleep_ns: u64,
    /// The lock was free and its next holder on the way to a CPU, or the holder had slept and was.
    pub waking_ns: u64,
    /// The holder, or its state, is not known.
    pub unknown_ns: u64,
}

impl LiveHolders {
    /// Nanoseconds of all ticks.
    fn ticked_ns(&self) -> u128 {
        let counts = self.ticks.iter().map(|ticks| u128::from(ticks.count));
        counts.sum::<u128>().saturating_mul(self.tick_ns.into())
    }
}

impl HolderTimes {
    /// The parts, in the order of their declaration.
    pub fn parts(&self) -> [u64; 8] {
        [
            self.running_ns,
            self.preempted_ns,
            self.throttled_ns,
            self.minor_fault_ns,
            self.major_fault_ns,
            self.asleep_ns,
            self.waking_ns,
            self.unknown_ns,
        ]
    }

    /// Returns true if holders are known for a part of the time.
    pub fn names_owner(&self) -> bool {
        self.unknown_ns < self.all_ns()
    }

    /// Their sum.
    pub fn all_ns(&self) -> u64 {
        self.parts().into_iter().fold(0, u64::saturating_add)
    }
}

/// A process that had a preempted holder's CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveTaker {
    /// Its number; 0 for threads of the kernel and idle CPUs.
    pub pid: u32,
    /// The name of the thread that took the CPU.
    pub comm: String,
    /// Nanoseconds of the waiters.
    pub ns: u64,
}

/// A lock that a sleeping holder waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveChain {
    /// Its process; 0 for a lock of the kernel.
    pub pid: u32,
    /// Its address.
    pub lock: u64,
    /// Nanoseconds of the waiters of the first lock.
    pub ns: u64,
}

/// Errors of reading a live recording.
#[derive(Debug, thiserror::Error)]
pub enum LiveFormatError {
    /// The JSON is malformed, or of something else.
    #[error("line {} column {}: {source}", source.line(), source.column())]
    Json {
        /// The parser's message.
        #[from]
        source: serde_json::Error,
    },
    /// Written by another version.
    #[error("hitm_live: found version {found}, expected {VERSION}")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// A number that names nothing.
    #[error("{place}: found {found}, expected a number below {end}")]
    Number {
        /// Its place.
        place: String,
        /// The number.
        found: u64,
        /// Entries of the table.
        end: usize,
    },
    /// Counts that no computer could have taken.
    #[error("samples or waits: they add up to more than {SAMPLES_MAX} samples or {TIME_MAX_NS} ns")]
    TooMany,
}

/// Limit on the samples of a recording: 480 CPUs at 10 kHz for two years.
pub const SAMPLES_MAX: u64 = 1 << 48;
/// Limit on the time of all threads of a recording: sums of two such times do not overflow.
pub const TIME_MAX_NS: u64 = 1 << 62;

impl LiveRecording {
    /// Parses a file's text and checks all numbers in it.
    ///
    /// # Errors
    /// The text is no JSON of a live recording; the error has the place.
    pub fn parse(text: &[u8]) -> Result<LiveRecording, LiveFormatError> {
        let recording: LiveRecording = serde_json::from_slice(text)?;
        recording.check()?;
        Ok(recording)
    }

    fn check(&self) -> Result<(), LiveFormatError> {
        if self.hitm_live != VERSION {
            let found = self.hitm_live;
            return Err(LiveFormatError::Version { found });
        }
        for (number, stack) in self.stacks.iter().enumerate() {
            for name in stack.kernel.iter().chain(&stack.user) {
                below(*name, self.names.len(), || format!("stacks[{number}]"))?;
            }
        }
        for (number, wait) in self.waits.iter().flatten().enumerate() {
            let place = |member: &str| format!("waits[{number}].{member}");
            below(wait.thread, self.threads.len(), || place("thread"))?;
            below(wait.stack, self.stacks.len(), || place("stack"))?;
            self.check_object(wait.object, || place("object"))?;
        }
        self.check_program()?;
        let waited = self.waits.iter().flatten().map(|wait| wait.wait_ns);
        let waited = waited.fold(0, u64::saturating_add);
        let mut total = 0u64;
        for (number, sample) in self.samples.iter().enumerate() {
            let place = |member: &str| format!("samples[{number}].{member}");
            below(sample.thread, self.threads.len(), || place("thread"))?;
            below(sample.stack, self.stacks.len(), || place("stack"))?;
            self.check_object(sample.object, || place("object"))?;
            total = total.saturating_add(sample.count);
        }
        let time = u128::from(total) * u128::from(self.period_ns);
        let held = self.holders.iter().flat_map(|holders| &holders.locks);
        let held = held.map(|lock| lock.times.all_ns());
        let held = held.fold(0, u64::saturating_add);
        let ticked = self.holders.as_ref().map_or(0, LiveHolders::ticked_ns);
        let time = time.max(ticked);
        let is_too_long = time > TIME_MAX_NS.into() || waited.max(held) > TIME_MAX_NS;
        match total > SAMPLES_MAX || is_too_long {
            true => Err(LiveFormatError::TooMany),
            false => Ok(()),
        }
    }

    fn check_object(
        &self,
        object: Option<u32>,
        place: impl FnOnce() -> String,
    ) -> Result<(), LiveFormatError> {
        object.map_or(Ok(()), |number| below(number, self.objects.len(), place))
    }

    fn check_program(&self) -> Result<(), LiveFormatError> {
        let Some(program) = &self.program else {
            return Ok(());
        };
        let end = program.processes.len();
        for (number, lock) in program.locks.iter().enumerate() {
            let place = || format!("program.locks[{number}].process");
            below(lock.process as u64, end, place)?;
        }
        for (number, thread) in program.threads.iter().enumerate() {
            let place = || format!("program.threads[{number}].process");
            below(thread.process as u64, end, place)?;
        }
        Ok(())
    }

    /// Number of all samples.
    pub fn sample_count(&self) -> u64 {
        self.samples.iter().map(|sample| sample.count).sum()
    }
}

fn below(
    found: impl Into<u64>,
    end: usize,
    place: impl FnOnce() -> String,
) -> Result<(), LiveFormatError> {
    let found = found.into();
    match found < end as u64 {
        true => Ok(()),
        false => Err(LiveFormatError::Number {
            place: place(),
            found,
            end,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::ThreadUse;

    fn recording() -> LiveRecording {
        LiveRecording {
            hitm_live: VERSION,
            names: vec!["f".into()],
            threads: vec![LiveThread::default()],
            stacks: vec![LiveStack {
                kernel: vec![0],
                ..LiveStack::default()
            }],
            samples: vec![LiveSample {
                thread: 0,
                stack: 0,
                object: None,
                count: 3,
            }],
            ..LiveRecording::default()
        }
    }

    fn read(recording: &LiveRecording) -> Result<LiveRecording, String> {
        let text = serde_json::to_vec(recording).unwrap();
        LiveRecording::parse(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&recording()), Ok(recording()));
    }

    #[test]
    fn errors_have_a_place() {
        let mut other = recording();
        other.stacks[0].user.push(1);
        let expected = "stacks[0]: found 1, expected a number below 1";
        assert_eq!(read(&other), Err(expected.into()));
        other = recording();
        other.samples[0].thread = 9;
        let expected = "samples[0].thread: found 9, expected a number below 1";
        assert_eq!(read(&other), Err(expected.into()));
        other = recording();
        other.samples[0].object = Some(1);
        let expected = "samples[0].object: found 1, expected a number below 0";
        assert_eq!(read(&other), Err(expected.into()));
        other = recording();
        let mut program = Observation::default();
        program.threads.push(ThreadUse {
            tid: 1,
            process: 2,
            users: 1,
            ran_ns: 0,
            paused_ns: 0,
        });
        other.program = Some(program);
        let expected = "program.threads[0].process: found 2, expected a number below 0";
        assert_eq!(read(&other), Err(expected.into()));
        other = recording();
        (other.period_ns, other.samples[0].count) = (u64::MAX / 2, 3);
        assert!(read(&other).unwrap_err().contains("add up to more"));
        let mut ticked = recording();
        let ticks = LiveTicks {
            pid: 1,
            tid: 2,
            word: None,
            count: 1 << 40,
        };
        ticked.holders = Some(LiveHolders {
            tick_ns: 1 << 30,
            ticks: vec![ticks],
            ..LiveHolders::default()
        });
        assert!(read(&ticked).unwrap_err().contains("add up to more"));
        other.hitm_live = 7;
        assert!(read(&other).unwrap_err().contains("found version 7"));
        let error = LiveRecording::parse(b"{\n 3").unwrap_err().to_string();
        assert!(error.starts_with("line 2 column 2"), "{error}");
    }
}
