use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use hitm_base::machine::preset;
use hitm_base::{Cycles, Machine};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::bins::Gap;
use super::*;
use crate::layout_file::{LayoutFile, LayoutTable, shipped};
use crate::profile::{Counts, CpuSet, Profile, RowKey};

/// The machine's own table without queues and homes: enough for tests of the search.
struct Table(Machine);

impl Prices for Table {
    fn machine(&self) -> &Machine {
        &self.0
    }

    fn dirty(&self, cpu: CpuId, owner: CpuId) -> Toll {
        let transfer = self.0.transfers[self.0.topology.distance(cpu, owner).index()];
        Toll {
            latency: transfer.dirty.0 as f64,
            occupancy: transfer.occupancy.0 as f64,
        }
    }

    fn shared(&self, cpu: CpuId, holder: CpuId) -> Toll {
        let transfer = self.0.transfers[self.0.topology.distance(cpu, holder).index()];
        Toll {
            latency: transfer.clean.0 as f64,
            occupancy: 4.0,
        }
    }

    fn invalidate(&self, cpu: CpuId, holder: CpuId) -> Toll {
        let transfer = self.0.transfers[self.0.topology.distance(cpu, holder).index()];
        Toll {
            latency: transfer.clean.0 as f64,
            occupancy: transfer.occupancy.0 as f64,
        }
    }
}

fn prices(name: &str) -> Table {
    Table(Machine::from_toml(preset(name).unwrap(), name).unwrap())
}

/// A profile of rows `member,function,loads,stores,rmws,cpus` over a million cycles.
fn profile(rows: &str) -> Profile {
    let text = format!(
        "# schema: 1\n# name: t\n# source: made up\n# period_cycles: 1000000\n\
         member,function,loads,stores,rmws,cpus\n{rows}"
    );
    Profile::parse(&text, "t.csv").unwrap()
}

/// A structure of these members (name, size), one after another, each aligned to its size up to 8.
fn table(members: &[(&str, u64)]) -> LayoutTable {
    let mut at = 0;
    let mut file_members = Vec::new();
    for (name, size) in members {
        at = u64::next_multiple_of(at, 1 << (size | 8).trailing_zeros());
        file_members.push(crate::layout_file::FileMember::plain(*name, at, *size));
        at += size;
    }
    let file = LayoutFile {
        name: "t".into(),
        description: "t".into(),
        source: "made up".into(),
        structs: vec![FileStruct {
            name: "s".into(),
            size_bytes: at.next_multiple_of(8),
            align_bytes: Some(64),
            members: file_members,
        }],
    };
    LayoutTable::new(&file).unwrap()
}

fn advice_for(
    table: &LayoutTable,
    name: &str,
    profile: &Profile,
    options: &Options,
) -> Result<Advice, AdviseError> {
    let demand = Demand::new(profile, &prices("broadwell-4s"))?;
    let subject = Subject::from_table(table, name, &[])?;
    let locate = |path: &str| {
        table
            .place(name, path)
            .map(|place| (place.offset_bytes, place.size_bytes))
    };
    let bases = BTreeMap::new();
    let located = Located {
        locate: &locate,
        bases: &bases,
        is_partial: false,
    };
    advise(&subject, &demand, located, options, &|_, _| {})
}

/// The reason, its cycles, and reads and writes with the cores that make them.
fn why(moved: &Move) -> String {
    let habits = |of: &Habits| {
        let Habits {
            reads,
            writes,
            readers,
            writers,
            ..
        } = of;
        format!(
            "{} {reads:.0}r by {readers} {writes:.0}w by {writers}",
            of.name
        )
    };
    let cycles = moved.saved_cycles;
    match &moved.reason {
        Reason::GetsAway([a, b]) => format!("{} from {}: {cycles:.0}", habits(a), habits(b)),
        Reason::Joins([a, b]) => format!("{} to {}: {cycles:.0}", habits(a), habits(b)),
        Reason::Leaves([a, b]) => format!("{} from {}", habits(a), habits(b)),
        Reason::NotSearched => "not searched".to_owned(),
        Reason::Untouched => "untouched".to_owned(),
    }
}

