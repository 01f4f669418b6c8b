//! One type of a recording, and how well a recorded machine is known.

use hitm_base::{CodeAddr, ThreadId};
use hitm_coherence::stats::{Handovers, Statistics};
use hitm_recording::{CodeLabel, DataLabel, TypePlace};
use hitm_report::text::{PercentLimit, TextOptions, of_type};
use hitm_report::{MachineSummary, Names, TypeReport, json};

use crate::example::{Run, SLOTS, Symbols};

fn slots() -> Run {
    let mut run = Run::default();
    run.packed(5);
    run.lock(2);
    run.slots(3, 60);
    run
}

fn build(statistics: &Statistics, names: &dyn Names, type_name: &str) -> Option<TypeReport> {
    let command = vec!["./packed".to_owned()];
    TypeReport::build(statistics, names, type_name, command, "toy-4s".to_owned())
}

#[test]
fn objects_of_a_type_are_taken_together() {
    let run = slots();
    let statistics = run.statistics();
    let report = build(&statistics, &Symbols, "slot");
    let report = report.expect("there are slots");
    assert_eq!((report.object_count, report.unaligned_count), (3, 2));
    let [line] = report.lines.as_slice() else {
        panic!("48 bytes are one line: {:?}", report.lines);
    };
    // 60 rounds of 3 threads at 2 members: a load with a HITM and a store each.
    assert_eq!(
        (line.line, line.counts.local_hitm(), line.store_count()),
        (1, 360, 360)
    );
    let options = TextOptions {
        width: 110,
        color: false,
        has_events: true,
        percent_limit: PercentLimit::NONE,
    };
    let text = of_type::render(&report, &options);
    assert!(text.contains("3 of slot on toy-4s"), "{text}");
    assert!(
        text.contains("== Line 1 (0 remote HITM, 360 local, 360 stores)"),
        "{text}"
    );
    assert!(
        text.contains("2 objects do not begin at the start"),
        "{text}"
    );
    let text = json::of_type::render(&report);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["lines"][0]["rows"][0]["local_hitm_share"], 0.5);
    assert!(build(&statistics, &Symbols, "fish").is_none());
}

/// The slots of the example, the first one priced in another layout.
struct MovedSlot;

impl Names for MovedSlot {
    fn data(&self, addr: u64, size: u8) -> Option<DataLabel> {
        Symbols.data(addr, size)
    }

    fn code(&self, code: CodeAddr) -> CodeLabel {
        Symbols.code(code)
    }

    fn thread(&self, thread: ThreadId) -> String {
        Symbols.thread(thread)
    }

    fn place_in_type(&self, addr: u64, size: u8, type_name: &str) -> Option<TypePlace> {
        let place = Symbols.place_in_type(addr, size, type_name)?;
        let is_moved = place.base == SLOTS;
        Some(TypePlace { is_moved, ..place })
    }

    fn member_of_type(&self, _: &str, place: TypePlace, _: u8) -> Option<String> {
        let layout = if place.is_moved { "moved" } else { "compiled" };
        Some(format!("{layout}_{}", place.offset))
    }
}

#[test]
fn objects_in_another_layout_have_lines_of_their_own() {
    let report = build(&slots().statistics(), &MovedSlot, "slot");
    let report = report.expect("there are slots");
    assert_eq!((report.object_count, report.moved_count), (3, 1));
    let lines = report.lines.iter();
    let lines: Vec<_> = lines
        .map(|line| (line.is_moved, line.line, line.counts.local_hitm()))
        .collect();
    assert_eq!(lines, [(false, 1, 240), (true, 1, 120)]);
    for line in &report.lines {
        let layout = if line.is_moved { "moved_" } else { "compiled_" };
        let members = line.members.iter();
        assert!(
            members.clone().all(|member| member.starts_with(layout)),
            "{members:?}"
        );
    }
    let options = TextOptions {
        width: 110,
        color: false,
        has_events: true,
        percent_limit: PercentLimit::NONE,
    };
    let text = of_type::render(&report, &options);
    assert!(
        text.contains("1 objects were priced in another layout"),
        "{text}"
    );
    assert!(
        text.contains("== Line 1, moved (0 remote HITM, 120 local"),
        "{text}"
    );
    let value: serde_json::Value = serde_json::from_str(&json::of_type::render(&report)).unwrap();
    assert_eq!(value["lines"][0]["layout"], "compiled");
    assert_eq!(value["lines"][1]["layout"], "moved");
}

#[test]
fn every_hitm_is_known_as_something_or_listed() {
    let run = slots();
    let summary = MachineSummary::build(&run.statistics(), &Symbols, std::iter::empty());
    let known = summary.object_hitm_count + summary.slab_hitm_count;
    let unnamed: u64 = summary.unnamed.iter().map(|one| one.hitm_count).sum();
    assert_eq!(summary.slab_hitm_count, 360);
    assert!(summary.object_hitm_count > 0 && unnamed > 0);
    assert_eq!(known + unnamed, summary.hitm_count);
    assert_eq!(summary.unnamed[0].function, "account_add");
    let share = known as f64 / summary.hitm_count as f64;
    assert!((summary.named_share() - share).abs() < 1e-9);
}

/// Lines without rows count by their first byte, and what has no name by what was counted for them.
#[test]
fn hitms_of_lines_without_rows_are_known_as_well() {
    let mut statistics = slots().statistics();
    let all = MachineSummary::build(&statistics, &Symbols, std::iter::empty());
    let (line, stats) = statistics.lines.pop_first().unwrap();
    let handed = Handovers::of_line(&stats);
    statistics.rest.handed.insert(line, handed);
    let is_named = Symbols.known_as(line.first_byte()).is_some();
    let nameless = (!is_named).then(|| (CodeAddr(0x1000), handed.hitm_count, line.first_byte()));
    let some = MachineSummary::build(&statistics, &Symbols, nameless.into_iter());
    assert!(handed.hitm_count > 0);
    assert_eq!(some.hitm_count, all.hitm_count);
    assert_eq!(some.slab_hitm_count, all.slab_hitm_count);
    let unnamed = |summary: &MachineSummary| -> u64 {
        summary.unnamed.iter().map(|one| one.hitm_count).sum()
    };
    assert_eq!(unnamed(&some), unnamed(&all));
}
