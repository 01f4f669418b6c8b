//! Turns samples into names and counts as they arrive. Tables are bounded; entries that do not fit
//! are counted.

use std::collections::BTreeMap;

use hitm_layout::Mapping;
use hitm_live::holders::Spun;
use hitm_live::procfs::{self, TaskId};
use hitm_live::recording::{
    LiveObject, LiveRecording, LiveSample, LiveStack, LiveThread, LiveWait, VERSION,
};
use hitm_live::sampler::{RawSample, Record};
use hitm_live::tracepoints::LockWait;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxHashMap;

use super::objects::{self, Call, Descriptors};
use super::programs::Programs;
use super::spins::Spins;
use super::{Members, programs, sleepers};
use hitm_kernel::KernelSymbols;

/// Entries of each table. 480 CPUs have some 10,000 threads in some 50,000 places.
const ENTRIES_MAX: usize = 1 << 18;
/// Callers in a program that are kept; the kernel limits its own (127).
const USER_FRAMES_MAX: usize = 8;
/// Sleeping threads whose stacks are read: enough of each word to tell what it is waited for.
const STACKS_MAX: usize = 4096;

/// Counts samples by thread, place and object.
#[derive(Debug, Default)]
pub(super) struct Collector {
    members: Members,
    /// Set if functions of programs are counted.
    has_programs: bool,
    /// Processes seen so far, each with true if it is counted.
    processes: FxHashMap<u32, bool>,
    mappings: BTreeMap<u32, Vec<Mapping>>,
    threads: IndexMap<u32, LiveThread>,
    names: IndexSet<String>,
    /// Name at each address of the kernel, and the system call that it is the entry of.
    at: FxHashMap<u64, (u32, Option<Call>)>,
    places: IndexSet<Place>,
    objects: IndexSet<LiveObject>,
    samples: IndexMap<(u32, u32, Option<u32>), u64>,
    /// Waits by thread, place and lock. None where they were not requested.
    waits: Option<IndexMap<(u32, u32, u64), LiveWait>>,
    descriptors: Descriptors,
    /// Names of words, by process and address. They stay when counts start anew.
    variables: FxHashMap<(u32, u64), String>,
    spins: Spins,
    /// Nanoseconds of CPU time for which a sample stands.
    pub(super) period_ns: u64,
    /// Stacks of sleeping threads that were read.
    stacks_read: usize,
    lost_count: u64,
}

/// A place before the program's part has names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    kernel: Vec<u32>,
    pid: u32,
    user: Vec<u64>,
    /// True if the program's code waits there.
    spins: bool,
    /// Words on top of the stack of a thread that sleeps there, of which the kernel found no caller.
    above: Vec<u64>,
}

impl Collector {
    pub(super) fn new(members: Members) -> Collector {
        Collector {
            members,
            has_programs: true,
            ..Collector::default()
        }
    }

    /// Leaves functions of programs out.
    pub(super) fn without_programs(mut self) -> Collector {
        self.has_programs = false;
        self
    }

    /// Returns the counts, and starts anew with the known processes.
    pub(super) fn restart(&mut self) -> LiveRecording {
        let next = Collector {
            members: self.members.clone(),
            has_programs: self.has_programs,
            processes: self.processes.clone(),
            ..Collector::default()
        };
        let (recording, variables) = std::mem::replace(self, next).named();
        self.variables = variables;
        recording
    }

