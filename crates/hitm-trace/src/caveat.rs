//! Answers that programs got from the host, or refusals, although the modelled machine would have it otherwise.

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
    pub fn counter(self) -> &'static str {
        match self {
            Caveat::HostCpus => "programs_seeing_host_cpus",
            Caveat::HostClock => "programs_seeing_host_clock",
            Caveat::NoNamespace => "refused_namespaces",
        }
    }

    /// Sentence for readers of such a recording.
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
