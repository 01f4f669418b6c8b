//! The slab caches of a booted kernel, with the types of their objects.

use hitm_kernel::{Cache, Walks};

use super::emulator::Purpose;
use super::objects::StoppedKernel;
use super::run::{self, Console, VmProgress};
use super::snapshot::Snapshot;
use super::{VmConfig, VmError};

/// Boots the machine of `config` and lists the slab caches of its kernel, by name. Nothing is recorded, and its command
/// does not run.
pub fn caches(
    config: &VmConfig,
    progress: &mut dyn FnMut(VmProgress<'_>),
) -> Result<Vec<Cache>, VmError> {
    run::with_emulator(config, progress, |emulator, initramfs, progress| {
        let mut say = |what: &str| progress(VmProgress::Preparing(what));
        let snapshot = Snapshot::find_or_make(emulator, initramfs, &mut say)?;
        say("booting");
        let io = |what: &'static str| move |source| VmError::system(what, source);
        let mut machine = emulator.start(Purpose::Boot)?;
        let console = Console::collect(&machine.console).map_err(io("read the console"))?;
        let cpu_count = emulator.cpus.order.len();
        let ready = machine.agent.wait_until_ready(cpu_count);
        ready.map_err(|error| console.explain("booting", &error, &mut machine))?;
        let kernel = StoppedKernel::new(&mut machine.qmp, &snapshot, cpu_count);
        let mut kernel = kernel.map_err(io("look at the guest's memory"))?;
        let walks = config.walks.clone().and(Walks::known());
        let found = kernel.walker().caches(&walks.slab);
        let mut found: Vec<Cache> = found.unwrap_or_default().into_values().collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        machine.qmp.quit();
        Ok(found)
    })
}
