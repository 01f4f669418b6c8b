//! Lost cycles by call stack: thread, callers, function, member.
//!
//! [`Stacks::folded`] and [`Stacks::firefox`] write them for flame graphs. The stacks of a thread add up to the
//! lost cycles that the table of threads has.

use std::collections::BTreeMap;
use std::rc::Rc;

use fxprof_processed_profile::{
    CategoryColor, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile,
    ReferenceTimestamp, SamplingInterval, ThreadHandle, Timestamp, WeightType,
};
use hitm_base::{Clock, CodeAddr, Cycles, ThreadId, printable};
use hitm_coherence::stats::Statistics;
use hitm_recording::{CodeLabel, Recording};

use crate::Names;
use crate::by::{By, REST};

/// Lost cycles by stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stacks {
    program: String,
    clock: Clock,
    threads: Vec<Thread>,
    /// By thread and frames, the outermost first. The last frame is the member.
    lost: BTreeMap<(ThreadId, Vec<String>), u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Thread {
    id: ThreadId,
    name: String,
}

impl Stacks {
    /// The stacks of a recording that lost cycles.
    pub fn of_recording(recording: &Recording) -> Stacks {
        let threads = recording.threads.iter();
        let threads: Vec<ThreadId> = threads.map(|thread| thread.start.thread).collect();
        let program = recording.header.args.join(" ");
        Stacks::build(
            &recording.statistics,
            &threads,
            &recording.names(),
            program,
            recording.machine.clock,
        )
    }

    /// The stacks of the statistics of a run, with the run's threads, program and clock.
    pub fn build(
        statistics: &Statistics,
        threads: &[ThreadId],
        names: &dyn Names,
        program: String,
        clock: Clock,
    ) -> Stacks {
        let threads = threads.iter().map(|id| Thread {
            id: *id,
            name: names.thread(*id),
        });
        Stacks {
            program,
            clock,
            threads: threads.collect(),
            lost: lost(statistics, names),
        }
    }

    /// Cycles lost by all stacks.
    pub fn lost_cycles(&self) -> u64 {
        self.lost
            .values()
            .fold(0, |sum, lost| sum.saturating_add(*lost))
    }

    /// One line for each stack: its frames with semicolons between, a space, its lost cycles. Semicolons in
    /// names become colons.
    pub fn folded(&self) -> String {
        let names = self.threads.iter().map(|one| (one.id, frame(&one.name)));
        let names: BTreeMap<ThreadId, String> = names.collect();
        let mut text = String::new();
        for ((thread, frames), lost) in &self.lost {
            match names.get(thread) {
                Some(name) => text.push_str(name),
                None => text.push_str(&format!("thread {}", thread.0)),
            }
            for name in frames {
                text.push(';');
                text.push_str(&frame(name));
            }
            text.push_str(&format!(" {lost}\n"));
        }
        text
    }

    /// Returns a profile that profiler.firefox.com opens. A stack is one sample, and its weight is
    /// its lost cycles. Samples of a thread follow each other as if it had lost nothing but these
    /// cycles, one stack after the other.
    pub fn firefox(&self) -> String {
        let start = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
        let interval = SamplingInterval::from_millis(1);
        let mut profile = Profile::new(&self.program, start, interval);
        profile.set_product("hitm: cycles lost to contention");
        profile.set_symbolicated(true);
        let began = Timestamp::from_nanos_since_reference(0);
        let process = profile.add_process(&self.program, 1, began);
        let code = profile.add_category("Function", CategoryColor::Blue).into();
        let data = profile.add_category("Member", CategoryColor::Orange).into();
        for (index, thread) in self.threads.iter().enumerate() {
            // Numbers of threads are unique, and those of the system need not be.
            let tid = u32::try_from(index + 1).unwrap_or(u32::MAX);
            // A main thread would be shown by the name of the program.
            let handle = profile.add_thread(process, tid, began, false);
            profile.set_thread_name(handle, &printable(&thread.name));
            profile.set_thread_samples_weight_type(handle, WeightType::Samples);
            self.add_samples(&mut profile, thread.id, handle, [code, data]);
        }
        serde_json::to_string(&profile).expect("a profile is strings, numbers and lists of them")
    }