    /// Counts a record; `symbols` names the kernel's part of samples. Returns the word that a sampled thread spins for.
    pub(super) fn take(&mut self, symbols: &KernelSymbols, record: Record) -> Option<Spun> {
        match record {
            Record::Lost(count) => self.lost_count += count,
            Record::Comm { pid, tid, name } => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.comm = name;
                }
                // It runs another program now.
                if pid == tid {
                    self.mappings.remove(&pid);
                    self.spins.forget(pid);
                    self.variables.retain(|(of, _), _| *of != pid);
                }
            }
            Record::Fork { pid, parent, .. } => self.adopt(pid, parent),
            Record::Sample(sample) if sample.pid != 0 && sample.pid != std::process::id() => {
                if self.counts(sample.pid) {
                    let spun = self.sample(symbols, &sample);
                    self.lost_count += u64::from(spun.is_none());
                    return spun;
                }
            }
            Record::Sample(_) => {}
        }
        None
    }

    /// A child of a counted process is counted too, when the target is processes.
    fn adopt(&mut self, pid: u32, parent: u32) {
        if pid == parent || !matches!(self.members, Members::Processes(_)) {
            return;
        }
        let counts = self.counts(parent);
        self.processes.insert(pid, counts);
    }

    fn counts(&mut self, pid: u32) -> bool {
        if self.processes.len() > ENTRIES_MAX {
            self.processes.clear();
        }
        let members = &self.members;
        *self.processes.entry(pid).or_insert_with(|| match members {
            Members::All => true,
            Members::Processes(processes) => processes.contains(&pid),
            Members::Cgroup(path) => programs::is_in_cgroup(pid, path),
        })
    }

    /// Adds the waits of the kernel's tracepoints; with `is_filtered` all of them are the target's.
    /// Returns the waits that did not fit.
    pub(super) fn waits(
        &mut self,
        symbols: &KernelSymbols,
        waits: &[LockWait],
        is_filtered: bool,
    ) -> u64 {
        self.waits.get_or_insert_default();
        let mut lost_count = 0u64;
        for wait in waits {
            // Process 0 is idle CPUs and their interrupts, which belong to no other target.
            let is_idle = wait.pid == 0 && !matches!(self.members, Members::All);
            let is_left_out = wait.pid == std::process::id() || is_idle;
            if !is_left_out
                && (is_filtered || self.counts(wait.pid))
                && self.wait(symbols, wait).is_none()
            {
                lost_count = lost_count.saturating_add(wait.count);
            }
        }
        lost_count
    }

    /// Adds waits in futex(2), all of them of the target. Returns those that did not fit.
    pub(super) fn futexes(&mut self, waits: &[LockWait]) -> u64 {
        self.waits.get_or_insert_default();
        let mut lost_count = 0u64;
        for wait in waits.iter().filter(|wait| wait.pid != std::process::id()) {
            if self.futex(wait).is_none() {
                lost_count = lost_count.saturating_add(wait.count);
            }
        }
        lost_count
    }

    /// Adds a wait in futex(2); none when a table is full.
    fn futex(&mut self, wait: &LockWait) -> Option<()> {
        let thread = self.thread(wait.pid, wait.tid, || wait.comm.clone())?;
        self.map(wait.pid);
        let in_kernel = number(&mut self.names, "futex_wait".to_owned())?;
        let (user, above) = match self.has_programs {
            true => {
                let user = wait.stack.iter().copied();
                (user.take(USER_FRAMES_MAX).collect(), self.above(wait))
            }
            false => (Vec::new(), Vec::new()),
        };
        let place = Place {
            kernel: vec![in_kernel],
            pid: wait.pid,
            user,
            spins: false,
            above,
        };
        let futex = Descriptors::futex(wait.pid, wait.lock);
        let object = number(&mut self.objects, futex)?;
        self.add(wait, thread, place, Some(object))
    }

    /// The stack of a thread that still sleeps and of which the kernel found no caller.
    fn above(&mut self, wait: &LockWait) -> Vec<u64> {
        let has_callers = wait.stack.len() > 1;
        if !wait.is_waiting || has_callers || self.stacks_read == STACKS_MAX {
            return Vec::new();
        }
        self.stacks_read += 1;
        sleepers::words(wait.pid, wait.tid)
    }

    fn add(
        &mut self,
        wait: &LockWait,
        thread: u32,
        place: Place,
        object: Option<u32>,
    ) -> Option<()> {
        let stack = number(&mut self.places, place)?;
        let new = LiveWait {
            thread,
            stack,
            lock: wait.lock,
            object,
            count: 0,
            wait_ns: 0,
            longest_ns: 0,
        };
        let waits = self.waits.get_or_insert_default();
        add(waits.entry((thread, stack, wait.lock)).or_insert(new), wait);
        Some(())
    }

    /// Adds a wait; none when a table is full.
    fn wait(&mut self, symbols: &KernelSymbols, wait: &LockWait) -> Option<()> {
        let comm = match wait.tid {
            0 => "idle CPUs".to_owned(),
            _ => wait.comm.clone(),
        };
        let thread = self.thread(wait.pid, wait.tid, || comm)?;
        // All of them are return addresses: the tracepoint itself is not among them.
        let kernel = wait.stack.iter().map(|address| address.wrapping_sub(1));
        let kernel: Option<Vec<u32>> = kernel
            .map(|address| Some(self.function(symbols, address)?.0))
            .collect();
        let place = Place {
            kernel: kernel?,
            pid: wait.pid,
            user: Vec::new(),
            spins: false,
            above: Vec::new(),
        };
        self.add(wait, thread, place, None)
    }

    /// Keeps a process's mappings, which name its functions and variables after its end.
    fn map(&mut self, pid: u32) {
        let is_new = !self.mappings.contains_key(&pid);
        if is_new && self.mappings.len() < ENTRIES_MAX {
            self.mappings.insert(pid, programs::mappings(pid));
        }
    }

    /// Counts a sample; none when a table is full.
    fn sample(&mut self, symbols: &KernelSymbols, sample: &RawSample) -> Option<Spun> {
        let comm = || procfs::comm(sample.tid).unwrap_or_default();
        let thread = self.thread(sample.pid, sample.tid, comm)?;
        let mut kernel = Vec::with_capacity(sample.kernel.len());
        let mut call = None;
        for (depth, address) in sample.kernel.iter().enumerate() {
            // A return address lies behind its call, which may be the function's last instruction.
            let address = address.wrapping_sub(u64::from(depth > 0));
            let (name, entry) = self.function(symbols, address)?;
            // The outermost entry is the system call's.
            call = entry.or(call);
            kernel.push(name);
        }
        let object = call
            .zip(sample.argument)
            .and_then(|(call, argument)| self.descriptors.object(call, sample.pid, argument));
        let spin = self.spins.of(sample);
        let word = spin.and_then(|spin| spin.word);
        let object = object.or(word.map(|word| Descriptors::futex(sample.pid, word.address)));
        let object = match object {
            Some(object) => Some(number(&mut self.objects, object)?),
            None => None,
        };
        let frames = match (self.has_programs, spin) {
            (true, _) => USER_FRAMES_MAX,
            // The function that waits is the lock's name.
            (false, Some(_)) => 1,
            (false, None) => 0,
        };
        if frames > 0 {
            self.map(sample.pid);
        }
        let place = Place {
            kernel,
            pid: sample.pid,
            user: sample.user.iter().take(frames).copied().collect(),
            spins: spin.is_some(),
            above: Vec::new(),
        };
        let place = number(&mut self.places, place)?;
        if self.samples.len() >= 4 * ENTRIES_MAX {
            return None;
        }
        *self.samples.entry((thread, place, object)).or_default() += 1;
        Some(Spun {
            pid: sample.pid,
            tid: sample.tid,
            time_ns: sample.time_ns,
            period_ns: self.period_ns,
            word,
        })
    }

    fn thread(&mut self, pid: u32, tid: u32, comm: impl FnOnce() -> String) -> Option<u32> {
        if let Some(index) = self.threads.get_index_of(&tid) {
            return Some(index as u32);
        }
        // The first thread has the process's name, and need not run.
        if pid != 0 && !self.threads.contains_key(&pid) && tid != pid {
            self.add_thread(pid, pid, procfs::comm(pid).unwrap_or_default())?;
        }
        self.add_thread(pid, tid, comm())
    }

    fn add_thread(&mut self, pid: u32, tid: u32, comm: String) -> Option<u32> {
        if self.threads.len() == ENTRIES_MAX {
            return None;
        }
        let start_ticks = TaskId::of(tid).map_or(0, |task| task.start_ticks);
        let thread = LiveThread {
            pid,
            tid,
            comm,
            start_ticks,
        };
        let (index, _) = self.threads.insert_full(tid, thread);
        Some(index as u32)
    }

    fn function(&mut self, symbols: &KernelSymbols, address: u64) -> Option<(u32, Option<Call>)> {
        if let Some(known) = self.at.get(&address) {
            return Some(*known);
        }
        let name = symbols.at(address).map_or("[unknown]", |(name, _)| name);
        let call = objects::call(name);
        let known = (number(&mut self.names, name.to_owned())?, call);
        if self.at.len() < ENTRIES_MAX {
            self.at.insert(address, known);
        }
        Some(known)
    }

    /// Returns the counts, with names for the programs' part too.
    pub(super) fn finish(self) -> LiveRecording {
        self.named().0
    }

    /// Returns the counts, and the names of words.
    fn named(mut self) -> (LiveRecording, FxHashMap<(u32, u64), String>) {
        let mut programs = Programs::new(std::mem::take(&mut self.mappings));
        let mut stacks: IndexSet<LiveStack> = IndexSet::new();
        let mut stack_of = Vec::with_capacity(self.places.len());
        for place in &self.places {
            let mut user = Vec::new();
            for (depth, address) in place.user.iter().enumerate() {
                // Code without frame pointers has anything where a caller's address would be.
                if depth > 0 && !programs.is_call_site(place.pid, *address) {
                    break;
                }
                // In user mode the first address is the instruction itself; the others are return
                // addresses.
                let first = place.kernel.is_empty() && depth == 0;
                let address = address.wrapping_sub(u64::from(!first));
                let functions = programs.functions(place.pid, address).into_iter();
                user.extend(functions.map(|name| self.names.insert_full(name).0 as u32));
            }
            let called = programs.library_wait(place.pid, &place.above);
            user.extend(called.map(|name| self.names.insert_full(name).0 as u32));
            let kernel = place.kernel.clone();
            let spins = place.spins;
            let stack = LiveStack {
                kernel,
                user,
                spins,
            };
            stack_of.push(stacks.insert_full(stack).0 as u32);
        }
        let mut samples: IndexMap<(u32, u32, Option<u32>), u64> = IndexMap::new();
        for ((thread, place, object), count) in &self.samples {
            let stack = stack_of[*place as usize];
            *samples.entry((*thread, stack, *object)).or_default() += count;
        }
        let mut objects: Vec<LiveObject> = self.objects.into_iter().collect();
        for object in &mut objects {
            if let LiveObject::Futex { pid, address, name } = object {
                let known = self.variables.entry((*pid, *address));
                let known = known.or_insert_with(|| programs.variable(*pid, *address));
                name.clone_from(known);
            }
        }
        if self.variables.len() > ENTRIES_MAX {
            self.variables.clear();
        }
        let samples = samples.into_iter();
        let waits = self.waits.take().map(|waits| {
            let waits = waits.into_values();
            let named = |wait: LiveWait| LiveWait {
                stack: stack_of[wait.stack as usize],
                ..wait
            };
            waits.map(named).collect()
        });
        let recording = LiveRecording {
            hitm_live: VERSION,
            lost_count: self.lost_count,
            threads: self.threads.into_values().collect(),
            names: self.names.into_iter().collect(),
            stacks: stacks.into_iter().collect(),
            objects,
            samples: samples
                .map(|((thread, stack, object), count)| LiveSample {
                    thread,
                    stack,
                    object,
                    count,
                })
                .collect(),
            waits,
            ..LiveRecording::default()
        };
        (recording, self.variables)
    }
}

