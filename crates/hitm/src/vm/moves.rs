//! Members that are moved while the real kernel runs: the objects of a layout file, and the
//! addresses at which their members are priced.

use hitm_base::AddrRange;
use hitm_layout::layout_file::LayoutFile;
use hitm_trace::{Record, Region, RegionKind};
use hitm_weave::Relocation;

use super::VmError;
use crate::kernel::{KernelObject, MOVED, Walker, Walks};
use crate::whatif::member_map::MemberMap;

/// Moves of a recording.
#[derive(Debug)]
pub(super) struct Plan {
    /// Address map for the recorder.
    pub(super) relocation: Relocation,
    /// Records that name the moved objects.
    pub(super) records: Vec<Record>,
}

/// Plans the moves of all objects that walks find in a stopped guest.
pub(super) fn plan(walker: &mut Walker<'_>, layouts: &[LayoutFile]) -> Result<Plan, VmError> {
    let objects = walker.objects(&Walks::known());
    let mut plan = Plan {
        relocation: Relocation::default(),
        records: Vec::new(),
    };
    let mut end = MOVED.start;
    for wanted in layouts.iter().flat_map(|layout| &layout.structs) {
        let mut of_type = objects
            .iter()
            .filter(|object| object.type_name == wanted.name);
        let Some(first) = of_type.next() else {
            continue;
        };
        let map = map(walker, wanted, layouts)?;
        plan.relocation.add_map(map.moved_spans());
        for object in std::iter::once(first).chain(of_type) {
            end = end.next_multiple_of(map.align.max(hitm_base::LINE_SIZE));
            let range = AddrRange::with_len(end, map.sizes.1);
            let range = range.expect("moved objects lie far from the end of the addresses");
            plan.relocation.add_object(object.start, map.sizes.0, end);
            plan.records.push(moved(object, range));
            end = range.end();
        }
    }
    if plan.records.is_empty() {
        let structs = layouts.iter().flat_map(|layout| &layout.structs);
        let structs: Vec<&str> = structs.map(|known| known.name.as_str()).collect();
        return Err(VmError::NothingMoves {
            structs: structs.join(", "),
        });
    }
    Ok(plan)
}

fn map(
    walker: &mut Walker<'_>,
    wanted: &hitm_layout::layout_file::FileStruct,
    layouts: &[LayoutFile],
) -> Result<MemberMap, VmError> {
    let failed = |what: String| VmError::Layout { what };
    let compiled = walker.btf.struct_layout(&wanted.name);
    let compiled = compiled.map_err(|error| failed(error.to_string()))?;
    let map = MemberMap::new(walker.btf.types(), &compiled, wanted, layouts);
    map.map_err(|error| failed(error.to_string()))
}

fn moved(object: &KernelObject, range: AddrRange) -> Record {
    Record::Region(Region {
        range,
        kind: RegionKind::Object {
            name: object.name.clone(),
            type_name: object.type_name.clone(),
        },
    })
}
