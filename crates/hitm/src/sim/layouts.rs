//! Layout files to the simulator's plain tables.

use hitm_layout::layout_file::{self, FileMember, FileStruct, LayoutFile, LayoutTable};
use hitm_sim::layout::{Layouts, Member, Per, Storage, StructLayout};

use super::Error;

/// Layout over which shipped and other variants are laid.
const BASE: &str = "linux-6.12";
/// Alignment of an element behind a pointer where the file names none: `kmalloc`'s least.
const ELEMENT_ALIGN_BYTES: u64 = layout_file::DEFAULT_ALIGN_BYTES;

/// Returns the simulator's own table, in which the structures of a layout file, given as text,
/// replace those of the same names.
///
/// # Errors
/// A file that is wrong, or whose structures do not fit the table's.
pub fn layouts_of(text: &str, origin: &str) -> Result<Layouts, Error> {
    let file = LayoutFile::parse(text, origin)?;
    let base = layout_file::shipped(BASE).expect("the base is shipped");
    LayoutTable::new(&LayoutFile::parse(base, BASE)?)?.overlay(&file)?;
    let mut layouts = Layouts::linux_6_12();
    layouts.overlay(file.structs.iter().map(struct_layout));
    Ok(layouts)
}

fn struct_layout(read: &FileStruct) -> StructLayout {
    StructLayout {
        name: read.name.clone(),
        size_bytes: read.size_bytes,
        align_bytes: read.align(),
        members: read.members.iter().map(member).collect(),
    }
}

fn member(read: &FileMember) -> Member {
    let (storage, stride_bytes) = match read.storage {
        layout_file::Storage::Inline { stride_bytes } => (Storage::Inline, stride_bytes),
        layout_file::Storage::Pointer {
            element_bytes,
            element_align_bytes,
        } => {
            let storage = Storage::Pointer {
                element_bytes: element_bytes.unwrap_or(0),
                element_align_bytes: element_align_bytes.unwrap_or(ELEMENT_ALIGN_BYTES),
            };
            (storage, None)
        }
    };
    // A bit-field is represented by the byte of its first bit.
    let first_byte = read.bits.map_or(0, |bits| bits.offset / 8);
    Member {
        name: read.name.clone(),
        offset_bytes: read.offset_bytes + first_byte,
        size_bytes: read.size_bytes,
        type_name: read.type_name.clone(),
        count: read.array.map_or(1, |array| array.count),
        stride_bytes: read
            .array
            .map_or(stride_bytes.unwrap_or(0), |array| array.stride_bytes),
        per: read.per.map(|per| match per {
            layout_file::Per::Cpu => Per::Cpu,
            layout_file::Per::Node => Per::Node,
        }),
        storage,
        is_cpu_bits: read.cpu_bitmap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The members that the model uses have the offsets of the simulator's own table.
    #[test]
    fn the_shipped_base_says_what_the_built_in_table_says() {
        let read = layouts_of(layout_file::shipped(BASE).unwrap(), BASE).unwrap();
        for built_in in Layouts::linux_6_12().iter() {
            let read = read.get(&built_in.name).unwrap();
            for member in &built_in.members {
                let place = |member: &Member| {
                    let (offset, size) = (member.offset_bytes, member.size_bytes);
                    (offset, size, member.count, member.is_cpu_bits)
                };
                let found = read.member(&member.name).map(place);
                let name = format!("{}.{}", built_in.name, member.name);
                assert_eq!(found, Some(place(member)), "{name}");
            }
        }
    }

    #[test]
    fn an_array_of_structures_may_be_split_into_arrays() {
        let split = r#"
            schema = 1
            name = "split"
            description = "counts and masks of cpupri apart"
            source = "made up for this test"
            [[struct]]
            name = "cpupri"
            size_bytes = 1624
            align_bytes = 8
            members = [
              { name = "pri_to_cpu.count", offset_bytes = 0, size_bytes = 404, count = 101, stride_bytes = 4 },
              { name = "pri_to_cpu.mask", offset_bytes = 408, size_bytes = 808, bits_of = "cpu", storage = "pointer", count = 101, stride_bytes = 8 },
              { name = "cpu_to_pri", offset_bytes = 1616, size_bytes = 8 },
            ]
        "#;
        let layouts = layouts_of(split, "split").unwrap();
        let scenario = r#"
            schema = 1
            name = "x"
            description = "x"
            source = "x"
            [machine]
            preset = "broadwell-4s"
            cpus = 4
            [[workload]]
            kind = "rt-migrate-test"
            loops = 2
        "#;
        let options = crate::sim::LoadOptions::default();
        let folder = std::path::Path::new("");
        let mut simulation =
            crate::sim::Simulation::of_text(scenario, "x", folder, &options).unwrap();
        simulation.layouts[0].1 = layouts;
        let report = simulation.run(1, 1, &|_| {}).unwrap();
        let lines = &report.variants[0].outcomes[0].lines;
        let rows = lines.iter().flat_map(|line| line.rows.iter());
        let counts = rows.filter(|row| row.member.ends_with(".count"));
        assert!(counts.count() > 0 && report.passed());
    }

    #[test]
    fn every_shipped_layout_is_taken() {
        for name in layout_file::shipped_names() {
            let text = layout_file::shipped(name).unwrap();
            let layouts = layouts_of(text, name).unwrap();
            assert!(layouts.get("root_domain").is_some(), "{name}");
        }
    }
}
