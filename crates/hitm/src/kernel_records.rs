//! Records of a kernel's memory: its image, its slabs, its CPUs' variables.

use hitm_base::AddrRange;
use hitm_kernel::{KernelObject, KernelSymbols, PerCpuArea, Slab};
use hitm_recording::KERNEL_PATH;
use hitm_trace::{Mapping, Record, Region, RegionKind};

/// The mapping of a kernel's image, which names its functions and variables.
pub(crate) fn image(symbols: &KernelSymbols, build_id: Vec<u8>) -> Record {
    let image = symbols.image().unwrap_or_default();
    Record::Mapping(Mapping {
        range: AddrRange::new(image.start, image.end).unwrap_or_default(),
        file_offset: 0,
        path: KERNEL_PATH.into(),
        build_id,
        executable: true,
    })
}

/// The region of a slab. A kernel's memory may hold any bytes: one whose range wraps has none.
pub(crate) fn slab(slab: Slab) -> Option<Region> {
    Some(Region {
        range: AddrRange::new(slab.start, slab.end)?,
        kind: RegionKind::Slab {
            cache: slab.cache,
            type_name: slab.type_name,
            stride_bytes: slab.stride_bytes,
        },
    })
}

/// The region of a CPU's variables; none if its range wraps.
pub(crate) fn per_cpu(area: PerCpuArea) -> Option<Region> {
    Some(Region {
        range: AddrRange::new(area.start, area.end)?,
        kind: RegionKind::PerCpu { cpu: area.cpu },
    })
}

/// The region of an object; none if its range wraps.
pub(crate) fn object(object: KernelObject) -> Option<Region> {
    Some(Region {
        range: AddrRange::with_len(object.start, object.size)?,
        kind: RegionKind::Object {
            name: object.name,
            type_name: object.type_name,
        },
    })
}
