//! Places of paths in a structure as it is, and as another layout has it.

use hitm_layout::advise::Subject;
use hitm_layout::layout_file::{FileMember, LayoutFile, LayoutTable};
use hitm_layout::structs::place_in_types;

use super::accesses::VALUE;
use super::error::SessionError;
use super::inputs::Structure;
use super::member_path::behind;

fn in_table(table: &LayoutTable, name: &str, path: &str) -> Option<(u64, u64)> {
    let place = table.place(name, path)?;
    // A member with one element per node lies behind a pointer, outside the structure.
    let is_inside = place.member.per.is_none();
    is_inside.then_some((place.offset_bytes, place.size_bytes))
}

/// Returns offset and size of a path.
pub(super) type Locator<'s> = Box<dyn Fn(&str) -> Option<(u64, u64)> + 's>;

/// Returns the size of the structure as the layout `file` has it, named `layout`, and a locator of
/// paths in it. `new_path` is the name that a path has there, none where the layout lacks it.
pub(super) fn replaced<'s>(
    structure: &'s Structure,
    subject: &'s Subject,
    file: &'s LayoutFile,
    layout: &str,
    new_path: &'s dyn Fn(&str) -> Option<String>,
) -> Result<(u64, Locator<'s>), SessionError> {
    if let Structure::Table(base) = structure {
        let table = base.clone().overlay(file)?;
        let size = table.get(&subject.name).map_or(0, |of| of.size_bytes);
        let locate = move |path: &str| in_table(&table, &subject.name, &new_path(path)?);
        return Ok((size, Box::new(locate)));
    }
    let replaced = file.get(&subject.name);
    let replaced = replaced.ok_or_else(|| SessionError::NotInLayout {
        layout: layout.to_owned(),
        type_name: subject.name.clone(),
    })?;
    let locate = locator(structure, subject);
    let moved = move |path: &str| {
        let (offset, size) = locate(path)?;
        let new = new_path(path)?;
        let members = replaced.members.iter();
        let named = members.filter_map(|member| Some((member, behind(&new, &member.name)?.rest)));
        if let Some((member, rest)) = named.max_by_key(|(member, _)| member.name.len()) {
            let (start, bytes) = locate(path.strip_suffix(rest)?)?;
            return Some((moved_within(member, start, bytes, offset)?, size));
        }
        // What has no name of its own, such as a union, is called by its place, or by one of its members.
        let old = &subject.members[subject.member_at(offset)?].file;
        let whole = |member: &FileMember| {
            let whole = match member.name == old.name {
                true => Some((old.offset_bytes, old.size_bytes)),
                false => locate(&member.name),
            };
            let holds =
                |(start, bytes): &(u64, u64)| *start <= offset && offset + size <= start + bytes;
            whole.filter(holds)
        };
        let mut members = replaced.members.iter();
        let found = members.find_map(|member| Some((member, whole(member)?)));
        let (member, (start, bytes)) = found?;
        Some((moved_within(member, start, bytes, offset)?, size))
    };
    Ok((replaced.size_bytes, Box::new(moved)))
}

/// The new offset of the byte at `offset` of a member that has `size` bytes from `start` on now, and that a
/// layout file places as `member`: elements of an array may lie further apart there.
fn moved_within(member: &FileMember, start: u64, size: u64, offset: u64) -> Option<u64> {
    let inside = offset.checked_sub(start)?;
    let to = member.offset_bytes + member.bits.map_or(0, |bits| bits.offset / 8);
    let element = member
        .array
        .filter(|array| array.count > 0 && member.size_bytes != size);
    let (number, stride, rest) = match element.map(|array| (array.stride_bytes, size / array.count))
    {
        Some((stride, of_now)) if of_now > 0 => (inside / of_now, stride, inside % of_now),
        _ => (0, 0, inside),
    };
    number
        .checked_mul(stride)?
        .checked_add(to)?
        .checked_add(rest)
}

/// Returns a locator of paths in the present structure.
pub(super) fn locator<'s>(structure: &'s Structure, subject: &'s Subject) -> Locator<'s> {
    match structure {
        Structure::Table(table) => Box::new(|path| in_table(table, &subject.name, path)),
        Structure::Types(file, layout) => {
            Box::new(|path| place_in_types(layout, file.borrow_mut().types(), path))
        }
        Structure::Scalars => Box::new(|path| (path == VALUE).then_some((0, subject.size_bytes))),
    }
}
