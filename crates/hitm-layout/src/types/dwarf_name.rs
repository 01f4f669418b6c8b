//! The name of a type as its language writes it, composed from DWARF entries.

use gimli::DwTag;

use super::name::{Declarator, TypeName};
use super::read::element_count;
use super::scope::Scopes;
use crate::dwarf::{Children, Die, DieRef, View};

/// Most pointers, qualifiers, dimensions and functions that a name is composed from.
const MAX_HOPS: usize = 32;

/// Deepest nesting of functions in the parameters of functions.
const MAX_NESTING: usize = 4;

/// Parameters that one name is composed from, those of functions in parameters included. Beyond, the
/// list of parameters is `…`.
const MAX_PARAMETERS: usize = 64;

/// The name of a type as its language writes it, composed along pointers and qualifiers.
pub(crate) fn name_at(view: &View<'_>, start: DieRef) -> TypeName {
    compose(view, start, 0, &mut Composing::new(None))
}

/// The same as source needs it: with namespaces, dimensions, and classes of pointers to members.
pub(super) fn source_name_at(view: &View<'_>, start: DieRef, scopes: &mut Scopes) -> TypeName {
    compose(view, start, 0, &mut Composing::new(Some(scopes)))
}

struct Composing<'c> {
    /// Parameters that may still be looked at.
    left: usize,
    /// Namespaces, where names are to have them.
    scopes: Option<&'c mut Scopes>,
}

impl<'c> Composing<'c> {
    const fn new(scopes: Option<&'c mut Scopes>) -> Composing<'c> {
        let left = MAX_PARAMETERS;
        Composing { left, scopes }
    }
}

fn compose(
    view: &View<'_>,
    start: DieRef,
    nesting: usize,
    composing: &mut Composing<'_>,
) -> TypeName {
    let mut declarator = Declarator::default();
    let mut front = String::new();
    let mut next = Some(start);
    for _ in 0..MAX_HOPS {
        let Some(at) = next else {
            return declarator.finish(&format!("{front}void"));
        };
        let Some((unit, die)) = view.fetch(at) else {
            return declarator.finish(&format!("{front}(damaged)"));
        };
        let own = view.name(&unit, &die);
        // clang declares what a type unit defines without a name.
        if let (None, Some(signature)) = (&own, die.get(gimli::DW_AT_signature)) {
            next = view.target(at.unit, signature);
            continue;
        }
        match die.tag {
            gimli::DW_TAG_pointer_type if own.is_none() => declarator.pointer("*"),
            gimli::DW_TAG_reference_type => declarator.pointer("&"),
            gimli::DW_TAG_rvalue_reference_type => declarator.pointer("&&"),
            gimli::DW_TAG_array_type if composing.scopes.is_some() => {
                declarator.array(&dimensions(view, &die));
            }
            gimli::DW_TAG_array_type => declarator.array("[]"),
            gimli::DW_TAG_subroutine_type => {
                let list = parameters(view, &die, nesting, composing);
                declarator.function(&list.unwrap_or_else(|| "…".to_owned()));
            }
            gimli::DW_TAG_ptr_to_member_type => {
                let class = class_of(view, &die, composing);
                declarator.pointer(&format!("{class}::*"));
            }
            tag => match (qualifier(tag), own) {
                (Some(word), _) if is_of_pointer(view, &die) => declarator.qualifier(word),
                (Some(word), _) => {
                    front.push_str(word);
                    front.push(' ');
                }
                (None, Some(own)) => {
                    let scopes = composing.scopes.as_mut();
                    let scope = scopes.map_or("", |scopes| scopes.before(view, die.at));
                    let keyword = keyword(view, &die);
                    return declarator.finish(&format!("{front}{keyword}{scope}{own}"));
                }
                (None, None) => {
                    let word = keyword(view, &die);
                    return declarator.finish(&format!("{front}{word}(anonymous)"));
                }
            },
        }
        next = view.type_of(&die);
    }
    declarator.finish(&format!("{front}(…)"))
}

/// The class of a pointer to member, where source needs it.
fn class_of<'a>(view: &View<'a>, die: &Die<'a>, composing: &mut Composing<'_>) -> String {
    let Some(scopes) = composing.scopes.as_mut() else {
        return String::new();
    };
    let class = die.get(gimli::DW_AT_containing_type);
    let class = class.and_then(|value| view.target(die.at.unit, value));
    class.map_or_else(String::new, |class| {
        source_name_at(view, class, scopes).text
    })
}

