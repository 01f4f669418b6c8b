//! `hitm doctor`: what works on this host, and what to install for the rest.

use hitm_live::cgroups::{Hierarchy, Version};

use crate::record::{Architecture, Tools};

/// One thing that hitm can do here, or cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub subject: String,
    /// What was found, or what is missing and how to get it.
    pub detail: String,
    /// Whether it works.
    pub works: bool,
}

/// Looks at everything that hitm uses on this host.
pub fn doctor() -> Vec<Finding> {
    let recording = [Architecture::X86_64, Architecture::Aarch64].map(recording);
    let mut findings = recording.to_vec();
    findings.push(processors());
    findings.push(observing());
    findings.push(quotas());
    findings
}

/// BPF programs: without them `hitm live throttle` and `hitm live wakeups` have the kernel's sums alone, and
/// `hitm live locks` does not see waiters that sleep.
fn observing() -> Finding {
    let available = hitm_live::bpf_available();
    Finding {
        subject: "observe throttling and wake-ups".into(),
        works: available.is_ok(),
        detail: match available {
            Ok(()) => "BPF programs load here".into(),
            Err(reason) => format!("counters of the kernel alone: {reason}"),
        },
    }
}

fn quotas() -> Finding {
    let hierarchy = Hierarchy::find();
    Finding {
        subject: "read quotas of cgroups".into(),
        works: hierarchy.is_ok(),
        detail: match hierarchy {
            Ok(hierarchy) => {
                let version = match hierarchy.version() {
                    Version::One => 1,
                    Version::Two => 2,
                };
                format!("cgroup version {version} at {}", hierarchy.root().display())
            }
            Err(error) => error.to_string(),
        },
    }
}

fn recording(architecture: Architecture) -> Finding {
    let subject = format!("record {} programs", architecture.name());
    match Tools::find(architecture, None) {
        Ok(tools) => {
            let heap = match &tools.heap_observer {
                Some(_) => "heap blocks named by allocation site",
                None => "heap blocks not named: no heap observer for this architecture",
            };
            let qemu = &tools.qemu;
            let detail = format!("{}, {} ({heap})", qemu.path.display(), qemu.version);
            Finding {
                subject,
                detail,
                works: true,
            }
        }
        Err(error) => Finding {
            subject,
            detail: error.to_string(),
            works: false,
        },
    }
}

fn processors() -> Finding {
    let count = std::thread::available_parallelism().map_or(1, |count| count.get());
    let detail = match count {
        1 => "one CPU: recording works, but slowly; the probe needs two".to_string(),
        _ => format!("{count} CPUs"),
    };
    Finding {
        subject: "probe this machine".into(),
        detail,
        works: count > 1,
    }
}
