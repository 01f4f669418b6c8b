use std::collections::BTreeMap;

use hitm_base::{CpuId, Cycles};
use hitm_layout::advise::Demand;
use hitm_layout::profile::{Counts, CpuSet, Profile, RowKey};

use super::price::moved_bases;
use super::worse::worse;
use super::*;
use crate::layout::{Part, pair};

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
    let (machine, _) = crate::machine::resolve("broadwell-4s").expect("a preset");
    let prices = crate::advise::EnginePrices::new(machine);
    let demand = Demand::new(&profile, &prices).expect("CPUs of the machine");
    let locate = |path: &str| Some((offsets[usize::from(path != "a")], 8));
    let weighed = demand.weigh_layout(192, &BTreeMap::new(), &locate);
    weighed.expect("both members are found")
}

/// `a` and `b` have quiet lines of their own, then share a loud one; `c` begins to straddle.
fn reviewed() -> TypeReview {
    let old = [part("a", 0, 8), part("b", 64, 8), part("c", 128, 8)];
    let new = [part("a", 0, 8), part("b", 8, 8), part("c", 60, 8)];
    let members = pair(&old, &new, LINE).into_iter();
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
            is_exact: true,
            weighed: [weighed([0, 64]), weighed([0, 8])],
        }],
        coverage: None,
        unpriced: None,
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
    let moved = |size, align| -> Vec<u64> {
        moved_bases(&bases, 16, (size, align))
            .into_values()
            .collect()
    };
    assert_eq!(moved(16, 8), [1000, 1016, 1032, 5000]);
    assert_eq!(moved(24, 8), [1000, 1024, 1048, 5000]);
    assert_eq!(moved(64, 64), [1024, 1088, 1152, 5056]);
}