/// The dimensions of an array, each in brackets.
fn dimensions(view: &View<'_>, array: &Die<'_>) -> String {
    let read = || {
        let unit = view.unit(array.at.unit).ok()?;
        let mut children = Children::of(view, &unit, array.at).ok()?;
        let mut text = String::new();
        while let Some(step) = children.next().ok()? {
            if step.tag == gimli::DW_TAG_subrange_type {
                let count = element_count(&children.die(step).ok()?);
                text += &count.map_or_else(|| "[]".to_owned(), |count| format!("[{count}]"));
            }
        }
        (!text.is_empty()).then_some(text)
    };
    read().unwrap_or_else(|| "[]".to_owned())
}

/// Returns true if a qualifier stands behind a `*`: what it qualifies, behind other qualifiers, is
/// a pointer.
fn is_of_pointer<'a>(view: &View<'a>, die: &Die<'a>) -> bool {
    let mut next = view.type_of(die);
    for _ in 0..MAX_HOPS {
        let Some((_, die)) = next.and_then(|at| view.fetch(at)) else {
            return false;
        };
        if qualifier(die.tag).is_none() {
            return die.tag == gimli::DW_TAG_pointer_type && die.get(gimli::DW_AT_name).is_none();
        }
        next = view.type_of(&die);
    }
    false
}

/// The parameters of a function, or nothing when they would make the name too long.
fn parameters(
    view: &View<'_>,
    function: &Die<'_>,
    nesting: usize,
    composing: &mut Composing<'_>,
) -> Option<String> {
    if nesting >= MAX_NESTING {
        return None;
    }
    let unit = view.unit(function.at.unit).ok()?;
    let mut children = Children::of(view, &unit, function.at).ok()?;
    let mut list = String::new();
    while let Some(step) = children.next().ok()? {
        let name = match step.tag {
            gimli::DW_TAG_formal_parameter => {
                composing.left = composing.left.checked_sub(1)?;
                let die = children.die(step).ok()?;
                // The object of a member function is no parameter in source.
                if composing.scopes.is_some() && die.flag(gimli::DW_AT_artificial) {
                    continue;
                }
                compose(view, view.type_of(&die)?, nesting + 1, composing).text
            }
            gimli::DW_TAG_unspecified_parameters => "...".to_owned(),
            _ => continue,
        };
        if !list.is_empty() {
            list.push_str(", ");
        }
        list.push_str(&name);
    }
    let is_void = list.is_empty() && function.flag(gimli::DW_AT_prototyped);
    Some(if is_void { "void".to_owned() } else { list })
}

/// Returns true if an entry only gives another name or a qualifier to a type.
pub(crate) fn is_alias(tag: DwTag) -> bool {
    tag == gimli::DW_TAG_typedef || tag == gimli::DW_TAG_template_alias || qualifier(tag).is_some()
}

/// The word for a qualifier.
fn qualifier(tag: DwTag) -> Option<&'static str> {
    match tag {
        gimli::DW_TAG_const_type => Some("const"),
        gimli::DW_TAG_volatile_type => Some("volatile"),
        gimli::DW_TAG_atomic_type => Some("_Atomic"),
        gimli::DW_TAG_restrict_type => Some("restrict"),
        _ => None,
    }
}

pub(super) fn is_rust(view: &View<'_>, unit: u32) -> bool {
    view.file.root(unit).language == gimli::DW_LANG_Rust.0
}

/// C++, and languages that are not known to keep the bytes of members apart.
pub(super) fn is_cpp(view: &View<'_>, unit: u32) -> bool {
    let language = view.file.root(unit).language;
    language == 0 || !(is_c(view, unit) || is_rust(view, unit))
}

fn is_c(view: &View<'_>, unit: u32) -> bool {
    matches!(
        gimli::DwLang(view.file.root(unit).language),
        gimli::DW_LANG_C
            | gimli::DW_LANG_C89
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_C17
            // dwz's shared units name no language; what is shared most is C.
            | gimli::DwLang(0)
    )
}

/// `struct `, `union ` or `enum ` where the language wants it, and before what has no name.
fn keyword(view: &View<'_>, die: &Die<'_>) -> &'static str {
    if die.get(gimli::DW_AT_name).is_some() && !is_c(view, die.at.unit) {
        return "";
    }
    match die.tag {
        gimli::DW_TAG_structure_type => "struct ",
        gimli::DW_TAG_class_type => "class ",
        gimli::DW_TAG_union_type => "union ",
        gimli::DW_TAG_enumeration_type => "enum ",
        _ => "",
    }
}
