use std::collections::BTreeMap;

use hitm_base::{CpuId, Cycles};
use hitm_layout::advise::Demand;
use hitm_layout::profile::{Counts, CpuSet, Profile, RowKey};
use hitm_layout::structs::Part;

use super::matching::{automatic, candidates, rows};
use super::price::moved_bases;
use super::renames::Renames;
use super::worse::worse;
use super::*;

fn part(name: &str, offset: u64, size: u64) -> Part {
    Part {
        name: name.to_owned(),
        type_name: String::new(),
        bits: offset * 8..(offset + size) * 8,
    }
}

/// Two CPUs of two packages write a member each, and the members lie at these offsets.
fn weighed(offsets: [u64; 2]) -> Weighed {
    let mut profile = Profile::new("test", "made up", Cycles(1_000_000));
    for (member, cpu) in [("a", 0), ("b[3].x", 40)] {
        let key = RowKey {
            member: member.to_owned(),
            instance: 0,
            function: "f".to_owned(),
            comm: String::new(),
            cpus: CpuSet::one(CpuId(cpu)),
        };
        let counts = Counts {
            stores: 5_000,
            ..Counts::default()
        };
        profile.add(key, counts);
    }
    let (machine, _) = hitm_machine::resolve("broadwell-4s").expect("a preset");
    let prices = crate::EnginePrices::new(machine);
    let demand = Demand::new(&profile, &prices).expect("CPUs of the machine");
    let locate = |path: &str| Some((offsets[usize::from(path != "a")], 8));
    let weighed = demand.weigh_layout(192, &BTreeMap::new(), &locate);
    weighed.expect("both members are found")
}

/// `a` and `b` have quiet lines of their own, then share a loud one; `c` begins to straddle.
fn reviewed() -> TypeReview {
    let old = [part("a", 0, 8), part("b", 64, 8), part("c", 128, 8)];
    let new = [part("a", 0, 8), part("b", 8, 8), part("c", 60, 8)];
    let members = rows(&old, &new, &Renames::default()).into_iter();
    let members = members.map(|places| MemberReview {
        access_count: Some(1),
        places,
    });
    TypeReview {
        name: "of".to_owned(),
        memory: [128, 192].map(|size_bytes| Memory {
            size_bytes,
            ..Memory::default()
        }),
        members: members.collect(),
        costs: vec![MachineCost {
            machine: "m".to_owned(),
            cpu_count: 2,
            folded_cpu_count: None,
            replay: None,
            weighed: [weighed([0, 64]), weighed([0, 8])],
        }],
        coverage: None,
        unpriced: None,
        unmatched: Vec::new(),
        renames: Vec::new(),
        worse: Vec::new(),
    }
}

#[test]
fn quiet_lines_that_make_a_loud_one_are_worse() {
    let found = worse(&reviewed());
    let names: Vec<(WorseKind, &str)> = found
        .iter()
        .map(|one| (one.kind, one.name.as_str()))
        .collect();
    assert_eq!(
        names,
        [
            (WorseKind::Machine, "m"),
            (WorseKind::Line, "0"),
            (WorseKind::Member, "a"),
            (WorseKind::Member, "b"),
            (WorseKind::Memory, "of"),
            (WorseKind::Straddle, "c"),
        ]
    );
    assert!(found[..4].iter().all(|one| one.machines == ["m"]));
    // The line was two, each member was on one of them.
    assert_eq!(found[1].before, found[2].before + found[3].before);
    assert!(found[1].after > 10 * found[1].before);
}

#[test]
fn a_change_that_costs_less_is_not_worse() {
    let mut review = reviewed();
    review.costs[0].weighed.reverse();
    review.members.clear();
    review.memory.reverse();
    assert_eq!(worse(&review), []);
}

#[test]
fn elements_of_an_array_follow_each_other_at_their_new_size() {
    let bases = BTreeMap::from([(0, 1000), (1, 1016), (2, 1032), (3, 5000)]);
    let moved =
        |size, align| -> Vec<u64> { moved_bases(&bases, 16, size, align).into_values().collect() };
    assert_eq!(moved(16, 8), [1000, 1016, 1032, 5000]);
    assert_eq!(moved(24, 8), [1000, 1024, 1048, 5000]);
    assert_eq!(moved(64, 64), [1024, 1088, 1152, 5056]);
}

/// `a`, `b` and `c` of 8 bytes each, as these types.
fn of_types(names: [&str; 3], types: [&str; 3]) -> Vec<Part> {
    let parts = names.iter().zip(types).zip([0, 8, 16]);
    parts
        .map(|((name, type_name), offset)| Part {
            type_name: type_name.to_owned(),
            ..part(name, offset, 8)
        })
        .collect()
}

