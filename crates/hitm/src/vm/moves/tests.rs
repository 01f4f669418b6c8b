use hitm_layout::{BtfFile, layout_file::LayoutFile};
use hitm_test::btf::Assembler;

use super::*;
use hitm_kernel::{GuestMemory, KernelSymbols};

const CACHE: u64 = 0xffff_8880_0000_1000;
const SLAB: u64 = DIRECT_MAP + 8 * PAGE_BYTES;

struct NoMemory;

impl GuestMemory for NoMemory {
    fn read(&mut self, _: u64, _: u64) -> std::io::Result<Vec<u8>> {
        Err(std::io::Error::other("there is none"))
    }
}

/// A kernel with `pair { long a; long b; }` and `holder { long id; pair inner; }`.
fn kernel() -> BtfFile {
    let mut btf = Assembler::new(false);
    let long = btf.int("long", 8);
    let pair = btf.structure("pair", 16, &[("a", long, 0), ("b", long, 64)]);
    btf.structure("holder", 24, &[("id", long, 0), ("inner", pair, 64)]);
    BtfFile::parse(btf.finish().into(), None, "the kernel").unwrap()
}

/// `b` on a line of its own.
fn layout() -> LayoutFile {
    let text = "schema = 1\nname = \"apart\"\ndescription = \"d\"\nsource = \"s\"\n[[struct]]\n\
                name = \"pair\"\nsize_bytes = 72\nmembers = [\n\
                { name = \"a\", offset_bytes = 0, size_bytes = 8 },\n\
                { name = \"b\", offset_bytes = 64, size_bytes = 8 },\n]\n";
    LayoutFile::parse(text, "a test").unwrap()
}

fn cache(name: &str, type_name: &str, stride_bytes: u64) -> Cache {
    Cache {
        address: CACHE,
        name: name.to_owned(),
        type_name: type_name.to_owned(),
        stride_bytes,
        slab_pages: 1,
        slab_objects: 4,
    }
}

fn object(start: u64, name: &str) -> KernelObject {
    KernelObject {
        start,
        size: 16,
        name: name.to_owned(),
        type_name: "pair".to_owned(),
    }
}

/// Plans the moves of pairs in a kernel with this cache, one slab of it, and an object in the slab and one elsewhere.
fn planned(cache: Cache) -> Plan {
    let mut btf = kernel();
    let symbols = KernelSymbols::default();
    let mut walker = Walker {
        symbols: &symbols,
        btf: &mut btf,
        memory: &mut NoMemory,
        cpu_count: 1,
    };
    let layouts = [layout()];
    let slab = Slab {
        start: SLAB,
        end: SLAB + PAGE_BYTES,
        cache: cache.name.clone(),
        type_name: cache.type_name.clone(),
        stride_bytes: cache.stride_bytes,
    };
    let second = SLAB + cache.stride_bytes;
    let memory = Memory {
        walked: vec![object(second, "pair[0]"), object(DIRECT_MAP, "pair[1]")],
        // A variable that a walk found already is no second object.
        variables: vec![
            object(DIRECT_MAP, "a_pair"),
            object(DIRECT_MAP + 64, "other"),
        ],
        caches: vec![cache],
        slabs: vec![slab],
        pages: 16,
    };
    let mut planner = Planner::new(&layouts, memory);
    planner.plan.relocation.set_memory(PageMemory {
        direct_map: DIRECT_MAP,
        descriptors: PAGE_DESCRIPTORS.start,
        descriptor_bytes: PAGE_DESCRIPTOR_BYTES,
        cache_offset: 8,
        pages: 16,
    });
    planner.add(&mut walker, &layouts[0].structs[0]).unwrap();
    planner.plan
}

/// Names and ranges of the moved objects, the ranges from the first fresh address.
fn names(plan: &Plan) -> Vec<(String, u64, u64)> {
    let records = plan.records.iter().map(|record| match record {
        Record::Region(Region { range, kind }) => {
            let name = match kind {
                RegionKind::Object { name, .. } => name,
                RegionKind::Slab { cache, .. } => cache,
                other => panic!("found {other:?}, expected an object or a slab"),
            };
            (name.clone(), range.start() - MOVED.start, range.len())
        }
        other => panic!("found {other:?}, expected a region"),
    });
    records.collect()
}

fn piece(plan: &Plan, addr: u64) -> Option<u64> {
    let mut to = None;
    plan.relocation.pieces(addr, 8, |at, _| to = Some(at));
    to.and_then(|to| to.checked_sub(MOVED.start))
}

#[test]
fn objects_of_a_slab_have_places_by_their_page_and_walked_ones_their_names() {
    let plan = planned(cache("pair", "pair", 16));
    assert_eq!(
        plan.found[0].to_string(),
        "moves 6 pair: 2 walked, 1 as variables, 3 places in 1 slabs of pair, and those of its later slabs"
    );
    // 16 slabs of four objects of 128 bytes; the slab is at page 8.
    let first = 8 * 4 * 128;
    let expected = [
        ("pair", 0, 16 * 4 * 128),
        ("pair[0]", first + 128, 72),
        ("pair[1]", 16 * 4 * 128, 72),
        ("other", 16 * 4 * 128 + 128, 72),
    ];
    let expected = expected.map(|(name, start, len)| (name.to_owned(), start, len));
    assert_eq!(names(&plan), expected);
    assert_eq!(piece(&plan, SLAB + 3 * 16 + 8), Some(first + 3 * 128 + 64));
    assert_eq!(piece(&plan, DIRECT_MAP + 8), Some(16 * 4 * 128 + 64));
}

#[test]
fn what_follows_a_structure_in_its_object_follows_it_in_the_layout() {
    let plan = planned(cache("pair", "pair", 40));
    let first = 8 * 4 * 128;
    assert_eq!(piece(&plan, SLAB + 16), Some(first + 72));
    assert_eq!(piece(&plan, SLAB + 32), Some(first + 88));
}

#[test]
fn a_structure_inside_of_another_moves_and_its_surroundings_stay() {
    let plan = planned(cache("holders", "holder", 32));
    let first = 8 * 4 * 128;
    assert_eq!(piece(&plan, SLAB + 8), Some(first));
    assert_eq!(piece(&plan, SLAB + 32 + 16), Some(first + 128 + 64));
    // `id`, and what follows the holder.
    assert_eq!(piece(&plan, SLAB + 32), None);
    assert_eq!(piece(&plan, SLAB + 24), None);
}

#[test]
fn caches_of_other_types_stay() {
    let plan = planned(cache("kmalloc-16", "", 16));
    assert_eq!(
        plan.found[0].to_string(),
        "moves 3 pair: 2 walked, 1 as variables"
    );
    assert_eq!(piece(&plan, SLAB + 8), None);
}
