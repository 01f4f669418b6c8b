//! Objects in a stopped guest's kernel memory, as records for the recording.

use std::io;

use hitm_files::temporary;
use hitm_kernel::{GuestMemory, KernelSymbols, Slab, Walker, Walks, end_in_slab};
use hitm_layout::{BtfFile, Bytes};
use hitm_recording::{KernelFiles, build_id};
use hitm_trace::Record;
use tempfile::NamedTempFile;

use super::qmp::Qmp;
use super::snapshot::Snapshot;
use crate::kernel_records;

/// Most bytes of a kernel's code that are kept; distributions' have 20 MiB.
const CODE_BYTES_MAX: u64 = 128 << 20;

/// A stopped guest and the kernel's description of itself.
pub(super) struct StoppedKernel<'q> {
    memory: StoppedGuest<'q>,
    symbols: &'q KernelSymbols,
    btf: BtfFile,
    build_id: Vec<u8>,
    cpu_count: usize,
}

impl<'q> StoppedKernel<'q> {
    /// Stops the guest.
    pub(super) fn new(
        qmp: &'q mut Qmp,
        snapshot: &'q Snapshot,
        cpu_count: usize,
    ) -> io::Result<StoppedKernel<'q>> {
        let kallsyms = snapshot.kernel_file("kallsyms")?;
        let btf = snapshot.kernel_file("btf")?;
        let build_id = build_id(&snapshot.kernel_file("notes")?).unwrap_or_default();
        KernelFiles::of(&build_id).keep(&kallsyms, &btf)?;
        let btf = BtfFile::parse(Bytes::new(btf), None, "the guest's BTF");
        qmp.stop()?;
        let file = temporary::file()?;
        let mut kernel = StoppedKernel {
            memory: StoppedGuest { qmp, file },
            symbols: snapshot.symbols()?,
            btf: btf.map_err(io::Error::other)?,
            build_id,
            cpu_count,
        };
        kernel.keep_code()?;
        Ok(kernel)
    }

    /// Keeps the kernel's code for reports: with what was patched into it, no file has it.
    fn keep_code(&mut self) -> io::Result<()> {
        let files = KernelFiles::of(&self.build_id);
        let range = self.symbols.code().filter(|_| !files.has_code());
        match range.filter(|range| range.end - range.start <= CODE_BYTES_MAX) {
            Some(range) => {
                let code = self.memory.read(range.start, range.end - range.start)?;
                files.keep_code(&code)
            }
            None => Ok(()),
        }
    }

    pub(super) fn walker(&mut self) -> Walker<'_> {
        Walker {
            symbols: self.symbols,
            btf: &mut self.btf,
            memory: &mut self.memory,
            cpu_count: self.cpu_count,
        }
    }
}

/// Returns records of the kernel's image and its objects, as the known walks and `own` find them. Leaves the guest
/// stopped.
pub(super) fn of_kernel(
    qmp: &mut Qmp,
    snapshot: &Snapshot,
    cpu_count: usize,
    own: &Walks,
) -> io::Result<Vec<Record>> {
    let mut kernel = StoppedKernel::new(qmp, snapshot, cpu_count)?;
    let walks = own.clone().and(Walks::known());
    let mut walker = kernel.walker();
    let slabs: Vec<Slab> = walker.slabs(&walks.slab);
    let areas = walker.per_cpu_areas();
    let mut objects = walker.objects(&walks);
    for object in &mut objects {
        end_in_slab(object, &slabs);
    }
    let spaces = objects
        .iter()
        .filter(|object| object.type_name == "mm_struct");
    let spaces: Vec<u64> = spaces.map(|object| object.start).collect();
    objects.extend(walker.page_tables(&spaces));
    objects.extend(walker.page_cache(&slabs));
    // Reports know the types of the other variables.
    objects.extend(walker.variables(own));
    let StoppedKernel {
        symbols, build_id, ..
    } = kernel;
    let slabs = slabs.into_iter().filter_map(kernel_records::slab);
    let areas = areas.into_iter().filter_map(kernel_records::per_cpu);
    let objects = objects.into_iter().filter_map(kernel_records::object);
    let regions = slabs.chain(areas).chain(objects).map(Record::Region);
    let image = kernel_records::image(symbols, build_id);
    Ok(std::iter::once(image).chain(regions).collect())
}

/// Memory of a stopped guest, read through QEMU.
struct StoppedGuest<'q> {
    qmp: &'q mut Qmp,
    file: NamedTempFile,
}

impl GuestMemory for StoppedGuest<'_> {
    fn read(&mut self, address: u64, size: u64) -> io::Result<Vec<u8>> {
        self.qmp.save_virtual(address, size, self.file.path())?;
        let bytes = std::fs::read(self.file.path())?;
        match bytes.len() as u64 == size {
            true => Ok(bytes),
            false => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "asked for {size} bytes at {address:#x}, got {}",
                    bytes.len()
                ),
            )),
        }
    }
}
