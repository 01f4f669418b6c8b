//! `hitm doctor`: what works on this host, and what to install for the rest.

mod install;

use std::fmt::Display;

use hitm_base::Architecture;
use hitm_live::cgroups::{Hierarchy, Version};
use hitm_live::place::{Backend, Linux, Mounts, Obstacle, means_for};
use hitm_live::shim::{Launch, library_directory};

use crate::distribution::QemuUser;
use crate::record::{Tools, ToolsError};
use crate::vm;
pub use install::{InstallError, install};

/// An ability of hitm, and its state on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Subject of the finding.
    pub subject: String,
    /// State, or the missing part and how to get it.
    pub detail: String,
    /// True if it works.
    pub works: bool,
    /// The Debian package that brings it, as [`install`] takes it. None where it works, and where no
    /// package helps.
    pub package: Option<&'static str>,
}

impl Finding {
    /// Something that works, with its state, or does not, with the reason.
    fn of(subject: &str, found: Result<String, impl Display>) -> Finding {
        Finding {
            subject: subject.to_owned(),
            works: found.is_ok(),
            detail: found.unwrap_or_else(|reason| reason.to_string()),
            package: None,
        }
    }
}

/// Checks everything that hitm uses on this host.
pub fn doctor() -> Vec<Finding> {
    let further = [
        machines(),
        processors(),
        sampling(),
        counting(),
        observing(),
        quotas(),
        placing(),
    ];
    let recording = Architecture::ALL.map(recording);
    recording.into_iter().chain(further).collect()
}

/// Samples of the CPU clock and the kernel's names: without them `hitm live locks` has no data.
fn sampling() -> Finding {
    Finding::of("sample locks of the kernel", crate::live::sampling_layer())
}

/// The preloaded library: without it pthread locks are only sampled.
fn counting() -> Finding {
    let launch = Launch::prepare(&library_directory());
    let state = launch.map(|_| "libhitm_locks.so can be preloaded".to_owned());
    Finding::of("count locks of programs", state)
}

/// Means of `hitm place` for this process's threads: the best that works, and the faults of better
/// ones.
fn placing() -> Finding {
    let means = Mounts::read(&Linux)
        .and_then(|mounts| means_for(&Linux, &mounts, std::process::id()))
        .map_err(|error| error.to_string());
    Finding::of("place threads", means.and_then(means_text))
}

fn means_text(means: Vec<(Backend, Option<Obstacle>)>) -> Result<String, String> {
    let found = means.iter().position(|(_, obstacle)| obstacle.is_none());
    let used = found.map_or("by no means", |index| means[index].0.id());
    let better = means
        .into_iter()
        .take(found.unwrap_or(usize::MAX))
        .filter_map(|(backend, obstacle)| {
            Some(format!("; not {}: {}", backend.id(), words(obstacle?)))
        });
    let text = used.to_owned() + &better.collect::<String>();
    match found {
        Some(_) => Ok(text),
        None => Err(text),
    }
}

fn words(obstacle: Obstacle) -> String {
    match obstacle.needed {
        Some(needed) => format!("{}: that needs {needed}", obstacle.reason),
        None => obstacle.reason,
    }
}

/// BPF programs. Without them `hitm live throttle` and `hitm live wakeups` have only the kernel's
/// sums, and `hitm live locks` and `hitm place apply --watch` miss waiters that sleep.
fn observing() -> Finding {
    let state = match hitm_live::bpf_available() {
        Ok(()) => Ok("BPF programs load here".to_owned()),
        Err(reason) => Err(format!("counters of the kernel alone: {reason}")),
    };
    Finding::of("observe throttling, wake-ups and sleeping waiters", state)
}

fn quotas() -> Finding {
    let state = Hierarchy::find().map(|hierarchy| {
        let version = match hierarchy.version() {
            Version::One => 1,
            Version::Two => 2,
        };
        format!("cgroup version {version} at {}", hierarchy.root().display())
    });
    Finding::of("read quotas of cgroups", state)
}

fn recording(architecture: Architecture) -> Finding {
    let subject = format!("record {} programs", architecture.id());
    let found = Tools::find(architecture, None);
    let found = found.and_then(|tools| tools.qemu.check().map(|()| tools));
    let package = found.as_ref().err();
    let package = package.and_then(|error| package_of(error, QemuUser::here()));
    let state = found.map(
        |Tools {
             qemu,
             heap_observer,
         }| {
            let heap = match heap_observer {
                Some(_) => "heap blocks named by allocation site",
                None => "heap blocks named by allocation site where allocators have symbols",
            };
            format!("{}, {} ({heap})", qemu.path.display(), qemu.version)
        },
    );
    Finding {
        package,
        ..Finding::of(&subject, state)
    }
}

/// The package that helps against an error. One without plugins does not.
fn package_of(error: &ToolsError, qemu: QemuUser) -> Option<&'static str> {
    let helps = match error {
        ToolsError::NoQemu { .. } => true,
        ToolsError::UnfitQemu { .. } => qemu == QemuUser::WithoutPlugins,
        _ => false,
    };
    helps.then(|| qemu.package())
}

/// The emulator of whole machines, for `hitm vm`.
fn machines() -> Finding {
    let found = vm::find_emulator(None);
    Finding {
        // Debian 12's own is too old; the error names the one in its backports.
        package: (found.is_err() && QemuUser::here() != QemuUser::WithPlugins)
            .then_some("qemu-system-x86"),
        ..Finding::of(
            "record whole kernels",
            found.map(|path| path.display().to_string()),
        )
    }
}

fn processors() -> Finding {
    let count = std::thread::available_parallelism().map_or(1, |count| count.get());
    let state = match count {
        1 => Err("one CPU: recording works, but slowly; the probe needs two"),
        _ => Ok(format!("{count} CPUs")),
    };
    Finding::of("probe this machine", state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn obstacle(needed: Option<&str>) -> Option<Obstacle> {
        Some(Obstacle {
            reason: "it is not there".into(),
            needed: needed.map(str::to_owned),
        })
    }

    #[test]
    fn a_package_without_plugins_is_replaced() {
        let missing = ToolsError::NoQemu {
            name: "qemu-x86_64".into(),
        };
        let unfit = ToolsError::UnfitQemu {
            path: "/usr/bin/qemu-x86_64".into(),
            version: "qemu-x86_64 version 10.0.13".into(),
            problem: "is built without plugins".into(),
        };
        for (error, qemu, expected) in [
            (&missing, QemuUser::WithPlugins, Some("qemu-user")),
            (
                &missing,
                QemuUser::WithoutPlugins,
                Some("qemu-user/bookworm"),
            ),
            (&unfit, QemuUser::WithoutPlugins, Some("qemu-user/bookworm")),
            (&unfit, QemuUser::Unknown, None),
        ] {
            assert_eq!(package_of(error, qemu), expected, "{error}, {qemu:?}");
        }
    }

    #[test]
    fn the_best_means_is_named_and_why_better_ones_are_not_used() {
        let [v2, v1, masks] = Backend::ALL;
        let means = vec![(v2, obstacle(Some("root"))), (v1, None), (masks, None)];
        let expected = "cpuset-v1; not cpuset-v2: it is not there: that needs root";
        assert_eq!(means_text(means), Ok(expected.into()));
        let none = means_text(vec![(v1, obstacle(None))]);
        let expected = "by no means; not cpuset-v1: it is not there";
        assert_eq!(none, Err(expected.into()));
    }
}
