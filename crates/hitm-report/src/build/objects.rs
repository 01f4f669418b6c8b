//! Objects in a line, the members of them that are used, and a test for objects that straddle
//! lines.

use hitm_base::LINE_SIZE;
use hitm_coherence::stats::byte_mask;

use crate::model::ObjectUse;
use crate::names::DataName;

/// Use of a place in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MemberUse {
    /// Its contended accesses.
    pub(crate) contended: u64,
    /// True if it is written at all.
    pub(crate) is_written: bool,
}

/// A named place in a line.
#[derive(Debug)]
struct Member {
    mask: u64,
    used: MemberUse,
    object: usize,
    name: String,
}

/// The names of everything that is accessed in one line.
#[derive(Debug, Default)]
pub(crate) struct LineNames {
    objects: Vec<ObjectUse>,
    members: Vec<Member>,
}

impl LineNames {
    /// Adds the name of the place at (offset, size). Places come by rising offset.
    pub(crate) fn add(&mut self, name: DataName, (offset, size): (u8, u8), used: MemberUse) {
        let known = self
            .objects
            .iter()
            .position(|object| object.addr == name.object_addr && object.name == name.object);
        let index = known.unwrap_or_else(|| {
            self.objects.push(ObjectUse {
                name: name.object.clone(),
                addr: name.object_addr,
                size_bytes: name.object_size,
                origin: name.origin.clone(),
                members: Vec::new(),
                straddles: false,
                is_array: false,
                element_size_bytes: None,
            });
            self.objects.len() - 1
        });
        let object = &mut self.objects[index];
        let (addr, size_bytes) = name.element.unwrap_or((name.object_addr, name.object_size));
        object.straddles |= straddles(addr, size_bytes);
        object.is_array |= name.element.is_some();
        object.element_size_bytes = name.element.map(|(_, size)| size);
        if !name.member.is_empty() && !object.members.contains(&name.member) {
            object.members.push(name.member.clone());
        }
        self.members.push(Member {
            mask: byte_mask(offset, size),
            used,
            object: index,
            name: name.object + &name.member,
        });
    }

    /// The objects, by address.
    pub(crate) fn into_objects(self) -> Vec<ObjectUse> {
        self.objects
    }

    /// The objects that `mask` touches in contention, by address.
    pub(crate) fn objects_in(&self, mask: u64) -> Vec<&ObjectUse> {
        let mut indices: Vec<usize> = self.contended_in(mask).map(|m| m.object).collect();
        indices.sort_unstable();
        indices.dedup();
        indices
            .into_iter()
            .map(|index| &self.objects[index])
            .collect()
    }

    /// The names of the places that `mask` touches in contention, by offset.
    pub(crate) fn members_in(&self, mask: u64) -> Vec<&str> {
        self.names(self.contended_in(mask))
    }

    /// The names of the places that `mask` touches and that are written.
    pub(crate) fn written_in(&self, mask: u64) -> Vec<&str> {
        let members = self.members.iter();
        self.names(members.filter(|member| member.mask & mask != 0 && member.used.is_written))
    }

    fn contended_in(&self, mask: u64) -> impl Iterator<Item = &Member> {
        let members = self.members.iter();
        members.filter(move |member| member.mask & mask != 0 && member.used.contended > 0)
    }

    fn names<'a>(&self, members: impl Iterator<Item = &'a Member>) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for member in members {
            if !names.contains(&member.name.as_str()) {
                names.push(&member.name);
            }
        }
        names
    }
}

/// True if an extent touches more lines than one of its size has to.
fn straddles(addr: u64, size_bytes: u64) -> bool {
    if size_bytes == 0 {
        return false;
    }
    let last = addr.saturating_add(size_bytes - 1);
    let touched = last / LINE_SIZE - addr / LINE_SIZE + 1;
    touched > size_bytes.div_ceil(LINE_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_straddles_when_it_touches_more_lines_than_it_needs() {
        assert!(!straddles(0, 48));
        assert!(straddles(48, 48));
        assert!(!straddles(16, 48));
        assert!(straddles(32, 64));
        assert!(!straddles(16, 200)); // Four lines, and 200 bytes need four.
        assert!(straddles(60, 200)); // Five lines.
        assert!(!straddles(48, 0));
        assert!(!straddles(u64::MAX, 1));
    }
}
