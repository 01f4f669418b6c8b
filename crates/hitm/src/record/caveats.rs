//! Answers that programs got from the host, or refusals, although the modelled machine would have it otherwise.

use std::sync::atomic::{AtomicU64, Ordering};

/// Kind of a caveat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caveat {
    /// The program saw the host's CPUs.
    HostCpus,
    /// The program saw the host's clock, though the machine's was asked for.
    HostClock,
    /// QEMU refused to make a namespace.
    NoNamespace,
}

impl Caveat {
    /// All of them.
    pub const ALL: [Caveat; 3] = [Caveat::HostCpus, Caveat::HostClock, Caveat::NoNamespace];

    /// The recording's counter of them.
    pub(crate) fn counter(self) -> &'static str {
        match self {
            Caveat::HostCpus => "programs_seeing_host_cpus",
            Caveat::HostClock => "programs_seeing_host_clock",
            Caveat::NoNamespace => "refused_namespaces",
        }
    }

    /// What a reader of such a recording should know.
    pub fn text(self) -> &'static str {
        match self {
            Caveat::HostCpus => {
                "the program saw the host's CPUs, not the modelled machine's: this QEMU makes its \
                 system calls in a way that hitm cannot answer for it"
            }
            Caveat::HostClock => {
                "the program saw the host's clock, not the modelled machine's: this QEMU, or this host, makes its \
                 system calls in a way that hitm cannot answer for it"
            }
            Caveat::NoNamespace => {
                "QEMU refused a namespace that the program asked for (clone, or unshare of \
                 users), and the program went on without: record inside of it, as in `bwrap ... hitm record -- PROGRAM`"
            }
        }
    }
}

/// Counts of caveats.
#[derive(Debug, Default)]
pub(super) struct Caveats {
    counts: [AtomicU64; Caveat::ALL.len()],
}

impl Caveats {
    pub(super) fn note(&self, caveat: Caveat) {
        self.counts[caveat as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self, caveat: Caveat) -> u64 {
        self.counts[caveat as usize].load(Ordering::Relaxed)
    }

    /// Those that there are.
    pub(super) fn found(&self) -> Vec<Caveat> {
        let all = Caveat::ALL.into_iter();
        all.filter(|caveat| self.count(*caveat) > 0).collect()
    }
}
