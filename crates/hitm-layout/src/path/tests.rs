use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::types::AggregateKind;

/// Builds types by hand.
struct Builder {
    store: TypeStore,
}

/// A member: its name (empty for none), its type, its offset in bits, and its size in bits if it is
/// a bit-field.
type MemberSpec<'a> = (&'a str, TypeId, u64, Option<u64>);

impl Builder {
    fn new() -> Builder {
        Builder {
            store: TypeStore::default(),
        }
    }

    fn base(&mut self, name: &str, size: u64) -> TypeId {
        self.store.add(name, Some(size), TypeKind::Base)
    }

    fn aggregate(&mut self, name: &str, size: u64, members: &[MemberSpec<'_>]) -> TypeId {
        let member = |(name, type_id, bit_offset, bits): &MemberSpec<'_>| {
            let part = self.store.get(*type_id);
            Member {
                name: (!name.is_empty()).then(|| Arc::from(*name)),
                type_id: *type_id,
                type_name: part.name.clone(),
                bit_offset: *bit_offset,
                bit_size: bits.unwrap_or(part.size.unwrap_or(0) * 8),
                alignment: None,
                decl: None,
                kind: bits.map_or(MemberKind::Field, |_| MemberKind::BitField),
            }
        };
        let members = members.iter().map(member).collect();
        let own_name = Some(Arc::from(name));
        let layout = StructLayout::new(own_name, AggregateKind::Struct, size, None, members);
        let kind = TypeKind::Aggregate(Arc::new(layout));
        self.store.add(name, Some(size), kind)
    }
}

/// One line per access: the bytes, and what they are called.
fn check(builder: &Builder, object: TypeId, size: u64, accesses: &[Range<u64>], names: Expect) {
    let name = |access: &Range<u64>| {
        let list = LeafList::find(&builder.store, object, size, access.clone(), false);
        let path = AccessPath::new("o", list, access.clone());
        format!("{access:?} {}\n", path.text)
    };
    names.assert_eq(&accesses.iter().map(name).collect::<String>());
}

#[test]
fn accesses_that_match_no_single_member() {
    let mut builder = Builder::new();
    let int = builder.base("int", 4);
    let pair = builder.aggregate("pair", 8, &[("x", int, 0, None), ("y", int, 32, None)]);
    let ints = builder.store.add_array(int, Some(8));
    let object = builder.aggregate(
        "object",
        64,
        &[
            ("p", pair, 0, None),
            ("q", pair, 96, None),
            ("cells", ints, 160, None),
        ],
    );
    check(
        &builder,
        object,
        64,
        &[
            0..4,
            0..8,
            4..16,
            2..3,
            6..7,
            9..10,
            0..20,
            20..24,
            20..36,
            20..52,
            52..60,
            60..99,
        ],
        expect![[r#"
            0..4 o.p.x
            0..8 o.p.{x,y}
            4..16 o.{p.y,q.x}
            2..3 o.p.x+2
            6..7 o.p.y+2
            9..10 o+9 (hole)
            0..20 o.{p.x,p.y,q.x,q.y}
            20..24 o.cells[0]
            20..36 o.cells{[0],[1],[2],[3]}
            20..52 o.cells
            52..60 o+52 (padding)
            60..99 o+60 (padding)
        "#]],
    );
}

#[test]
fn unions_bit_fields_and_wrappers() {
    let mut builder = Builder::new();
    let (int, long) = (builder.base("int", 4), builder.base("long", 8));
    let word = builder.aggregate("", 8, &[("i", int, 0, None), ("l", long, 0, None)]);
    let cell = builder.aggregate("UnsafeCell<long>", 8, &[("value", long, 0, None)]);
    let atomic = builder.aggregate("AtomicI64", 8, &[("v", cell, 0, None)]);
    let object = builder.aggregate(
        "object",
        24,
        &[
            ("", word, 0, None),
            ("hits", atomic, 64, None),
            ("a", int, 128, Some(3)),
            ("b", int, 131, Some(9)),
            ("c", int, 140, Some(4)),
        ],
    );
    check(
        &builder,
        object,
        24,
        &[
            0..4,
            0..8,
            6..8,
            8..16,
            16..17,
            17..18,
            16..20,
            18..20,
            20..24,
        ],
        expect![[r#"
            0..4 o.i
            0..8 o.l
            6..8 o.l+6
            8..16 o.hits
            16..17 o.{a,b}
            17..18 o.{b,c}
            16..20 o.{a,b,c}
            18..20 o+18 (padding)
            20..24 o+20 (padding)
        "#]],
    );
    let list = LeafList::find(&builder.store, object, 24, 8..16, true);
    assert_eq!(&*list.leaves[0].type_name, "AtomicI64");
}

#[test]
fn flexible_arrays_end_with_the_object_and_absurd_ones_cost_nothing() {
    let mut builder = Builder::new();
    let long = builder.base("long", 8);
    let tail = builder.store.add_array(long, None);
    let huge = builder.store.add_array(long, Some(1 << 50));
    let flexible = builder.aggregate(
        "flexible",
        8,
        &[("n", long, 0, None), ("t", tail, 64, None)],
    );
    let accesses = [8..16, 24..32, 32..40];
    let expected = expect![[r#"
        8..16 o.t[0]
        24..32 o.t[2]
        32..40 o+32
    "#]];
    check(&builder, flexible, 32, &accesses, expected);
    let far = 1 << 52;
    let list = LeafList::find(&builder.store, huge, 1 << 53, far..far + 8, true);
    assert_eq!(list.leaves[0].path, "[562949953421312]");
    let all = LeafList::find(&builder.store, huge, 1 << 53, 0..1 << 53, true);
    assert!(all.is_cut && all.leaves.len() == MAX_LEAVES);
}

/// A structure of structures, arrays and numbers, described by a few random numbers.
fn arbitrary_object(builder: &mut Builder, recipe: &[(u8, u8, u8)]) -> TypeId {
    let mut newest = builder.base("char", 1);
    for (index, (gap, count, kind)) in recipe.iter().enumerate() {
        let size = builder.store.get(newest).size.unwrap();
        newest = match kind % 3 {
            0 if size < 4096 => builder
                .store
                .add_array(newest, Some(u64::from(count % 5) + 1)),
            1 => {
                let int = builder.base("int", 4);
                let members = [
                    ("whole", newest, 0, None),
                    ("over", int, u64::from(count % 4) * 8, None),
                ];
                let end = size.max(u64::from(count % 4) + 4) + u64::from(gap % 8);
                builder.aggregate(&format!("u{index}"), end, &members)
            }
            _ => {
                let int = builder.base("int", 4);
                let second = size + u64::from(gap % 8);
                let members = [("part", newest, 0, None), ("next", int, second * 8, None)];
                let name = format!("s{index}");
                builder.aggregate(&name, second + 4 + u64::from(count % 8), &members)
            }
        };
    }
    newest
}

proptest! {
    #[test]
    fn every_byte_is_in_some_leaf(
        recipe in proptest::collection::vec(any::<(u8, u8, u8)>(), 0..10),
        at in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut builder = Builder::new();
        let object = arbitrary_object(&mut builder, &recipe);
        let size = builder.store.get(object).size.unwrap();
        let byte = at.index(size as usize) as u64;
        let list = LeafList::find(&builder.store, object, size, byte..byte + 1, whole);
        prop_assert!(!list.leaves.is_empty(), "byte {byte} of {size} has no name");
        for leaf in &list.leaves {
            prop_assert!(leaf.offset <= byte && byte < leaf.end());
            prop_assert!(leaf.end() <= size);
        }
    }
}
