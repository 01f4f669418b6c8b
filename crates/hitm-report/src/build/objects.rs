//! Objects in a line, the members of them that are used, and a test for objects that straddle
//! lines.

use std::collections::{BTreeMap, BTreeSet};

use hitm_base::{LINE_SIZE, ThreadId};
use hitm_coherence::stats::byte_mask;
use hitm_recording::DataLabel;

use crate::model::ObjectUse;

/// A thread does not count with less than this part (one in ...) of a place's accesses: it may have initialised it.
const THREAD_SHARE_DIVISOR: u64 = 20;

/// Use of a place in a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MemberUse {
    /// Its contended accesses.
    pub(crate) contended: u64,
    /// Accesses to it by thread.
    pub(crate) accesses: BTreeMap<ThreadId, u64>,
    /// Writes to it by thread.
    pub(crate) writes: BTreeMap<ThreadId, u64>,
}

impl MemberUse {
    fn write_count(&self) -> u64 {
        self.writes.values().sum()
    }

    fn is_written(&self) -> bool {
        !self.writes.is_empty()
    }
}

/// The threads that have a good part of some accesses.
pub(super) fn main_threads(accesses: &BTreeMap<ThreadId, u64>) -> BTreeSet<ThreadId> {
    let all: u64 = accesses.values().sum();
    let is_main = |count: u64| count.saturating_mul(THREAD_SHARE_DIVISOR) >= all;
    let main = accesses.iter().filter(|(_, count)| is_main(**count));
    main.map(|(thread, _)| *thread).collect()
}

/// Places that the same threads write, with what nobody else uses.
#[derive(Debug)]
struct Group {
    writers: BTreeSet<ThreadId>,
    bytes: u64,
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
    /// Adds the name of a place. Places come by rising offset.
    pub(crate) fn add(&mut self, name: DataLabel, offset: u8, size: u8, used: MemberUse) {
        let known = self
            .objects
            .iter()
            .position(|object| object.address == name.object_addr && object.name == name.object);
        let index = known.unwrap_or_else(|| {
            self.objects.push(ObjectUse {
                name: name.object.clone(),
                address: name.object_addr,
                size_bytes: name.object_size,
                origin: name.origin.clone(),
                contended_count: 0,
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
            name: name.whole(),
        });
    }

    /// The objects, the one with most contended accesses first, then by address.
    pub(crate) fn into_objects(self) -> Vec<ObjectUse> {
        let mut objects = self.objects;
        for member in &self.members {
            objects[member.object].contended_count += member.used.contended;
        }
        objects.sort_by_key(|object| std::cmp::Reverse(object.contended_count));
        objects
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

    /// The names of all places that lie in `mask`.
    pub(crate) fn used_in(&self, mask: u64) -> Vec<&str> {
        let members = self.members.iter();
        self.names(members.filter(|member| member.mask & !mask == 0))
    }

    /// The names of the places that `mask` touches and that are written.
    pub(crate) fn written_in(&self, mask: u64) -> Vec<&str> {
        let members = self.members.iter();
        self.names(members.filter(|member| member.mask & mask != 0 && member.used.is_written()))
    }

    /// The bytes of an object by who writes them, each with those that nobody else uses; none if a thread writes
    /// those of several groups. `mask` has those that are written often.
    pub(crate) fn groups_of_writers(&self, object: &ObjectUse, mask: u64) -> Vec<u64> {
        let own = |member: &&Member| self.objects[member.object].address == object.address;
        let members = self.members.iter().filter(own);
        // A wider write of the same bytes, that set them up or copied them, is no other member.
        let is_large = |member: &Member| {
            let same = members
                .clone()
                .filter(|other| other.mask & member.mask != 0);
            let all: u64 = same.map(|other| other.used.write_count()).sum();
            member
                .used
                .write_count()
                .saturating_mul(THREAD_SHARE_DIVISOR)
                >= all
        };
        let is_hot = |member: &&Member| {
            member.mask & mask != 0 && member.used.is_written() && is_large(member)
        };
        let mut groups: Vec<Group> = Vec::new();
        for member in members.clone().filter(is_hot) {
            let writers = main_threads(&member.used.writes);
            match groups.iter_mut().find(|group| group.writers == writers) {
                Some(group) => group.bytes |= member.mask,
                None => groups.push(Group {
                    writers,
                    bytes: member.mask,
                }),
            }
        }
        let writer_count: usize = groups.iter().map(|group| group.writers.len()).sum();
        let writers: BTreeSet<ThreadId> = groups.iter().flat_map(|g| g.writers.clone()).collect();
        if writer_count != writers.len() {
            return Vec::new();
        }
        for member in members.clone().filter(|member| !is_hot(member)) {
            let users = main_threads(&member.used.accesses);
            let mut groups = groups.iter_mut();
            if let Some(group) = groups.find(|group| users.is_subset(&group.writers)) {
                group.bytes |= member.mask;
            }
        }
        groups.into_iter().map(|group| group.bytes).collect()
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

    /// A ring's two ends: each side has an index that the other polls, and a copy of the other's.
    #[test]
    fn members_are_grouped_by_who_writes_them() {
        let (writer, reader, starter) = (ThreadId(1), ThreadId(2), ThreadId(0));
        let used = |accesses: &[(ThreadId, u64)], writes: &[(ThreadId, u64)]| MemberUse {
            contended: 1,
            accesses: accesses.iter().copied().collect(),
            writes: writes.iter().copied().collect(),
        };
        let mut names = LineNames::default();
        let mut add = |member: &str, offset: u8, size: u8, used| {
            let name = DataLabel {
                object: "ring".to_owned(),
                object_size: 64,
                member: member.to_owned(),
                ..DataLabel::default()
            };
            names.add(name, offset, size, used);
        };
        // Who set a member up counts no more than what is only read by all.
        let polled = used(
            &[(writer, 100), (reader, 900)],
            &[(writer, 100), (starter, 1)],
        );
        add(".head", 0, 8, polled);
        add(".tail_seen", 8, 8, used(&[(writer, 500)], &[(writer, 5)]));
        add(
            ".tail",
            16,
            8,
            used(&[(writer, 9), (reader, 100)], &[(reader, 100)]),
        );
        add(".size", 24, 8, used(&[(writer, 100), (reader, 100)], &[]));
        // A wider write at the start is no member of its own.
        add("", 0, 24, used(&[(starter, 1)], &[(starter, 1)]));
        let object = names.objects[0].clone();
        let of = |first: u8, count: u8| byte_mask(first, count);
        assert_eq!(
            names.groups_of_writers(&object, of(0, 8) | of(16, 8)),
            [of(0, 16), of(16, 8)]
        );
        assert_eq!(names.used_in(of(16, 8)), ["ring.tail"]);
        let both = used(&[(writer, 9), (reader, 9)], &[(writer, 9), (reader, 9)]);
        let name = DataLabel {
            object: "ring".to_owned(),
            object_size: 64,
            member: ".count".to_owned(),
            ..DataLabel::default()
        };
        names.add(name, 32, 8, both);
        assert!(names.groups_of_writers(&object, u64::MAX).is_empty());
    }

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
