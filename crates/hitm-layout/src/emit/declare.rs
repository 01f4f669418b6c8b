//! Declarations of the members of a structure, from its types.

use super::EmitError;
use super::names::{check_identifier, check_type};
use crate::advise::Subject;
use crate::types::{Member, MemberKind, StructLayout, TypeId, TypeKind, TypeStore};

/// The declarations of a subject's members, without semicolons, as C writes them. Each is called as
/// the subject calls it, which is where dots have become underscores. Fails when one has a name
/// that source cannot have.
pub fn declarations(
    (subject, renamed): (&Subject, &Subject),
    layout: &StructLayout,
    store: &TypeStore,
) -> Result<Vec<String>, EmitError> {
    let members = subject.members.iter().zip(&renamed.members);
    members
        .map(|(member, renamed)| {
            let found = member_at(layout, store, &member.file.name);
            let name = match renamed.file.name.starts_with('(') {
                true => "",
                false => renamed.file.name.as_str(),
            };
            Ok(match found {
                Some(found) if found.kind == MemberKind::BitField => {
                    let text = declare(store, found.type_id, name, 1)?;
                    format!("{text} : {}", found.bit_size)
                }
                Some(found) => declare(store, found.type_id, name, 1)?,
                None => format!("char {name}[{}]", member.file.size_bytes),
            })
        })
        .collect()
}

/// The types of a subject's members by their names, as Rust writes them. Fails when one has a name that
/// source cannot have.
pub fn type_names(
    subject: &Subject,
    layout: &StructLayout,
    store: &TypeStore,
) -> Result<Vec<String>, EmitError> {
    let members = subject.members.iter();
    members
        .map(|member| match member_at(layout, store, &member.file.name) {
            Some(found) => {
                check_type(&found.type_name)?;
                Ok(found.type_name.to_string())
            }
            None => Ok(format!("[u8; {}]", member.file.size_bytes)),
        })
        .collect()
}

/// The member that a subject calls `path`: `rt.highest_prio`, `rt.(anonymous at 1048)`, where the
/// number counts from the start of the subject.
pub(super) fn member_at<'t>(
    layout: &'t StructLayout,
    store: &'t TypeStore,
    path: &str,
) -> Option<&'t Member> {
    member_behind(layout, store, (0, path))
}

/// The same in a structure that begins `base` bytes behind the start of the subject.
fn member_behind<'t>(
    layout: &'t StructLayout,
    store: &'t TypeStore,
    (base, path): (u64, &str),
) -> Option<&'t Member> {
    if let Some(place) = path.strip_prefix("(anonymous at ") {
        let offset: u64 = place.strip_suffix(')')?.parse().ok()?;
        let mut members = layout.members.iter();
        let is_there = |member: &&Member| base + member.byte_offset() == offset;
        return members.find(|member| member.name.is_none() && is_there(member));
    }
    let (step, rest) = match path.split_once('.') {
        Some((step, rest)) => (step, Some(rest)),
        None => (path, None),
    };
    let mut members = layout.members.iter();
    let member = members.find(|member| member.name.as_deref() == Some(step))?;
    match rest {
        None => Some(member),
        Some(rest) => {
            let start = base + member.byte_offset();
            member_behind(store.layout(member.type_id)?, store, (start, rest))
        }
    }
}

/// Declares `name`; what has no name of its own to be declared by is written in full.
fn declare(store: &TypeStore, id: TypeId, name: &str, indent: usize) -> Result<String, EmitError> {
    let found = store.get(id);
    match &found.kind {
        TypeKind::Array { element, count } if is_anonymous(store, *element) => {
            let count = count.map_or_else(String::new, |count| count.to_string());
            declare(store, *element, &format!("{name}[{count}]"), indent)
        }
        TypeKind::Aggregate(layout) if layout.name.is_none() => {
            let tabs = "\t".repeat(indent);
            let mut out = format!("{} {{\n", layout.kind.keyword());
            for member in &layout.members {
                let own = member.name.as_deref().unwrap_or("");
                if !own.is_empty() {
                    check_identifier(own)?;
                }
                let text = declare(store, member.type_id, own, indent + 1)?;
                let bits = match member.kind {
                    MemberKind::BitField => format!(" : {}", member.bit_size),
                    _ => String::new(),
                };
                out += &format!("{tabs}\t{text}{bits};\n");
            }
            Ok(format!("{out}{tabs}}} {name}").trim_end().to_owned())
        }
        _ => {
            check_type(&found.name)?;
            Ok(found.declare(name))
        }
    }
}

/// Returns true if a type, or what it is an array of, is a structure or union without a name.
fn is_anonymous(store: &TypeStore, id: TypeId) -> bool {
    match &store.get(id).kind {
        TypeKind::Array { element, .. } => is_anonymous(store, *element),
        TypeKind::Aggregate(layout) => layout.name.is_none(),
        _ => false,
    }
}
