//! Structures inside the one that is asked about. What is fought over may lie in one of them, and no layout of the
//! outer structure ends that.

use std::collections::BTreeMap;

use hitm_layout::MemberKind;
use hitm_layout::profile::Counts;
use hitm_recording::is_sync_type;

use super::SessionError;
use super::accesses::{Accesses, Read};
use super::inputs::{Asked, Inputs, Structure, TypesFiles};

/// The most structures that are looked into: those with most accesses.
const INNER_MAX: usize = 2;

/// A structure of which a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inner {
    /// The member.
    pub(super) member: String,
    /// Its type.
    pub(super) type_name: String,
}

/// Accesses to a structure, and to structures inside it.
#[derive(Debug)]
pub(super) struct WithInner {
    pub(super) read: Read,
    pub(super) inner: Vec<(Inputs, Read)>,
}

/// Answers questions, each with those about structures inside. `progress` gets the bytes of a recording read so far
/// and in all.
pub(super) fn read_with_inner(
    accesses: &mut Accesses,
    questions: &[Inputs],
    files: &mut TypesFiles,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Result<WithInner, SessionError>>, SessionError> {
    let asked = questions.iter();
    let asked = asked.map(|one| Asked::new(one.clone(), files)).collect();
    let mut answers = Vec::new();
    for (read, inputs) in accesses.answer(asked, progress)?.into_iter().zip(questions) {
        answers.push(match read {
            Ok(read) => Ok(WithInner {
                inner: read_inner(accesses, inputs, &read, files, progress)?,
                read,
            }),
            Err(error) => Err(error),
        });
    }
    Ok(answers)
}

/// Answers the questions about structures inside one. One that the recording cannot tell by its type is left out.
fn read_inner(
    accesses: &mut Accesses,
    inputs: &Inputs,
    read: &Read,
    files: &mut TypesFiles,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<(Inputs, Read)>, SessionError> {
    // A site or an address says where the outer structure is.
    if inputs.at.is_some() {
        return Ok(Vec::new());
    }
    let found = inner(read);
    let questions: Vec<Inputs> = found.iter().map(|one| inputs.of_inner(one)).collect();
    let asked = questions.iter();
    let asked = asked.map(|one| Asked::new(one.clone(), files)).collect();
    let reads = accesses.answer(asked, progress)?.into_iter();
    let mut all = Vec::new();
    for ((question, of), read) in questions.into_iter().zip(found).zip(reads) {
        let Ok(mut read) = read else { continue };
        let note = format!(
            "no layout of {} is better while its member {} is as it is: this is about {}",
            inputs.type_name, of.member, of.type_name
        );
        read.notes.insert(0, note);
        all.push((question, read));
    }
    Ok(all)
}

/// The members that are structures in which one member is written and another one used, too. What a lock or a count
/// consists of stays together.
fn inner(read: &Read) -> Vec<Inner> {
    let Structure::Types(file, layout) = &read.structure else {
        return Vec::new();
    };
    let mut file = file.borrow_mut();
    let types = file.types();
    let mut found: Vec<(u64, Inner)> = Vec::new();
    for member in &layout.members {
        let (Some(name), Some(inner)) = (&member.name, types.layout(member.type_id)) else {
            continue;
        };
        let Some(type_name) = inner.name.as_deref().filter(|name| !name.is_empty()) else {
            continue;
        };
        let is_structure = member.kind == MemberKind::Field && inner.members.len() > 1;
        if !is_structure || is_sync_type(types, member.type_id) {
            continue;
        }
        let used = used_in(read, name);
        let is_written = used.values().any(|counts| counts.stores + counts.rmws > 0);
        let is_known = found.iter().any(|(_, known)| known.type_name == type_name);
        if used.len() > 1 && is_written && !is_known {
            let accesses = used.values().map(|counts| counts.total()).sum();
            let one = Inner {
                member: (**name).to_owned(),
                type_name: type_name.to_owned(),
            };
            found.push((accesses, one));
        }
    }
    found.sort_by_key(|(accesses, _)| std::cmp::Reverse(*accesses));
    found.truncate(INNER_MAX);
    found.into_iter().map(|(_, one)| one).collect()
}

/// Accesses to the members of a member.
fn used_in<'r>(read: &'r Read, member: &str) -> BTreeMap<&'r str, Counts> {
    let mut used: BTreeMap<&str, Counts> = BTreeMap::new();
    for (key, counts) in read.profile.rows() {
        let rest = key.member.strip_prefix(member);
        if let Some(path) = rest.and_then(|rest| rest.strip_prefix('.')) {
            let first = path.split(['.', '[']).next().unwrap_or(path);
            *used.entry(first).or_default() += counts;
        }
    }
    used
}