fn renamed(old: &[Part], new: &[Part]) -> Vec<(String, Option<String>)> {
    let found = automatic(old, new, &Renames::default()).into_iter();
    found.map(|rename| (rename.old, rename.new)).collect()
}

#[test]
fn a_member_with_another_name_alone_is_paired() {
    let long = ["long"; 3];
    let old = of_types(["a", "b", "c"], long);
    let new = of_types(["a", "x", "c"], long);
    assert_eq!(
        renamed(&old, &new),
        [("b".to_owned(), Some("x".to_owned()))]
    );
    // At an end as well.
    let first = of_types(["x", "b", "c"], long);
    assert_eq!(
        renamed(&old, &first),
        [("a".to_owned(), Some("x".to_owned()))]
    );
}

#[test]
fn doubtful_members_are_not_paired() {
    let long = ["long"; 3];
    let old = of_types(["a", "b", "c"], long);
    // Another type, another neighbour, another place.
    assert_eq!(
        renamed(&old, &of_types(["a", "x", "c"], ["long", "int", "long"])),
        []
    );
    assert_eq!(renamed(&old, &of_types(["a", "x", "y"], long)), []);
    let mut moved = of_types(["a", "x", "c"], long);
    moved[1].bits = 256..320;
    assert_eq!(renamed(&old, &moved), []);
    // Layout files name no types.
    let none = [""; 3];
    let (old, new) = (
        of_types(["a", "b", "c"], none),
        of_types(["a", "x", "c"], none),
    );
    assert_eq!(renamed(&old, &new), []);
    // Two members at one place, as in a union.
    let mut both = of_types(["a", "x", "c"], long);
    both.push(Part {
        type_name: "long".to_owned(),
        ..part("y", 8, 8)
    });
    assert_eq!(renamed(&of_types(["a", "b", "c"], long), &both), []);
}

#[test]
fn the_likest_candidate_is_the_first() {
    let long = ["long"; 3];
    let old = of_types(["a", "b", "c"], long);
    let mut new = of_types(["a", "far", "c"], long);
    new[1].bits = 512..576;
    new.push(Part {
        type_name: "int".to_owned(),
        ..part("there", 8, 4)
    });
    let place = old[1].place(LINE);
    let found = candidates(&place, &rows(&old, &new, &Renames::default()));
    let found = found.iter();
    let found: Vec<_> = found
        .map(|one| {
            (
                one.member.as_str(),
                one.has_offset,
                one.has_size,
                one.has_type,
            )
        })
        .collect();
    let expected = [("there", true, false, false), ("far", false, true, true)];
    assert_eq!(found, expected);
}

fn stated(text: &str) -> Renames {
    let stated: StatedRename = text.parse().expect("a rename");
    Renames(vec![Rename {
        old: stated.old,
        new: stated.new,
        is_stated: true,
    }])
}

#[test]
fn a_stated_rename_pairs_members_and_frees_their_names() {
    let long = ["long"; 3];
    let old = of_types(["a", "b", "c"], long);
    let new = of_types(["a", "c", "d"], long);
    let names = |renames: &Renames| -> Vec<(String, bool, bool)> {
        let found = rows(&old, &new, renames).into_iter();
        let has = |row: &MemberDiff| (row.before.is_some(), row.after.is_some());
        found
            .map(|row| (row.name.clone(), has(&row).0, has(&row).1))
            .collect()
    };
    let row = |name: &str, old, new| (name.to_owned(), old, new);
    // `c` of the second build is `b`, so the first one's `c` has no partner.
    let expected = [
        row("a", true, true),
        row("b", true, true),
        row("d", false, true),
        row("c", true, false),
    ];
    assert_eq!(names(&stated("b=c")), expected);
    let renames = stated("b=c");
    assert_eq!(renames.new_path("b.x[2]").as_deref(), Some("c.x[2]"));
    assert_eq!(renames.new_path("c"), None);
    assert_eq!(renames.new_path("a").as_deref(), Some("a"));
    let gone = stated("b=");
    assert!(gone.is_gone("b.x") && !gone.is_gone("a") && gone.new_path("b").is_none());
}

#[test]
fn a_rename_needs_a_member_and_a_sign() {
    for text in ["a", "", "=b", "="] {
        assert!(text.parse::<StatedRename>().is_err(), "{text:?}");
    }
    let stated: StatedRename = "Map<K=u8>.a=b".parse().expect("a rename");
    assert_eq!(
        (stated.old.as_str(), stated.new.as_deref()),
        ("Map<K=u8>.a", Some("b"))
    );
}
