//! Saved states of booted machines: each machine boots once.
//!
//! A snapshot's name is a hash of all that it depends on: the kernel, its options, the CPUs and
//! memory, the file system with the workload, and QEMU's version.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hitm_base::Fnv1a;

use super::emulator::{Emulator, Machine, Purpose};
use super::run::Console;
use super::{VmError, cache_folder};
use hitm_kernel::KernelSymbols;

/// Time that a file's transfer may take.
const FETCH_TIME_MAX: Duration = Duration::from_secs(120);

/// Files in which the guest's kernel describes itself, by the name under which each is kept.
const KERNEL_FILES: [(&str, &str); 3] = [
    ("kallsyms", "/proc/kallsyms"),
    ("btf", "/sys/kernel/btf/vmlinux"),
    ("notes", "/sys/kernel/notes"),
];

/// A directory with the state of a machine that has booted, and with files of its kernel.
#[derive(Debug)]
pub(super) struct Snapshot {
    directory: PathBuf,
    symbols: OnceCell<KernelSymbols>,
}

impl Snapshot {
    /// Finds the snapshot of this machine, or boots it. `initramfs` is the file system's content.
    pub(super) fn find_or_make(
        emulator: &Emulator<'_>,
        initramfs: &[u8],
        say: &mut dyn FnMut(&str),
    ) -> Result<Snapshot, VmError> {
        let image = std::fs::read(&emulator.image).map_err(|source| {
            VmError::system(
                &format!("read the kernel {}", emulator.image.display()),
                source,
            )
        })?;
        let mut hash = Fnv1a::EMPTY.with_word(&image).with_word(initramfs);
        for word in emulator.identity() {
            hash = hash.with_word(word.as_bytes());
        }
        let directory = emulator.config.cache.join("snapshots");
        cache_folder(&directory)?;
        let snapshot = Snapshot {
            directory: directory.join(format!("{:016x}", hash.value())),
            symbols: OnceCell::new(),
        };
        cache_folder(&snapshot.directory)?;
        if !snapshot.machine().exists() {
            say("booting");
            snapshot.make(emulator)?;
        }
        Ok(snapshot)
    }

    /// The state of the machine.
    pub(super) fn machine(&self) -> PathBuf {
        self.directory.join("machine")
    }

    /// A file of the guest's kernel: `kallsyms`, `btf` or `notes`.
    pub(super) fn kernel_file(&self, name: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.directory.join(name))
    }

    /// The guest kernel's own list of symbols, read once.
    pub(super) fn symbols(&self) -> std::io::Result<&KernelSymbols> {
        if let Some(symbols) = self.symbols.get() {
            return Ok(symbols);
        }
        let text = self.kernel_file("kallsyms")?;
        let symbols = KernelSymbols::parse(&String::from_utf8_lossy(&text));
        Ok(self.symbols.get_or_init(|| symbols))
    }

    fn make(&self, emulator: &Emulator<'_>) -> Result<(), VmError> {
        let io = |what: &str| {
            let what = what.to_owned();
            move |source| VmError::System { what, source }
        };
        let mut machine = emulator.start(Purpose::Boot)?;
        let console = Console::collect(&machine.console).map_err(io("read the console"))?;
        // Renamed at the end, so that no partial snapshot looks complete.
        let unfinished = self
            .directory
            .join(format!("machine.{}.part", std::process::id()));
        let made = self.fill(&mut machine, emulator, &unfinished);
        made.map_err(|error| console.explain("booting", &error, &mut machine))?;
        rename(&unfinished, &self.machine())
    }

    /// Waits for the guest, takes its kernel's files, and saves its state into a file.
    fn fill(
        &self,
        machine: &mut Machine,
        emulator: &Emulator<'_>,
        state: &Path,
    ) -> std::io::Result<()> {
        machine.agent.wait_until_ready(emulator.cpus.order.len())?;
        for (name, path) in KERNEL_FILES {
            let bytes = machine
                .agent
                .fetch(&mut machine.qmp, path, FETCH_TIME_MAX)?;
            std::fs::write(self.directory.join(name), bytes)?;
        }
        machine.qmp.save_machine(state)?;
        machine.qmp.quit();
        Ok(())
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), VmError> {
    std::fs::rename(from, to).map_err(|source| VmError::system("write the snapshot", source))
}
