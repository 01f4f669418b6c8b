//! From a kernel's own types, BTF or DWARF, to the simulator's tables.
//!
//! The simulator's built-in table lists the structures and members that the model uses; the file
//! gives their offsets. A structure that the file lacks (it may be one of a few structures) keeps
//! its built-in layout. A member that the file's structure lacks is left out, so that the engine
//! names it as missing.

use hitm_layout::structs::TypesFile;
use hitm_layout::structs::place_in_types;
use hitm_layout::{StructLayout as TypeLayout, TypeStore};
use hitm_sim::layout::{Layouts, Member, Storage, StructLayout};

use super::Error;

/// Bytes of a pointer on every machine that is modelled.
const POINTER_BYTES: u64 = 8;

/// Returns the built-in table with the layouts of `file`.
///
/// # Errors
/// Types that cannot be read; a file with none of the structures.
pub(super) fn layouts_of_types(file: &mut TypesFile) -> Result<Layouts, Error> {
    let built_in = Layouts::linux_6_12();
    let mut found = Vec::new();
    for known in built_in.iter() {
        match file.struct_layout(&known.name) {
            Ok(types) => found.push(merge(known, &types, file.types())),
            Err(hitm_layout::Error::NoSuchType { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if found.is_empty() {
        return Err(Error::NoStructs {
            file: file.name().to_owned(),
        });
    }
    let mut layouts = built_in;
    layouts.overlay(found);
    Ok(layouts)
}

fn merge(known: &StructLayout, types: &TypeLayout, store: &TypeStore) -> StructLayout {
    let members = known.members.iter().filter_map(|member| {
        // A member of an anonymous union, as `rq.curr` since 6.18, is found by the same name.
        let (offset_bytes, size_bytes) = place_in_types(types, store, &member.name)?;
        let mut member = Member {
            offset_bytes,
            size_bytes,
            ..member.clone()
        };
        // Without CONFIG_CPUMASK_OFFSTACK a cpumask_var_t is the mask itself.
        if member.is_cpu_bits && size_bytes != POINTER_BYTES {
            member.storage = Storage::Inline;
        }
        Some(member)
    });
    StructLayout {
        name: known.name.clone(),
        size_bytes: types.size,
        // BTF lacks the alignment that the source demands; the built-in table has it.
        align_bytes: types.alignment.unwrap_or(known.align_bytes),
        members: members.collect(),
    }
}
