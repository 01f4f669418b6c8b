//! Kinds of what a recording has as its threads: threads, processes of one thread, CPUs of a machine.

use std::collections::BTreeMap;

use hitm_base::ThreadId;

use super::Recording;
use crate::kernel_files::KERNEL_PATH;

/// Kind of what a recording has as a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worker {
    /// One of several threads of a process, or the thread of the only process.
    Thread,
    /// The only thread of one of several processes.
    Process,
    /// A CPU of a recorded machine.
    Cpu,
}

impl Worker {
    /// Kinds with their words, for one and for several.
    const WORDS: [(Worker, &str, &str); 3] = [
        (Worker::Thread, "thread", "threads"),
        (Worker::Process, "process", "processes"),
        (Worker::Cpu, "CPU", "CPUs"),
    ];

    /// Counts of workers in words: `4 CPUs`, `3 threads and 1 process`.
    pub fn counted(workers: impl Iterator<Item = Worker>) -> String {
        let mut counts: BTreeMap<Worker, u64> = BTreeMap::new();
        workers.for_each(|worker| *counts.entry(worker).or_default() += 1);
        let words = Worker::WORDS.iter().filter_map(|(worker, one, several)| {
            let count = counts.get(worker)?;
            let word = if *count == 1 { one } else { several };
            Some(format!("{count} {word}"))
        });
        words.collect::<Vec<_>>().join(" and ")
    }
}

impl Recording {
    /// The kind of each thread.
    pub fn workers(&self) -> BTreeMap<ThreadId, Worker> {
        let is_machine = self
            .mappings()
            .iter()
            .any(|mapping| mapping.path == KERNEL_PATH);
        let mut threads_of: BTreeMap<u32, u64> = BTreeMap::new();
        for thread in &self.threads {
            *threads_of.entry(thread.start.process).or_default() += 1;
        }
        let kind = |process: u32| match () {
            () if is_machine => Worker::Cpu,
            () if threads_of.len() > 1 && threads_of[&process] == 1 => Worker::Process,
            () => Worker::Thread,
        };
        let threads = self.threads.iter();
        let kinds = threads.map(|thread| (thread.start.thread, kind(thread.start.process)));
        kinds.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart() {
        use Worker::{Cpu, Process, Thread};
        assert_eq!(Worker::counted([Cpu; 4].into_iter()), "4 CPUs");
        assert_eq!(Worker::counted([Process; 5].into_iter()), "5 processes");
        let mixed = [Thread, Process, Thread];
        assert_eq!(
            Worker::counted(mixed.into_iter()),
            "2 threads and 1 process"
        );
    }
}