fn shown(advice: &Advice) -> String {
    let mut out = format!("{} lines now\n", advice.original.lines);
    for candidate in &advice.candidates {
        let members = candidate.layout.members.iter();
        let members: Vec<String> = members
            .map(|m| format!("{}@{}", m.name, m.offset_bytes))
            .collect();
        out += &format!(
            "{} lines, gap {}: {}\n",
            candidate.weighed.lines,
            candidate.gap().unwrap(),
            members.join(" ")
        );
        for moved in &candidate.moves {
            out += &format!("  {}\n", why(moved));
        }
    }
    out
}

fn check(members: &[(&str, u64)], rows: &str, options: &Options, expected: Expect) {
    let advice = advice_for(&table(members), "s", &profile(rows), options);
    expected.assert_eq(&advice.map_or_else(|error| error.to_string(), |advice| shown(&advice)));
}

const FLAG_AND_COUNTER: [(&str, u64); 3] = [("enabled", 4), ("reserved", 4), ("sequence", 8)];
const FLAG_ROWS: &str = "enabled,run,30000,0,0,1-3\nsequence,run,10000,10000,0,0\n";

#[test]
fn a_flag_gets_away_from_the_counter_beside_it() {
    check(
        &FLAG_AND_COUNTER,
        FLAG_ROWS,
        &Options::default(),
        expect![[r#"
            1 lines now
            2 lines, gap 0: enabled@0 reserved@4 sequence@64
              enabled 30000r by 3 0w by 0 from sequence 10000r by 1 10000w by 1: 184111
        "#]],
    );
}

#[test]
fn members_of_one_function_stay_together() {
    check(
        &[("a", 8), ("cold", 40), ("x", 8), ("y", 8), ("b", 8)],
        "a,f,0,0,5000,0-3\nb,f,0,0,5000,0-3\nx,g,20000,0,0,8-11\ny,g,20000,0,0,8-11\n",
        &Options::default(),
        expect![[r#"
            2 lines now
            2 lines, gap 0: a@0 b@8 x@64 y@72 cold@80
              b 0r by 0 5000w by 4 to a 0r by 0 5000w by 4: 435654
              a 0r by 0 5000w by 4 from x 20000r by 4 0w by 0: 130892
              y 20000r by 4 0w by 0 from a 0r by 0 5000w by 4: 130892
              untouched
        "#]],
    );
}

#[test]
fn constraints_are_kept_or_refused() {
    let pinned = Options {
        pins: vec![("sequence".into(), 128)],
        ..Options::default()
    };
    check(
        &FLAG_AND_COUNTER,
        FLAG_ROWS,
        &pinned,
        expect![[r#"
            1 lines now
            3 lines, gap 0: enabled@0 sequence@128 reserved@136
              enabled 30000r by 3 0w by 0 from sequence 10000r by 1 10000w by 1: 184111
              untouched
        "#]],
    );
    let together = Options {
        keep_together: vec![vec!["enabled".into(), "sequence".into()]],
        ..Options::default()
    };
    check(
        &FLAG_AND_COUNTER,
        FLAG_ROWS,
        &together,
        expect![[r#"
        1 lines now
    "#]],
    );
    let frozen = Options {
        frozen_prefix: 8,
        ..Options::default()
    };
    check(
        &FLAG_AND_COUNTER,
        FLAG_ROWS,
        &frozen,
        expect![[r#"
            1 lines now
            2 lines, gap 0: enabled@0 reserved@4 sequence@64
              enabled 30000r by 3 0w by 0 from sequence 10000r by 1 10000w by 1: 184111
        "#]],
    );
    let one_line = Options {
        max_lines: Some(1),
        ..Options::default()
    };
    check(
        &FLAG_AND_COUNTER,
        FLAG_ROWS,
        &one_line,
        expect![[r#"
        1 lines now
    "#]],
    );
}

#[test]
fn constraints_that_cannot_be_met_are_named() {
    let misaligned = Options {
        pins: vec![("sequence".into(), 12)],
        ..Options::default()
    };
    check(
        &FLAG_AND_COUNTER,
        FLAG_ROWS,
        &misaligned,
        expect!["--pin sequence@12: it needs a multiple of 8"],
    );
    let overlapping = Options {
        pins: vec![("sequence".into(), 0), ("enabled".into(), 4)],
        ..Options::default()
    };
    check(
        &FLAG_AND_COUNTER,
        FLAG_ROWS,
        &overlapping,
        expect!["enabled at byte 4: sequence is there up to byte 8"],
    );
    check(
        &FLAG_AND_COUNTER,
        "nothing,f,1,0,0,0\n",
        &Options::default(),
        expect!["s has no member nothing"],
    );
    check(
        &FLAG_AND_COUNTER,
        "enabled,f,1,0,0,400\n",
        &Options::default(),
        expect!["the profile has CPU 400, machine broadwell-4s has 192 CPUs"],
    );
}

#[test]
fn an_opened_structure_is_laid_out_with_the_rest() {
    let text = "schema = 1\nname = 't'\ndescription = 't'\nsource = 'made up'\n\
        [[struct]]\nname = 'outer'\nsize_bytes = 32\nalign_bytes = 64\nmembers = [\n\
        { name = 'enabled', offset_bytes = 0, size_bytes = 8 },\n\
        { name = 'state', offset_bytes = 8, size_bytes = 24, type = 'state' }]\n\
        [[struct]]\nname = 'state'\nsize_bytes = 24\nmembers = [\n\
        { name = 'limit', offset_bytes = 0, size_bytes = 8 },\n\
        { name = 'count', offset_bytes = 8, size_bytes = 16, count = 2, stride_bytes = 8 }]\n";
    let table = LayoutTable::new(&LayoutFile::parse(text, "t").unwrap()).unwrap();
    let profile = profile(
        "enabled,run,30000,0,0,1-3\nstate.limit,run,30000,0,0,1-3\nstate.count[1],run,0,10000,0,0\n",
    );
    let demand = Demand::new(&profile, &prices("broadwell-4s")).unwrap();
    let advised = |open: &[String]| {
        let subject = Subject::from_table(&table, "outer", open).unwrap();
        let locate = |path: &str| {
            let place = table.place("outer", path)?;
            Some((place.offset_bytes, place.size_bytes))
        };
        let located = Located {
            locate: &locate,
            bases: &BTreeMap::new(),
            is_partial: false,
        };
        advise(&subject, &demand, located, &Options::default(), &|_, _| {}).unwrap()
    };
    let layout = |advice: Advice| {
        let members = advice.candidates.last().unwrap().layout.members.clone();
        let members = members.into_iter();
        let members = members.map(|member| format!("{}@{}", member.name, member.offset_bytes));
        members.collect::<Vec<_>>().join(" ")
    };
    // Whole, its limit meets its count wherever it lies.
    assert_eq!(advised(&[]).candidates, []);
    let opened = advised(&[String::from("state")]);
    let file = LayoutFile {
        name: "opened".into(),
        description: "opened".into(),
        source: "made up".into(),
        structs: vec![opened.candidates.last().unwrap().layout.clone()],
    };
    expect!["enabled@0 state.limit@8 state.count@64"].assert_eq(&layout(opened));
    // A reader of the file finds the members by the path that they had.
    let file = LayoutFile::parse(&file.to_toml(), "opened").unwrap();
    let moved = table.clone().overlay(&file).unwrap();
    let place = moved.place("outer", "state.count[1]").unwrap();
    assert_eq!((place.offset_bytes, place.size_bytes), (72, 8));
    assert_eq!(moved.place("outer", "state"), None);
}

/// All partitions of `0..count` into sets.
fn set_partitions(count: usize) -> Vec<Vec<Vec<usize>>> {
    let mut all = vec![vec![]];
    for item in 0..count {
        let mut next = Vec::new();
        for sets in all {
            for at in 0..=sets.len() {
                let mut with: Vec<Vec<usize>> = sets.clone();
                match with.get_mut(at) {
                    Some(set) => set.push(item),
                    None => with.push(vec![item]),
                }
                next.push(with);
            }
        }
        all = next;
    }
    all
}

fn random_profile(rows: &[(usize, usize, u16, u64, u64, u64)]) -> Profile {
    let mut profile = Profile::new("r", "random", Cycles(100_000));
    for (member, function, cpu, loads, stores, rmws) in rows {
        let key = RowKey {
            member: format!("m{member}"),
            instance: 0,
            function: format!("f{function}"),
            comm: String::new(),
            cpus: CpuSet::one(CpuId(*cpu)),
        };
        profile.add(
            key,
            Counts {
                loads: *loads,
                stores: *stores,
                rmws: *rmws,
            },
        );
    }
    profile
}

/// Rows of a random profile: member, function, CPU, loads, stores, locked operations.
fn random_rows() -> impl Strategy<Value = Vec<(usize, usize, u16, u64, u64, u64)>> {
    let row = (
        0usize..5,
        0usize..3,
        0u16..60,
        0u64..500,
        0u64..200,
        0u64..50,
    );
    proptest::collection::vec(row, 3..15)
}

/// Calls `look` with what the search needs to weigh five members, one to a place.
fn with_five_members(rows: &[(usize, usize, u16, u64, u64, u64)], look: impl FnOnce(&Weigher<'_>)) {
    let sizes = [("m0", 16), ("m1", 24), ("m2", 8), ("m3", 32), ("m4", 4)];
    let table = table(&sizes);
    let demand = Demand::new(&random_profile(rows), &prices("broadwell-4s")).unwrap();
    let subject = Subject::from_table(&table, "s", &[]).unwrap();
    let atoms = atoms::atoms(&subject, &Options::default()).unwrap();
    let locate = |path: &str| {
        let place = table.place("s", path);
        place.map(|place| (place.offset_bytes, place.size_bytes))
    };
    let places = spot_places(&demand, &subject, &atoms, &locate).unwrap();
    let work = Work::new(u64::MAX, &|_, _| {});
    look(&Weigher::new(&demand, &atoms, &places, &work));
}

/// The least cost of each number of lines, over every partition there is.
fn best_by_trying(weigher: &Weigher<'_>) -> BTreeMap<usize, u64> {
    let mut best: BTreeMap<usize, u64> = BTreeMap::new();
    for sets in set_partitions(weigher.hot.len()) {
        let atoms = |set: &Vec<usize>| set.iter().map(|at| weigher.hot[*at]).collect();
        let lines: Vec<Vec<usize>> = sets.iter().map(atoms).collect();
        if !lines.iter().all(|line| weigher.fits(line, Gap::WHOLE_LINE)) {
            continue;
        }
        let cost = lines.iter().map(|line| weigher.cost(None, line)).sum();
        let slot = best.entry(lines.len()).or_insert(u64::MAX);
        *slot = (*slot).min(cost);
    }
    best
}

/// Compares the optimum of all members with that of the three most used, over random profiles. The
/// answers for many atoms rest on it.
#[test]
fn the_optimum_of_some_is_hardly_ever_far_above_that_of_all() {
    let mut runner = TestRunner::deterministic();
    let mut shares: Vec<u64> = Vec::new();
    for _ in 0..2000 {
        let rows = random_rows().new_tree(&mut runner).unwrap().current();
        with_five_members(&rows, |weigher| {
            let some = &weigher.hot[..weigher.hot.len().min(3)];
            let (of_some, of_all) = (
                exact::partitions(weigher, some),
                exact::partitions(weigher, &weigher.hot),
            );
            let least = |found: &[Option<Assignment>], most: usize| {
                let found = found.iter().take(most + 1).flatten();
                found.map(|found| found.cost).min()
            };
            let share = |most| Some(100 * least(&of_all, most)? / least(&of_some, most)?.max(1));
            shares.extend((1..=weigher.hot.len()).filter_map(share).min());
        });
    }
    let below = |percent: u64| shares.iter().filter(|share| **share < percent).count();
    let margin = (100.0 * local::BOUND_MARGIN) as u64;
    expect!["of 2000 profiles 0 below 90 %, 2 below 95, 23 below 100"].assert_eq(&format!(
        "of {} profiles {} below {margin} %, {} below 95, {} below 100",
        shares.len(),
        below(margin),
        below(95),
        below(100),
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The dynamic programme against every partition there is.
    #[test]
    fn no_partition_is_cheaper_than_the_exact_one(
        rows in random_rows(),
    ) {
        let (mut exact, mut best) = (Vec::new(), BTreeMap::new());
        with_five_members(&rows, |weigher| {
            exact = exact::partitions(weigher, &weigher.hot);
            best = best_by_trying(weigher);
        });
        for (count, found) in exact.iter().enumerate() {
            prop_assert_eq!(found.as_ref().map(|found| found.cost), best.get(&count).copied());
        }
    }

    /// Whatever is asked, members do not overlap and keep their alignment.
    #[test]
    fn every_candidate_is_a_sound_layout(
        rows in proptest::collection::vec((0usize..16, 0usize..4, 0u16..60, 0u64..500, 0u64..200, 0u64..50), 3..30),
        sizes in proptest::collection::vec(prop_oneof![Just(1u64), Just(4), Just(8), Just(24), Just(100), Just(64)], 16),
        frozen in 0u64..80,
    ) {
        let members: Vec<(String, u64)> = sizes.iter().enumerate().map(|(i, s)| (format!("m{i}"), *s)).collect();
        let members: Vec<(&str, u64)> = members.iter().map(|(name, size)| (name.as_str(), *size)).collect();
        let table = table(&members);
        let options = Options { frozen_prefix: frozen, ..Options::default() };
        let advice = advice_for(&table, "s", &random_profile(&rows), &options).unwrap();
        let subject = Subject::from_table(&table, "s", &[]).unwrap();
        for candidate in advice.candidates.iter().chain(&advice.plain) {
            let mut covered = 0;
            prop_assert_eq!(candidate.layout.members.len(), subject.members.len());
            for member in &candidate.layout.members {
                prop_assert!(member.offset_bytes >= covered, "{} overlaps", member.name);
                covered = member.offset_bytes + member.size_bytes;
                let was = subject.members.iter().find(|m| m.file.name == member.name).unwrap();
                prop_assert!(member.offset_bytes.is_multiple_of(was.align));
                if was.file.offset_bytes < frozen {
                    prop_assert_eq!(member.offset_bytes, was.file.offset_bytes);
                }
            }
            prop_assert!(covered <= candidate.layout.size_bytes);
            if let Some(bound_cycles) = candidate.bound_cycles {
                prop_assert!(candidate.gap() >= Some(0.0));
                prop_assert!(bound_cycles <= candidate.weighed.cost.cycles() + 1.0);
            }
        }
    }
}

#[test]
fn root_domain_is_advised_to_what_took_months() {
    let base = LayoutFile::parse(shipped("linux-6.12").unwrap(), "base").unwrap();
    let base = LayoutTable::new(&base).unwrap();
    let text = include_str!("../../../../profiles/root-domain-c2c.csv");
    let mut profile = Profile::parse(text, "root-domain-c2c.csv").unwrap();
    let subject = Subject::from_table(&base, "root_domain", &[]).unwrap();
    let place = |table: &LayoutTable, path: &str| {
        let place = table.place("root_domain", path)?;
        Some((place.offset_bytes, place.size_bytes))
    };
    let locate = |path: &str| place(&base, path);
    let bases = BTreeMap::new();
    let located = Located {
        locate: &locate,
        bases: &bases,
        is_partial: false,
    };
    let variant = LayoutFile::parse(shipped("root-domain-restructured").unwrap(), "v").unwrap();
    let restructured = base.clone().overlay(&variant).unwrap();
    let mut out = String::new();
    // The assumed period, and both ends of its range.
    for period in [30_000, 3_000, 300_000] {
        profile.period = Cycles(period);
        let demand = Demand::new(&profile, &prices("xeon-480")).unwrap();
        assert_eq!(demand.classes.len(), 6);
        let options = Options {
            max_lines: Some(31),
            ..Options::default()
        };
        let advice = advise(&subject, &demand, located, &options, &|_, _| {}).unwrap();
        let theirs = demand
            .weigh_layout(1984, &bases, &|path| place(&restructured, path))
            .unwrap();
        out += &format!(
            "period {period}: now {:.0}, restructured {:.0}\n",
            advice.original.cost.cycles(),
            theirs.cost.cycles()
        );
        for candidate in &advice.candidates {
            out += &format!(
                "  {} lines, {:.0} cycles, gap {}\n",
                candidate.weighed.lines,
                candidate.weighed.cost.cycles(),
                candidate.gap().unwrap()
            );
        }
        if period == 30_000 {
            out += &shown(&advice);
        }
    }
    expect![[r#"
        period 30000: now 6498178, restructured 3833870
          29 lines, 3833107 cycles, gap 0
        29 lines now
        29 lines, gap 0: rto_mask@0 overloaded@8 refcount@12 rcu@16 span@32 online@40 overutilized@48 dlo_mask@56 cpupri@64 rto_count@1688 visit_gen@1696 rto_lock@1704 rto_loop@1708 pd@1712 rto_cpu@1728 rto_loop_next@1732 rto_loop_start@1736 dlo_count@1740 dl_bw@1744 cpudl@1768 rto_push_work@1792
          rto_loop_next 183r by 240 16w by 240 from cpupri 1053r by 240 27w by 240: 2318103
          rto_loop_start 195r by 240 12w by 240 from cpupri 1053r by 240 27w by 240: 1622707
          rto_count 884r by 240 48w by 240 from overloaded 534r by 240 0w by 0: 197283
          rto_mask 572r by 240 0w by 0 from cpupri 1053r by 240 27w by 240: 101034
          rto_cpu 20r by 240 0w by 0 from cpupri 1053r by 240 27w by 240: 3452
          untouched
        period 3000: now 9749106, restructured 12028149
        period 300000: now 140987, restructured 138460
          29 lines, 121133 cycles, gap 0
    "#]].assert_eq(&out);
}

/// A structure of `count` members that `cores` cores share in many ways, with a generator's seed.
fn crowd(count: usize, cores: u16) -> (LayoutTable, Profile) {
    let sizes: Vec<(String, u64)> = (0..count)
        .map(|member| (format!("m{member}"), [8, 4, 8, 16][member % 4]))
        .collect();
    let sizes: Vec<(&str, u64)> = sizes.iter().map(|(name, size)| (&**name, *size)).collect();
    let mut runner = TestRunner::deterministic();
    let row = (
        0..count,
        0usize..20,
        0..cores,
        0u64..500,
        0u64..200,
        0u64..5,
    );
    let rows = proptest::collection::vec(row, count * 4);
    let mut rows = rows.new_tree(&mut runner).unwrap().current();
    rows.extend((0..count).map(|member| (member, 0, 0, 1, 0, 0)));
    (table(&sizes), random_profile(&rows))
}

#[test]
fn a_search_of_hundreds_of_members_ends_at_its_limit() {
    let (table, profile) = crowd(300, 48);
    let limited = |steps_max| {
        let options = Options {
            steps_max: Some(steps_max),
            ..Options::default()
        };
        advice_for(&table, "s", &profile, &options).unwrap()
    };
    let mut costs = Vec::new();
    for steps_max in [20_000_000, 40_000_000, 160_000_000] {
        let advice = limited(steps_max);
        let Search { steps, atoms, .. } = advice.search;
        assert_eq!(atoms, 300);
        assert!(advice.search.is_limited && !advice.search.is_exact());
        // The search ends what it has begun: an atom's first place, and the prices of the lines in
        // the answer.
        assert!(steps < steps_max + 1_000_000, "{steps} of {steps_max}");
        let best = advice.candidates.last().unwrap();
        assert!(best.gap() > Some(0.0));
        costs.push(best.weighed.cost.cycles() / advice.original.cost.cycles());
    }
    assert_eq!(limited(20_000_000), limited(20_000_000));
    // More steps, better layouts.
    assert!(costs[1] < costs[0] && costs[2] < costs[1], "{costs:?}");
    assert!(costs[2] < 0.5, "{costs:?}");
}

#[test]
fn a_search_of_a_few_members_has_no_use_for_the_limit() {
    let (table, profile) = crowd(12, 48);
    let advice = advice_for(&table, "s", &profile, &Options::default()).unwrap();
    let Search { steps, .. } = advice.search;
    assert!(advice.search.is_exact() && !advice.search.is_limited);
    assert!(steps < STEPS_MAX / 4, "{steps}");
    // With less than the exact search takes, the answer is the best found.
    let options = Options {
        steps_max: Some(steps / 4),
        ..Options::default()
    };
    let less = advice_for(&table, "s", &profile, &options).unwrap();
    assert!(!less.search.is_exact() && less.search.exact_atoms > 0);
    let best = |advice: &Advice| advice.candidates.last().unwrap().weighed.cost.cycles();
    assert!(best(&less) >= best(&advice) - 1.0);
}

/// A ring's two sides: each writes its index and a copy of the other's, and polls the other's index.
#[test]
fn members_are_grouped_by_who_writes_them() {
    let table = table(&[
        ("mask", 8),
        ("head", 8),
        ("tail_seen", 8),
        ("tail", 8),
        ("head_seen", 8),
    ]);
    let rows = "mask,put,100,0,0,0\nmask,get,100,0,0,1\nhead,put,0,1000,0,0\ntail_seen,put,1000,200,0,0\ntail,put,200,0,0,0\n\
        tail,get,0,1000,0,1\nhead_seen,get,1000,200,0,1\nhead,get,200,0,0,1\n";
    let advice = advice_for(&table, "s", &profile(rows), &Options::default()).unwrap();
    let candidates = advice.candidates.iter().chain(&advice.plain);
    let by_writers = candidates
        .filter(|candidate| candidate.plan == Plan::ByWriters)
        .map(|candidate| {
            let members = candidate.layout.members.iter();
            let lines =
                members.map(|member| format!("{}/{}", member.name, member.offset_bytes / 64));
            lines.collect::<Vec<_>>().join(" ")
        });
    expect!["mask/0 head/1 tail_seen/1 tail/2 head_seen/2"]
        .assert_eq(&by_writers.collect::<Vec<_>>().join("; "));
}

/// A recording has few accesses to members on a line that all only read, so they stay away from written ones; those
/// that lie beside written ones now may go anywhere.
#[test]
fn members_of_quiet_lines_stay_away_from_written_ones() {
    let table = table(&[
        ("mask", 8),
        ("pad", 56),
        ("head", 8),
        ("tail", 8),
        ("kind", 8),
    ]);
    let subject = Subject::from_table(&table, "s", &[]).unwrap();
    let rows = "mask,put,5,0,0,0\nhead,put,0,1000,0,0\ntail,get,0,1000,0,1\nhead,get,900,0,0,1\nkind,get,1000,0,0,1\n";
    let demand = Demand::new(&profile(rows), &prices("broadwell-4s")).unwrap();
    let locate = |path: &str| {
        let place = table.place("s", path)?;
        Some((place.offset_bytes, place.size_bytes))
    };
    let bases = BTreeMap::from([(0, 0x1000)]);
    let company_of = |name: &str, is_partial: bool| {
        let located = Located {
            locate: &locate,
            bases: &bases,
            is_partial,
        };
        let options = Options::default();
        let advice = advise(&subject, &demand, located, &options, &|_, _| {}).unwrap();
        let mut company = BTreeSet::new();
        for candidate in advice.candidates.iter().chain(&advice.plain) {
            let line = |name: &str| candidate.layout.by_name()[name].offset_bytes / 64;
            let others = ["mask", "head", "tail", "kind"].into_iter();
            company.extend(others.filter(|other| line(other) == line(name)));
        }
        company.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(company_of("mask", true), ["kind", "mask"]);
    assert_eq!(company_of("mask", false), ["head", "kind", "mask", "tail"]);
    assert!(company_of("kind", true).len() > 2);
}
