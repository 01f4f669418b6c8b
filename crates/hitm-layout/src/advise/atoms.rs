//! Parts that may move: members, or groups of members that stay together.

use super::subject::Subject;
use super::{AdviseError, Options};

/// Bytes of a line.
pub(super) const LINE: u64 = 64;

/// Members that move as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Atom {
    /// Indices into the subject's members and the bytes from the atom's start to each.
    pub(super) members: Vec<(usize, u64)>,
    pub(super) size: u64,
    pub(super) align: u64,
    /// Present offset of its first member.
    pub(super) old_offset: u64,
    /// Offset that it must have.
    pub(super) pinned: Option<u64>,
    /// A flexible array: it stays last.
    pub(super) is_tail: bool,
}

impl Atom {
    fn of(subject: &Subject, index: usize) -> Atom {
        let member = &subject.members[index];
        Atom {
            members: vec![(index, 0)],
            size: member.file.size_bytes,
            align: member.align,
            old_offset: member.file.offset_bytes,
            pinned: None,
            is_tail: member.file.size_bytes == 0,
        }
    }
}

/// The atoms of a subject, in the order of their offsets.
pub(super) fn atoms(subject: &Subject, options: &Options) -> Result<Vec<Atom>, AdviseError> {
    let mut atoms: Vec<Atom> = Vec::new();
    let mut was_bit_field = false;
    for (index, member) in subject.members.iter().enumerate() {
        // The compiler packs bit-fields that follow one another: the whole run stays as it is.
        let is_bit_field = member.file.bits.is_some();
        match atoms.last_mut() {
            Some(run) if is_bit_field && was_bit_field => {
                let at = member.file.offset_bytes.saturating_sub(run.old_offset);
                run.members.push((index, at));
                run.size = run.size.max(at + member.file.size_bytes);
                run.align = run.align.max(member.align);
            }
            _ => atoms.push(Atom::of(subject, index)),
        }
        was_bit_field = is_bit_field;
    }
    for names in &options.keep_together {
        join(&mut atoms, subject, names)?;
    }
    for atom in &mut atoms {
        if atom.old_offset < options.frozen_prefix {
            atom.pinned = Some(atom.old_offset);
        }
    }
    for (name, offset) in &options.pins {
        let at = find(&atoms, subject, name)?;
        let atom = &mut atoms[at];
        let inner = atom
            .members
            .iter()
            .find(|(index, _)| subject.members[*index].file.name == *name);
        let within = inner.map_or(0, |(_, within)| *within);
        let start = offset
            .checked_sub(within)
            .filter(|start| start.is_multiple_of(atom.align));
        atom.pinned = Some(start.ok_or_else(|| AdviseError::BadConstraint {
            what: format!("--pin {name}@{offset}"),
            why: format!("it needs a multiple of {}", atom.align),
        })?);
    }
    check_pins(&atoms, subject)?;
    Ok(atoms)
}

fn find(atoms: &[Atom], subject: &Subject, name: &str) -> Result<usize, AdviseError> {
    let has = |atom: &Atom| {
        let mut members = atom.members.iter();
        members.any(|(index, _)| subject.members[*index].file.name == name)
    };
    let found = atoms.iter().position(has);
    found.ok_or_else(|| subject.no_member(name))
}

/// Makes one atom of those that hold the named members.
fn join(atoms: &mut Vec<Atom>, subject: &Subject, names: &[String]) -> Result<(), AdviseError> {
    let mut taken: Vec<Atom> = Vec::new();
    for name in names {
        // A name that is already in a taken atom is together with it anyway.
        if find(&taken, subject, name).is_ok() {
            continue;
        }
        let at = find(atoms, subject, name)?;
        taken.push(atoms.remove(at));
    }
    taken.sort_by_key(|atom| (std::cmp::Reverse(atom.align), atom.old_offset));
    let Some(mut joined) = taken.first().cloned() else {
        return Ok(());
    };
    for atom in &taken[1..] {
        let at = joined.size.next_multiple_of(atom.align);
        let members = atom
            .members
            .iter()
            .map(|(index, within)| (*index, at + within));
        joined.members.extend(members);
        joined.size = at + atom.size;
        joined.old_offset = joined.old_offset.min(atom.old_offset);
        joined.is_tail |= atom.is_tail;
    }
    if joined.size > LINE {
        return Err(AdviseError::BadConstraint {
            what: format!("--keep-together {}", names.join(",")),
            why: format!("they take {} bytes, a line has {LINE}", joined.size),
        });
    }
    let at = atoms.partition_point(|atom| atom.old_offset < joined.old_offset);
    atoms.insert(at, joined);
    Ok(())
}

fn check_pins(atoms: &[Atom], subject: &Subject) -> Result<(), AdviseError> {
    let mut pinned: Vec<&Atom> = atoms.iter().filter(|atom| atom.pinned.is_some()).collect();
    pinned.sort_by_key(|atom| atom.pinned);
    for pair in pinned.windows(2) {
        let end = pair[0].pinned.unwrap_or(0).saturating_add(pair[0].size);
        if pair[1].pinned.is_some_and(|start| start < end) {
            let name = |atom: &Atom| subject.members[atom.members[0].0].file.name.clone();
            return Err(AdviseError::BadConstraint {
                what: format!("{} at byte {}", name(pair[1]), pair[1].pinned.unwrap_or(0)),
                why: format!("{} is there up to byte {end}", name(pair[0])),
            });
        }
    }
    Ok(())
}
