//! Declarations of the members of a structure, from its types.

use super::EmitError;
use super::names::{check_identifier, check_type};
use super::rust_types;
use crate::advise::{Subject, SubjectMember};
use crate::layout_file::FileMember;
use crate::types::{Member, MemberKind, SourceNames, StructLayout, TypeId, TypeKind, TypeStore};

/// Types of a file and their names in source.
#[derive(Debug, Clone, Copy)]
pub struct Types<'t> {
    /// All types.
    pub store: &'t TypeStore,
    /// Names of the member types.
    pub names: &'t SourceNames,
}

/// The declarations of a subject's members, without semicolons, as C writes them. Each is called as
/// the subject calls it, which is where dots have become underscores. Fails when one has a name
/// that source cannot have.
pub fn declarations(
    subject: &Subject,
    renamed: &Subject,
    layout: &StructLayout,
    types: Types<'_>,
) -> Result<Vec<String>, EmitError> {
    let members = subject.members.iter().zip(&renamed.members);
    members
        .map(|(member, renamed)| {
            let found = member_at(layout, types.store, &member.file);
            let name = match renamed.file.name.starts_with('(') {
                true => "",
                false => renamed.file.name.as_str(),
            };
            Ok(match found {
                Some(found) if found.kind == MemberKind::BitField => {
                    let text = declare(types, found.type_id, name, 1)?;
                    format!("{text} : {}", found.bit_size)
                }
                Some(found) => declare(types, found.type_id, name, 1)?,
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
    types: Types<'_>,
) -> Result<Vec<String>, EmitError> {
    let members = subject.members.iter();
    let inside = types.names.inside.as_deref();
    let own_crate = inside.and_then(|path| path.split_once("::"));
    let type_name = |member: &SubjectMember| {
        let Some(found) = member_at(layout, types.store, &member.file) else {
            return Ok(format!("[u8; {}]", member.file.size_bytes));
        };
        let text = rust_type(types, found.type_id);
        let text = rust_types::in_source(&text, own_crate.map(|path| path.0));
        check_type(&text)?;
        Ok(text)
    };
    members.map(type_name).collect()
}

/// A type of Rust with its path; its arrays are of no name.
fn rust_type(types: Types<'_>, id: TypeId) -> String {
    let found = types.store.get(id);
    match &found.kind {
        TypeKind::Array { element, count } => {
            format!("[{}; {}]", rust_type(types, *element), count.unwrap_or(0))
        }
        _ => types
            .names
            .declare(id, "")
            .unwrap_or_else(|| found.name.to_string()),
    }
}

/// The member that a subject has as `file`, by the name that it has there: `rt.highest_prio`,
/// `rt.(anonymous at 1048)`, where the number counts from the start of the subject. Members of
/// anonymous structures are the structure's own.
pub fn member_at<'t>(
    layout: &'t StructLayout,
    store: &'t TypeStore,
    file: &FileMember,
) -> Option<&'t Member> {
    member_behind(layout, store, 0, &file.name, file.size_bytes)
}

/// The same of a path and the size of its member in a structure that begins `base` bytes behind the start
/// of the subject.
fn member_behind<'t>(
    layout: &'t StructLayout,
    store: &'t TypeStore,
    base: u64,
    path: &str,
    size: u64,
) -> Option<&'t Member> {
    let nameless = path.strip_prefix("(anonymous at ");
    let offset = match nameless {
        Some(place) => Some(place.strip_suffix(')')?.parse::<u64>().ok()?),
        None => None,
    };
    let (step, rest) = match path.split_once('.') {
        Some((step, rest)) => (step, Some(rest)),
        None => (path, None),
    };
    let is_it = |member: &&Member| match (&member.name, offset) {
        (Some(name), None) => **name == *step,
        // An opened structure may begin where a union inside of it does.
        (None, Some(offset)) => {
            let (start, end) = (base + member.byte_offset(), base + member.byte_end());
            start == offset && end - start == size
        }
        _ => false,
    };
    let Some(member) = layout.members.iter().find(is_it) else {
        let mut nameless = layout.members.iter().filter(|member| member.name.is_none());
        return nameless.find_map(|member| {
            let start = base + member.byte_offset();
            member_behind(store.layout(member.type_id)?, store, start, path, size)
        });
    };
    match rest {
        None => Some(member),
        Some(rest) => {
            let start = base + member.byte_offset();
            member_behind(store.layout(member.type_id)?, store, start, rest, size)
        }
    }
}

/// Declares `name`; what has no name of its own to be declared by is written in full.
fn declare(types: Types<'_>, id: TypeId, name: &str, indent: usize) -> Result<String, EmitError> {
    let found = types.store.get(id);
    match &found.kind {
        TypeKind::Array { element, count } if is_anonymous(types.store, *element) => {
            let count = count.map_or_else(String::new, |count| count.to_string());
            declare(types, *element, &format!("{name}[{count}]"), indent)
        }
        TypeKind::Aggregate(layout) if layout.name.is_none() => {
            let tabs = "\t".repeat(indent);
            let mut out = format!("{} {{\n", layout.kind.keyword());
            for member in &layout.members {
                let own = member.name.as_deref().unwrap_or("");
                if !own.is_empty() {
                    check_identifier(own)?;
                }
                let text = declare(types, member.type_id, own, indent + 1)?;
                let bits = match member.kind {
                    MemberKind::BitField => format!(" : {}", member.bit_size),
                    _ => String::new(),
                };
                out += &format!("{tabs}\t{text}{bits};\n");
            }
            Ok(format!("{out}{tabs}}} {name}").trim_end().to_owned())
        }
        _ => {
            let text = |name: &str| {
                let of_source = types.names.declare(id, name);
                of_source.unwrap_or_else(|| found.declare(name))
            };
            check_type(&text(""))?;
            Ok(text(name))
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
