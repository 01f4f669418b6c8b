//! Members without a name that stay whole: unions, and structures that the source or the compiler
//! keeps together.

use hitm_layout::advise::{Subject, SubjectMember};
use hitm_layout::emit::{Nameless, member_at, names_in};
use hitm_layout::profile::Profile;
use hitm_layout::{AggregateKind, StructLayout, TypeStore};

use super::inputs::Structure;
use super::locate::locator;

/// Most names in a sentence.
const NAMES_MAX: usize = 12;

/// Says of each member without a name that stays whole, and of each that the profile touches, why it
/// does and who is in it.
pub(super) fn notes(
    structure: &Structure,
    subject: &Subject,
    profile: &Profile,
    randomized: &[Nameless],
) -> Vec<String> {
    let Structure::Types(file, layout) = structure else {
        return Vec::new();
    };
    let touched: Vec<(u64, u64)> = {
        let locate = locator(structure, subject);
        let members = profile.members().into_iter();
        members.filter_map(locate).collect()
    };
    let mut file = file.borrow_mut();
    let store = file.types();
    let members = subject.members.iter();
    let nameless = members.filter(|member| member.file.name.ends_with(')'));
    let notes = nameless.filter_map(|member| {
        let is_randomized = randomized.iter().any(|one| one.bytes == bytes(member));
        let is_touched = touched
            .iter()
            .any(|(offset, _)| bytes(member).contains(offset));
        let said = is_randomized || is_touched;
        said.then(|| note(member, is_randomized, layout, store))?
    });
    notes.collect()
}

fn bytes(member: &SubjectMember) -> std::ops::Range<u64> {
    let start = member.file.offset_bytes;
    start..start + member.file.size_bytes
}

fn note(
    member: &SubjectMember,
    is_randomized: bool,
    layout: &StructLayout,
    store: &TypeStore,
) -> Option<String> {
    let inner = store.layout(member_at(layout, store, &member.file)?.type_id)?;
    let why = match inner.kind {
        AggregateKind::Union => "an anonymous union",
        _ if is_randomized => "an anonymous structure marked __randomize_layout",
        _ => "an anonymous structure that is packed",
    };
    let names = names_in(inner, store);
    let (shown, others) = names.split_at(names.len().min(NAMES_MAX));
    let more = match others.len() {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    Some(format!(
        "the members of {why} at byte {} stay together: {}{more}",
        member.file.offset_bytes,
        shown.join(", ")
    ))
}
