//! Rules between the members of a structure and between structures.

use std::collections::{BTreeMap, BTreeSet};

use super::parse::{Reader, Scope};
use super::{FileMember, FileStruct, LayoutFile, LayoutFileError, Storage};

/// A structure's table, and those of its members.
pub(super) struct StructScopes<'a, 'i> {
    pub(super) own: Scope<'a, 'i>,
    pub(super) members: Vec<Scope<'a, 'i>>,
}

/// A broken rule, without its place.
#[derive(Debug)]
pub(super) struct Fault {
    /// The key of a member that is wrong.
    pub(super) key: &'static str,
    pub(super) found: String,
    pub(super) expected: String,
}

impl Fault {
    fn new(key: &'static str, found: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault {
            key,
            found: found.into(),
            expected: expected.into(),
        }
    }
}

/// Checks a file whose members still stand in the order of `scopes`.
pub(super) fn check_file(
    file: &LayoutFile,
    scopes: &[StructScopes<'_, '_>],
    reader: &Reader<'_>,
) -> Result<(), LayoutFileError> {
    let mut by_name = BTreeMap::new();
    for (read, scopes) in file.structs.iter().zip(scopes) {
        if by_name.insert(read.name.as_str(), read).is_some() {
            let found = format!("a second structure {:?}", read.name);
            let expected = "each name once";
            return Err(reader.error(scopes.own.span_of("name"), "struct.name", found, expected));
        }
        check_members(read, scopes, reader)?;
    }
    for (read, scopes) in file.structs.iter().zip(scopes) {
        for (member, scope) in read.members.iter().zip(&scopes.members) {
            let nested = member
                .type_name
                .as_deref()
                .and_then(|name| by_name.get(name));
            let Some(nested) = nested else { continue };
            check_nested(read, member, nested).map_err(|fault| place(fault, scope, reader))?;
        }
    }
    if let Some((name, way)) = find_cycle(&by_name) {
        let at = file.structs.iter().position(|read| read.name == name);
        let span = at.map_or(0..0, |at| scopes[at].own.span_of("name"));
        return Err(reader.error(span, name, way, "a structure that does not contain itself"));
    }
    Ok(())
}

fn check_members(
    read: &FileStruct,
    scopes: &StructScopes<'_, '_>,
    reader: &Reader<'_>,
) -> Result<(), LayoutFileError> {
    let mut by_name = BTreeSet::new();
    for (member, scope) in read.members.iter().zip(&scopes.members) {
        if !by_name.insert(member.name.as_str()) {
            let key = format!("{}.members.name", read.name);
            let found = format!("a second member {:?}", member.name);
            let span = scope.span_of("name");
            return Err(reader.error(span, key, found, "each name once in a structure"));
        }
        check_member(read, member).map_err(|fault| place(fault, scope, reader))?;
    }
    let mut order: Vec<usize> = (0..read.members.len()).collect();
    order.sort_by_key(|index| (read.members[*index].bit_span(), *index));
    // Members without bytes (flexible arrays) lie between others and overlap nothing.
    order.retain(|index| read.members[*index].size_bytes > 0);
    for pair in order.windows(2) {
        let (before, after) = (&read.members[pair[0]], &read.members[pair[1]]);
        if before.bit_span().1 > after.bit_span().0 {
            let found = format!("{}, inside {:?}", span_text(after), before.name);
            let expected = format!(
                "members that do not overlap: {:?} has {}",
                before.name,
                span_text(before)
            );
            let fault = Fault::new("offset_bytes", found, expected);
            return Err(place(fault, &scopes.members[pair[1]], reader));
        }
    }
    if read
        .align_bytes
        .is_some_and(|align| align > MAX_ALIGN_BYTES)
    {
        let expected = format!("at most {MAX_ALIGN_BYTES}");
        let fault = Fault::new("align_bytes", read.align().to_string(), expected);
        return Err(place(fault, &scopes.own, reader));
    }
    Ok(())
}

/// A page of 1 MiB: no allocator keeps more.
const MAX_ALIGN_BYTES: u64 = 1 << 20;

/// Checks the rules for one member alone.
fn check_member(read: &FileStruct, member: &FileMember) -> Result<(), Fault> {
    let end = member.offset_bytes + member.size_bytes;
    if end > read.size_bytes {
        let found = format!("{}, which ends at byte {end}", member.size_bytes);
        let expected = format!("an end within the structure's {} bytes", read.size_bytes);
        return Err(Fault::new("size_bytes", found, expected));
    }
    if let Some(bits) = member.bits
        && bits.offset + bits.size > member.size_bytes * 8
    {
        let found = format!("bits {} to {}", bits.offset, bits.offset + bits.size);
        let expected = format!(
            "bits within the {} bytes of the storage unit",
            member.size_bytes
        );
        return Err(Fault::new("bit_size", found, expected));
    }
    if let Some(array) = member.array
        && array.count * array.stride_bytes != member.size_bytes
    {
        let found = format!("{} x {} bytes", array.count, array.stride_bytes);
        let expected = format!("count x stride_bytes = size_bytes = {}", member.size_bytes);
        return Err(Fault::new("stride_bytes", found, expected));
    }
    if let Storage::Inline {
        stride_bytes: Some(stride),
    } = member.storage
        && (member.size_bytes == 0 || !member.size_bytes.is_multiple_of(stride))
    {
        let found = stride.to_string();
        let expected = format!("a divisor of size_bytes = {}", member.size_bytes);
        return Err(Fault::new("stride_bytes", found, expected));
    }
    Ok(())
}

