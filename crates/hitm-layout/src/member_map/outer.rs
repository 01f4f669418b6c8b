//! The layout of a structure in which another one has changed: what a compiler makes of it.
//!
//! Members stay in their order. From the first one on that takes other bytes, each begins as early as its
//! alignment allows.

use crate::{AggregateKind, Member, MemberKind, StructLayout, TypeStore};

use super::wanted::{Wanted, element_of};
use super::{ELEMENTS_MAX, MapError, MemberFault, MemberMap, SPANS_MAX, Sizes, Span};

impl MemberMap {
    /// The map of `compiled`, which is not wanted itself, if a wanted structure lies in it.
    pub fn around(
        types: &TypeStore,
        compiled: &StructLayout,
        wanted: Wanted<'_>,
    ) -> Result<Option<MemberMap>, MapError> {
        if compiled.kind == AggregateKind::Union || !holds_one(types, compiled, wanted) {
            return Ok(None);
        }
        let name = compiled.name.as_deref().unwrap_or("(anonymous)");
        let sizes = Sizes {
            before: compiled.size,
            after: compiled.size,
        };
        let mut map = MemberMap::empty(name, sizes, compiled.alignment.unwrap_or(1));
        let mut end = End::default();
        for member in &compiled.members {
            map.add_in_order(types, member, wanted, &mut end)?;
        }
        if end.new != end.old {
            map.sizes.after = end.new.next_multiple_of(map.align.max(1));
        }
        Ok(Some(map.sorted()))
    }

    fn add_in_order(
        &mut self,
        types: &TypeStore,
        member: &Member,
        wanted: Wanted<'_>,
        end: &mut End,
    ) -> Result<(), MapError> {
        let (from, size) = (
            member.byte_offset(),
            member.byte_end() - member.byte_offset(),
        );
        let inner = inner_map(types, member, wanted)?;
        let of_inner = inner.as_ref().map(|inner| &inner.map);
        let own_align = types.get(member.type_id).alignment;
        let align = own_align
            .max(member.alignment.unwrap_or(1))
            .max(of_inner.map_or(1, |map| map.align));
        let to = end.place(from, align);
        self.align = self.align.max(align);
        self.keeps_line_offset |= of_inner.is_some_and(|map| map.keeps_line_offset);
        let name = member.name.as_deref().unwrap_or_default();
        let Some(inner) = inner else {
            self.add_span(name, from, to, size);
            end.pass(from + size, to + size);
            return Ok(());
        };
        if inner.count > ELEMENTS_MAX
            || self.spans.len() + inner.map.spans.len() * inner.count as usize > SPANS_MAX
        {
            let fault = MemberFault::TooMany { count: inner.count };
            return Err(MapError::member(&self.type_name, name, fault));
        }
        let first = self.members.len();
        for of_inner in &inner.map.members {
            let path = match name.is_empty() {
                true => of_inner.name.clone(),
                false => format!("{name}.{}", of_inner.name),
            };
            self.name(&path, from + of_inner.from, to + of_inner.to);
        }
        for element in 0..inner.count {
            let Sizes {
                before: old,
                after: new,
            } = inner.map.sizes;
            let spans = inner.map.spans.iter().map(|span| Span {
                from: from + element * old + span.from,
                to: to + element * new + span.to,
                size: span.size,
                member: first + span.member,
            });
            self.spans.extend(spans);
        }
        end.pass(from + size, to + inner.map.sizes.after * inner.count);
        Ok(())
    }
}

/// The end of what is placed.
#[derive(Debug, Clone, Copy, Default)]
struct End {
    old: u64,
    new: u64,
}

impl End {
    /// The new place of a member that began at `from`.
    fn place(&self, from: u64, align: u64) -> u64 {
        if from < self.old {
            // Bit-fields share bytes.
            return self.new - (self.old - from);
        }
        let is_as_it_was = self.new == self.old && from.is_multiple_of(align.max(1));
        match is_as_it_was {
            true => from,
            false => self.new.next_multiple_of(align.max(1)),
        }
    }

    fn pass(&mut self, old: u64, new: u64) {
        if old > self.old {
            (self.old, self.new) = (old, new.max(self.new));
        }
    }
}

/// A member that is, or holds, a structure of the layouts; or an array of such.
struct Inner {
    map: MemberMap,
    count: u64,
}

fn inner_map(
    types: &TypeStore,
    member: &Member,
    wanted: Wanted<'_>,
) -> Result<Option<Inner>, MapError> {
    if member.kind == MemberKind::BitField {
        return Ok(None);
    }
    let (element, count) = element_of(types, member.type_id);
    let map = MemberMap::of_type(types, element, wanted)?;
    Ok(map.map(|map| Inner { map, count }))
}

/// Returns true if a member of `compiled`, or of a structure in it, is wanted.
fn holds_one(types: &TypeStore, compiled: &StructLayout, wanted: Wanted<'_>) -> bool {
    compiled.members.iter().any(|member| {
        let (element, _) = element_of(types, member.type_id);
        wanted.of_type(types, element).is_some()
            || types.layout(element).is_some_and(|inner| {
                inner.kind != AggregateKind::Union && holds_one(types, inner, wanted)
            })
    })
}

#[cfg(test)]
mod tests {
    use crate::BtfFile;
    use crate::layout_file::{FileMember, FileStruct, LayoutFile};
    use hitm_test::btf::Assembler;

    use super::*;

    fn layouts(name: &str, size_bytes: u64, members: &[(&str, u64, u64)]) -> Vec<LayoutFile> {
        let members = members.iter();
        vec![LayoutFile {
            name: "apart".to_owned(),
            description: "apart".to_owned(),
            source: "made up".to_owned(),
            structs: vec![FileStruct {
                name: name.to_owned(),
                size_bytes,
                align_bytes: Some(64),
                members: members
                    .map(|(name, offset, size)| {
                        FileMember::plain((*name).to_owned(), *offset, *size)
                    })
                    .collect(),
            }],
        }]
    }

    /// An object's head of which one member gets a line of its own: what follows the head moves down, and the object
    /// is aligned as its head is.
    #[test]
    fn what_holds_a_grown_structure_grows() {
        let mut btf = Assembler::new(false);
        let word = btf.int("long", 8);
        let head = btf.structure("head", 16, &[("owner", word, 0), ("shared", word, 64)]);
        let members = [("flags", word, 0), ("h", head, 64), ("held", word, 192)];
        btf.structure("lock_obj", 32, &members);
        btf.structure("other", 8, &[("flags", word, 0)]);
        let mut btf = BtfFile::parse(btf.finish().into(), None, "the program").unwrap();
        let layouts = layouts("head", 128, &[("owner", 0, 8), ("shared", 64, 8)]);
        let mut map = |name: &str| {
            let of = btf.type_by_name(name).unwrap();
            let wanted = Wanted {
                layouts: &layouts,
                known: &[],
            };
            MemberMap::of_type(btf.types(), of, wanted).unwrap()
        };
        let outer = map("lock_obj").expect("it holds a head");
        assert_eq!(
            (outer.sizes.before, outer.sizes.after, outer.align),
            (32, 256, 64)
        );
        let places = outer.members.iter();
        let places: Vec<_> = places
            .map(|member| (&*member.name, member.from, member.to))
            .collect();
        let expected = [
            ("flags", 0, 0),
            ("h.owner", 8, 64),
            ("h.shared", 16, 128),
            ("held", 24, 192),
        ];
        assert_eq!(places, expected);
        assert_eq!(outer.place(20), (132, 4, false));
        assert_eq!(map("other"), None);
    }
}