/// Adds a wait to those of its thread, place and lock.
fn add(sum: &mut LiveWait, wait: &LockWait) {
    sum.count = sum.count.saturating_add(wait.count);
    sum.wait_ns = sum.wait_ns.saturating_add(wait.wait_ns);
    sum.longest_ns = sum.longest_ns.max(wait.longest_ns);
}

/// The number of an entry in a table that has room for it.
fn number<T: std::hash::Hash + Eq>(table: &mut IndexSet<T>, entry: T) -> Option<u32> {
    if let Some(index) = table.get_index_of(&entry) {
        return Some(index as u32);
    }
    (table.len() < ENTRIES_MAX).then(|| table.insert_full(entry).0 as u32)
}

#[cfg(test)]
mod tests {
    use hitm_live::locks::judge;

    use super::*;

    /// A wait of this process with these addresses on its stack, first the instruction.
    fn wait(stack: &[u64]) -> LockWait {
        LockWait {
            lock: 0x40,
            tid: std::process::id(),
            pid: std::process::id(),
            comm: "test".into(),
            flags: 0,
            count: 1,
            wait_ns: 1_000_000,
            longest_ns: 1_000_000,
            is_waiting: false,
            stack: stack.to_vec(),
        }
    }

    /// Callers of the only lock that was waited for.
    fn callers(stacks: &[&[u64]]) -> Vec<String> {
        let mut collector = Collector::new(Members::All);
        collector.waits.get_or_insert_default();
        for stack in stacks {
            collector.futex(&wait(stack)).expect("there is room");
        }
        let locks = judge(&collector.finish()).locks;
        let [lock] = &locks[..] else {
            panic!("{locks:#?}");
        };
        let chains = lock.callers.iter().map(|caller| caller.chain.clone());
        chains.collect()
    }

    /// The C library has no frame pointers: where they would lead to a caller there may be anything.
    #[test]
    fn what_no_call_returns_to_is_no_caller() {
        let code = libc::getppid as unsafe extern "C" fn() -> i32 as usize as u64 + 1;
        let alone = callers(&[&[code]]);
        let with_rubbish = callers(&[&[code], &[code, 0x50338], &[code, code, 0x60448]]);
        assert_eq!(with_rubbish, alone);
        // Somewhere in this function there is a call.
        let own = callers as fn(&_) -> _ as usize as u64;
        let pid = std::process::id();
        let mut programs = Programs::new([(pid, programs::mappings(pid))].into());
        let mut returns = own..own + 1024;
        let site = returns.find(|address| programs.is_call_site(pid, *address));
        let [called] = &callers(&[&[code, site.expect("it calls")]])[..] else {
            panic!("one stack");
        };
        assert!(called.contains(" < "), "{called}");
    }
}
