//! Parts of the command line that takes another program into the recording: written by `hitm record` beside the
//! header, one `key=value` a line.

use std::borrow::Cow;
use std::path::Path;

use hitm_base::CpuId;

use crate::clock::Start;
use crate::memory::Identity;

/// The recorder's command line in parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The QEMU of this recording.
    pub(crate) qemu: String,
    /// The plugin with all its arguments but the memory.
    pub(crate) plugin: String,
    /// The heap observer; empty when there is none.
    pub(crate) observer: String,
    /// Path at which the shared memory can be opened, mostly.
    pub(crate) memory: String,
    /// The file that is there.
    pub(crate) memory_identity: Identity,
    /// Set if other programs and children are recorded.
    pub(crate) follows: bool,
    /// Set if the callers of accesses are recorded.
    pub(crate) has_callers: bool,
    /// Set if they are recorded while a process is alone, too.
    pub(crate) has_callers_alone: bool,
    /// Set if processes end with their recorder.
    pub(crate) is_guarded: bool,
    /// CPUs that programs see, ascending.
    pub(crate) cpus: Vec<CpuId>,
    /// The host's clocks at the recording's beginning, when programs live in the modelled machine's time.
    pub(crate) clock: Option<Start>,
    /// Functions of the programs that allocate, as the user has told them.
    pub(crate) allocators: Vec<String>,
}

impl Launch {
    /// Returns true if QEMU and the plugin are where this process sees them: it may have another root.
    pub(crate) fn is_here(&self) -> bool {
        let plugin = self.plugin.split(',').next().unwrap_or_default();
        [self.qemu.as_str(), plugin]
            .iter()
            .all(|path| Path::new(path).exists())
    }

    /// Reads the text, with its length before it.
    pub(crate) fn read(bytes: &[u8]) -> Launch {
        let mut launch = Launch::default();
        let text = sized_text(bytes).unwrap_or_default();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            match key {
                "qemu" => launch.qemu = value.into(),
                "plugin" => launch.plugin = value.into(),
                "observer" => launch.observer = value.into(),
                "memory" => launch.memory = value.into(),
                "follow" => launch.follows = value == "all",
                "callers" => {
                    launch.has_callers = value != "no";
                    launch.has_callers_alone = value == "yes";
                }
                "cpus" => {
                    let cpus = value.split(',').filter_map(|cpu| cpu.parse().ok());
                    launch.cpus = cpus.map(CpuId).collect();
                }
                "allocator" => launch.allocators.push(value.into()),
                "clock" => launch.clock = start(value),
                "guard" => launch.is_guarded = value == "yes",
                _ => {}
            }
        }
        launch
    }
}

/// A text with its length in eight bytes before it.
pub(crate) fn sized_text(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let (length, text) = bytes.split_first_chunk::<8>()?;
    let length = u64::from_le_bytes(*length) as usize;
    Some(String::from_utf8_lossy(&text[..length.min(text.len())]))
}

/// `REALTIME,MONOTONIC` in nanoseconds.
fn start(value: &str) -> Option<Start> {
    let (realtime, monotonic) = value.split_once(',')?;
    Some(Start {
        realtime: realtime.parse().ok()?,
        monotonic: monotonic.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_read_back() {
        let text =
            b"qemu=/usr/bin/qemu-x86_64\nfollow=all\nguard=no\nclock=17,4\ncallers=yes\ncpus=0,24\nallocator=get,size=2\nplugin=/p.so,a=1\n";
        let bytes = [&(text.len() as u64).to_le_bytes()[..], text, b"rest"].concat();
        let launch = Launch::read(&bytes);
        assert_eq!(launch.qemu, "/usr/bin/qemu-x86_64");
        assert_eq!(launch.plugin, "/p.so,a=1");
        assert_eq!(launch.cpus, [CpuId(0), CpuId(24)]);
        assert_eq!(launch.allocators, ["get,size=2"]);
        let clock = Start {
            realtime: 17,
            monotonic: 4,
        };
        assert_eq!(launch.clock, Some(clock));
        assert!(launch.follows && launch.has_callers && !launch.is_guarded);
        assert_eq!(Launch::read(&[1]), Launch::default());
    }
}
