//! The name of a type in C's syntax, composed along pointers, arrays and functions.

use super::blob::Blob;
use super::record::{Kind, Record};
use crate::types::{Declarator, TypeName};

/// Most pointers, qualifiers, dimensions and functions that a name is composed from.
const MAX_HOPS: usize = 32;

/// Deepest nesting of functions in the parameters of functions.
const MAX_NESTING: usize = 4;

/// Parameters that one name is composed from, those of functions in parameters included. Beyond, the
/// list of parameters is `…`.
const MAX_PARAMETERS: usize = 64;

/// The name of the type with an id.
pub(super) fn name_of(blob: &Blob, id: u32) -> TypeName {
    let mut left = MAX_PARAMETERS;
    compose(blob, id, 0, &mut left)
}

fn compose(blob: &Blob, mut id: u32, nesting: usize, left: &mut usize) -> TypeName {
    let mut declarator = Declarator::default();
    let mut front = String::new();
    for _ in 0..MAX_HOPS {
        if id == 0 {
            return declarator.finish(&format!("{front}void"));
        }
        let Some(record) = blob.record(id) else {
            return declarator.finish(&format!("{front}(type {id})"));
        };
        match record.kind {
            Kind::Ptr => declarator.pointer("*"),
            Kind::Const | Kind::Volatile | Kind::Restrict => {
                let word = match record.kind {
                    Kind::Const => "const",
                    Kind::Volatile => "volatile",
                    _ => "restrict",
                };
                if is_of_pointer(blob, record.size_or_type) {
                    declarator.qualifier(word);
                } else if !front.contains(word) {
                    // A qualified array is one of qualified elements, which say it again.
                    front = format!("{front}{word} ");
                }
            }
            // A note for checkers (`__user`, `__rcu`): no part of the type.
            Kind::TypeTag => {}
            Kind::Array => {
                let (element, count) = record.array();
                declarator.array(&format!("[{count}]"));
                id = element;
                continue;
            }
            Kind::FuncProto => {
                let list = parameters(blob, &record, nesting, left);
                declarator.function(list.as_deref().unwrap_or("…"));
            }
            kind => {
                let keyword = match kind {
                    Kind::Fwd => record.fwd_keyword(),
                    other => other.keyword(),
                };
                let own = blob.name(record.name);
                let own = own.as_deref().unwrap_or("(anonymous)");
                return declarator.finish(&format!("{front}{keyword}{own}"));
            }
        }
        id = record.size_or_type;
    }
    declarator.finish(&format!("{front}(…)"))
}

/// Returns true if a qualifier stands behind a `*`: what it qualifies, behind other qualifiers, is
/// a pointer.
fn is_of_pointer(blob: &Blob, mut id: u32) -> bool {
    for _ in 0..MAX_HOPS {
        match blob.record(id) {
            Some(record) if record.kind == Kind::Ptr => return true,
            Some(record) if record.kind.is_alias() && record.kind != Kind::Typedef => {
                id = record.size_or_type;
            }
            _ => return false,
        }
    }
    false
}

/// The parameters of a function, or nothing when they would make the name too long.
fn parameters(
    blob: &Blob,
    function: &Record<'_>,
    nesting: usize,
    left: &mut usize,
) -> Option<String> {
    if nesting >= MAX_NESTING {
        return None;
    }
    let mut names = Vec::new();
    for index in 0..function.part_count {
        *left = left.checked_sub(1)?;
        let id = function.parameter(index);
        names.push(match id {
            0 if index + 1 == function.part_count => "...".to_owned(),
            _ => compose(blob, id, nesting + 1, left).text,
        });
    }
    Some(match names.is_empty() {
        true => "void".to_owned(),
        false => names.join(", "),
    })
}
