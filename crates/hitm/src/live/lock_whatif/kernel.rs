//! The running kernel's preemption model and ticks.

use std::fs;
use std::io::Read as _;

use flate2::read::GzDecoder;
use hitm_sim::kernel::Preemption;

/// Longest configuration of a kernel that is read: they have some 300 KB.
const CONFIG_MAX: u64 = 4 << 20;
/// Debian has 250.
const HZ_ASSUMED: u32 = 250;

/// Properties that decide when a thread loses its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelHere {
    /// The preemption model; none where it is not known.
    pub preemption: Option<Preemption>,
    /// Ticks a second: those of the kernel's configuration, or else 250 (assumed, 100 to 1000).
    pub hz: u32,
}

impl KernelHere {
    /// The model of a kernel that does not tell. Assumed none (or voluntary): those of most servers before Linux 7.0.
    pub const ASSUMED: Preemption = Preemption::None;

    /// Reads this host's.
    pub fn read() -> KernelHere {
        let mode = fs::read_to_string("/sys/kernel/debug/sched/preempt").ok();
        let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
        KernelHere::of(
            mode.as_deref(),
            &command_line,
            &configuration().unwrap_or_default(),
        )
    }

    /// From the switch of debugfs, the kernel's command line, and its configuration.
    fn of(mode: Option<&str>, command_line: &str, configuration: &str) -> KernelHere {
        let is_set = |name: &str| {
            configuration
                .lines()
                .any(|line| line.strip_prefix(name) == Some("=y"))
        };
        let switched = mode.and_then(|mode| {
            let (_, rest) = mode.split_once('(')?;
            model(rest.split_once(')')?.0)
        });
        let mut words = command_line.split_ascii_whitespace();
        let asked = words.find_map(|word| model(word.strip_prefix("preempt=")?));
        let built = [
            ("CONFIG_PREEMPT_NONE", Preemption::None),
            ("CONFIG_PREEMPT_VOLUNTARY", Preemption::Voluntary),
            ("CONFIG_PREEMPT", Preemption::Full),
            ("CONFIG_PREEMPT_LAZY", Preemption::Lazy),
        ];
        let built = built.into_iter().find(|(name, _)| is_set(name));
        let hz = configuration
            .lines()
            .find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok());
        KernelHere {
            preemption: switched.or(asked).or(built.map(|(_, model)| model)),
            hz: hz.unwrap_or(HZ_ASSUMED),
        }
    }
}

fn model(word: &str) -> Option<Preemption> {
    let known = Preemption::WORDS.iter().find(|(name, _)| *name == word);
    known.map(|(_, model)| *model)
}

/// The configuration that the running kernel was built with.
fn configuration() -> Option<String> {
    let mut text = String::new();
    if let Ok(packed) = fs::File::open("/proc/config.gz") {
        let mut unpacked = GzDecoder::new(packed).take(CONFIG_MAX);
        unpacked.read_to_string(&mut text).ok()?;
        return Some(text);
    }
    let path = format!("/boot/config-{}", super::super::kernel_release());
    let file = fs::File::open(path).ok()?;
    file.take(CONFIG_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_goes_before_the_command_line_and_that_before_the_configuration() {
        let config = "CONFIG_HZ=1000\n# CONFIG_PREEMPT_NONE is not set\nCONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_DYNAMIC=y\n";
        let here = |mode, line| KernelHere::of(mode, line, config).preemption;
        assert_eq!(
            here(Some("none voluntary (full) lazy\n"), "preempt=none"),
            Some(Preemption::Full)
        );
        assert_eq!(here(None, "quiet preempt=none\n"), Some(Preemption::None));
        assert_eq!(here(Some("odd"), "quiet"), Some(Preemption::Lazy));
        assert_eq!(KernelHere::of(None, "", config).hz, 1000);
        let unknown = KernelHere {
            preemption: None,
            hz: 250,
        };
        assert_eq!(KernelHere::of(None, "", ""), unknown);
    }
}