    fn add_samples(
        &self,
        profile: &mut Profile,
        thread: ThreadId,
        handle: ThreadHandle,
        [code, data]: [CategoryPairHandle; 2],
    ) {
        let mut passed = 0_u64;
        let own = (thread, Vec::new())..;
        let own = self.lost.range(own).take_while(|(key, _)| key.0 == thread);
        for ((_, names), lost) in own {
            let last = names.len().saturating_sub(1);
            let frames = names.iter().enumerate();
            let frames: Vec<FrameInfo> = frames
                .map(|(index, name)| FrameInfo {
                    frame: Frame::Label(profile.intern_string(&printable(name))),
                    category_pair: if index == last { data } else { code },
                    flags: FrameFlags::empty(),
                })
                .collect();
            let stack = profile.intern_stack_frames(handle, frames.into_iter());
            let mut left = *lost;
            // A weight has 31 bits.
            while left > 0 {
                let part = left.min(i32::MAX as u64);
                let time = self.clock.nanos(Cycles(passed)).0.round() as u64;
                let time = Timestamp::from_nanos_since_reference(time);
                profile.add_sample(handle, time, stack, CpuDelta::ZERO, part as i32);
                (left, passed) = (left - part, passed.saturating_add(part));
            }
        }
    }
}

/// A name as one frame of a folded stack.
fn frame(name: &str) -> String {
    printable(name).replace(';', ":")
}

fn lost(statistics: &Statistics, names: &dyn Names) -> BTreeMap<(ThreadId, Vec<String>), u64> {
    let mut functions: BTreeMap<CodeAddr, Rc<[String]>> = BTreeMap::new();
    // The outermost first.
    let mut functions_at = |code: CodeAddr| {
        let name = |frame: CodeLabel| match frame.function {
            name if name.is_empty() => By::Function.unnamed().to_owned(),
            name => name,
        };
        let frames = functions.entry(code).or_insert_with(|| {
            let frames = names.code_outwards(code).into_iter().rev();
            frames.map(name).collect()
        });
        Rc::clone(frames)
    };
    let mut sums: BTreeMap<(ThreadId, Vec<String>), u64> = BTreeMap::new();
    let mut add = |thread: ThreadId, frames: Vec<String>, cycles: u64| {
        if cycles > 0 {
            let sum = sums.entry((thread, frames)).or_default();
            *sum = sum.saturating_add(cycles);
        }
    };
    for (line, stats) in &statistics.lines {
        for (key, row) in &stats.rows {
            let mut left = row.contention_stall.0;
            if left == 0 {
                continue;
            }
            let addr = line.first_byte() + u64::from(key.offset);
            let place = names.data(addr, key.size);
            let unnamed = || By::Member.unnamed().to_owned();
            let place = place.map_or_else(unnamed, |name| name.without_numbers());
            let own: Vec<String> = functions_at(key.code)
                .iter()
                .cloned()
                .chain([place])
                .collect();
            for (chain, counts) in statistics.calls.of_row(*line, *key) {
                // A return address: the call is the instruction before.
                let callers = chain
                    .iter()
                    .rev()
                    .map(|code| CodeAddr(code.0.saturating_sub(1)));
                let callers: Vec<Rc<[String]>> = callers.map(&mut functions_at).collect();
                let callers = callers.iter().flat_map(|frames| frames.iter());
                let frames: Vec<String> = callers.chain(&own).cloned().collect();
                let cycles = counts.contention_stall.0.min(left);
                left -= cycles;
                add(key.thread, frames, cycles);
            }
            add(key.thread, own, left);
        }
    }
    for (thread, cycles) in &statistics.rest.lost {
        add(*thread, vec![REST.to_owned()], cycles.0);
    }
    sums
}