/// Checks the rules between a member and the structure that it names as its type.
pub(super) fn check_nested(
    outer: &FileStruct,
    member: &FileMember,
    nested: &FileStruct,
) -> Result<(), Fault> {
    let size = nested.size_bytes;
    let needs = format!("the {size} bytes of {}", nested.name);
    let too_few = |key, found: u64| {
        let expected = format!("at least {needs}");
        Err(Fault::new(key, found.to_string(), expected))
    };
    match (member.storage, member.array) {
        (Storage::Pointer { element_bytes, .. }, _) => {
            let few = element_bytes.filter(|bytes| *bytes < size);
            return few.map_or(Ok(()), |bytes| too_few("element_bytes", bytes));
        }
        (
            Storage::Inline {
                stride_bytes: Some(stride),
            },
            _,
        ) if stride < size => return too_few("stride_bytes", stride),
        (_, Some(array)) if array.stride_bytes < size => {
            return too_few("stride_bytes", array.stride_bytes);
        }
        (Storage::INLINE, None) if member.size_bytes != size => {
            return Err(Fault::new(
                "size_bytes",
                member.size_bytes.to_string(),
                needs,
            ));
        }
        _ => {}
    }
    let Some(align) = nested.align_bytes else {
        return Ok(());
    };
    let aligned_to = |what: u64| format!("{what}, and {} is aligned to {align}", nested.name);
    if !member.offset_bytes.is_multiple_of(align) {
        let expected = format!("a multiple of {align}");
        let found = aligned_to(member.offset_bytes);
        return Err(Fault::new("offset_bytes", found, expected));
    }
    if outer.align() < align {
        let found = format!(
            "a structure aligned to {} around one aligned to {align}",
            outer.align()
        );
        let expected = format!("align_bytes of {} to be at least {align}", outer.name);
        return Err(Fault::new("type", found, expected));
    }
    match member.array {
        Some(array) if !array.stride_bytes.is_multiple_of(align) => {
            let expected = format!("a multiple of {align}");
            let found = aligned_to(array.stride_bytes);
            Err(Fault::new("stride_bytes", found, expected))
        }
        _ => Ok(()),
    }
}

/// A structure that contains itself through nested ones, and the way: `a > b > a`. What is behind a
/// pointer is not nested.
pub(super) fn find_cycle<'a>(
    by_name: &BTreeMap<&'a str, &'a FileStruct>,
) -> Option<(&'a str, String)> {
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for start in by_name.keys() {
        // Depth first; each structure is gone through once, and the trail is where a cycle would be.
        let mut trail: Vec<(&'a str, usize)> = vec![(start, 0)];
        let mut on_trail: BTreeSet<&str> = BTreeSet::from([*start]);
        while let Some((current, next)) = trail.last_mut() {
            let member = by_name[current].members.get(*next);
            *next += 1;
            let Some(member) = member.filter(|_| !done.contains(current)) else {
                done.insert(current);
                on_trail.remove(current);
                trail.pop();
                continue;
            };
            let inner = member
                .type_name
                .as_deref()
                .and_then(|name| by_name.get_key_value(name));
            let is_inline = matches!(member.storage, Storage::Inline { .. });
            let Some((inner, _)) = inner.filter(|_| is_inline) else {
                continue;
            };
            if on_trail.contains(inner) {
                let from = trail
                    .iter()
                    .position(|(name, _)| name == inner)
                    .unwrap_or(0);
                let way = trail[from..].iter().map(|(name, _)| *name).chain([*inner]);
                return Some((inner, way.collect::<Vec<_>>().join(" > ")));
            }
            if !done.contains(inner) {
                on_trail.insert(inner);
                trail.push((inner, 0));
            }
        }
    }
    None
}

fn place(fault: Fault, scope: &Scope<'_, '_>, reader: &Reader<'_>) -> LayoutFileError {
    let (span, key) = (scope.span_of(fault.key), scope.key(fault.key));
    reader.error(span, key, fault.found, fault.expected)
}

/// The bytes, or bits, that a member owns.
fn span_text(member: &FileMember) -> String {
    let (start, end) = member.bit_span();
    match member.bits {
        Some(_) => format!("bits {start} to {end}"),
        None => format!("bytes {} to {}", start / 8, end / 8),
    }
}
