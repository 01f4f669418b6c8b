//! What a stopped guest's kernel has in its memory, as records for the recording.

use std::io;

use hitm_layout::{BtfFile, Bytes};
use hitm_trace::{Mapping, Record, Region, RegionKind};
use tempfile::NamedTempFile;

use super::qmp::Qmp;
use super::snapshot::Snapshot;
use crate::kernel::{
    GuestMemory, KERNEL_PATH, KernelFiles, KernelObject, KernelSymbols, Walker, build_id,
};

/// The kernel itself and its objects. The guest stands still afterwards.
pub(super) fn of_kernel(
    qmp: &mut Qmp,
    snapshot: &Snapshot,
    cpu_count: usize,
) -> io::Result<Vec<Record>> {
    let kallsyms = snapshot.kernel_file("kallsyms")?;
    let btf = snapshot.kernel_file("btf")?;
    let build_id = build_id(&snapshot.kernel_file("notes")?).unwrap_or_default();
    KernelFiles::of(&build_id).keep(&kallsyms, &btf)?;
    let symbols = KernelSymbols::parse(&String::from_utf8_lossy(&kallsyms));
    let mut btf =
        BtfFile::parse(Bytes::new(btf), None, "the guest's BTF").map_err(io::Error::other)?;
    qmp.stop()?;
    let mut memory = StoppedGuest {
        qmp,
        file: NamedTempFile::new()?,
    };
    let mut walker = Walker {
        symbols: &symbols,
        btf: &mut btf,
        memory: &mut memory,
        cpu_count,
    };
    let objects = walker.objects();
    let kernel = Mapping {
        start: symbols.address("_text").unwrap_or_default(),
        end: symbols.address("_end").unwrap_or_default(),
        file_offset: 0,
        path: KERNEL_PATH.into(),
        build_id,
        executable: true,
    };
    let objects = objects.into_iter().map(region);
    Ok(std::iter::once(Record::Mapping(kernel))
        .chain(objects)
        .collect())
}

fn region(object: KernelObject) -> Record {
    Record::Region(Region {
        start: object.start,
        end: object.start + object.size,
        kind: RegionKind::Object {
            name: object.name,
            type_name: object.type_name,
        },
    })
}

/// Reads through QEMU.
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
