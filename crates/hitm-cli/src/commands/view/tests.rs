use std::path::Path;

use expect_test::{Expect, expect};
use hitm_report::pictures::{Pictures, Sources};
use hitm_report::{By, Selection};
use ratatui::Terminal as Drawn;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use ratatui::style::Color;

use super::state::{Action, State, Subject};
use super::*;
use crate::tui::Key;

#[path = "../../../../hitm-report/tests/it/example.rs"]
#[expect(dead_code, reason = "the report's tests use the rest")]
mod example;

fn view() -> State {
    let statistics = example::everything();
    let selection = Selection {
        by: vec![By::Object, By::Type, By::Function],
        ..Selection::default()
    };
    let report = example::select(&statistics, 4, example::OPTIONS, &selection);
    let machine = example::machine();
    let pictures = Pictures::of(&Sources {
        statistics: &statistics,
        topology: &machine.topology,
        names: &example::Symbols,
        report: &report,
        traffic: None,
        structures: &[],
        input: Path::new("run.hitm"),
    });
    let tables = report.totals_by.iter();
    let places = tables
        .map(|totals| report.places_by(&statistics, &example::Symbols, totals.by, &selection));
    State::new(Subject {
        places: places.collect(),
        maps: pictures.maps,
        summary: pictures.summary,
        report,
    })
}

/// A view after keys that ask for no work.
fn view_after(keys: &[Key]) -> State {
    let mut state = view();
    for key in keys {
        assert_eq!(state.key(*key), Action::None);
    }
    state
}

fn drawn(state: &mut State, size: Size, has_colors: bool) -> TestBackend {
    let mut terminal = Drawn::new(TestBackend::new(size.width, size.height)).unwrap();
    terminal
        .draw(|frame| draw::draw(frame, state, has_colors))
        .unwrap();
    terminal.backend().clone()
}

fn screen(state: &mut State, size: Size) -> String {
    let screen = drawn(state, size, true).to_string();
    // Each row stands between quotes.
    let rows = screen.lines().map(|row| row.trim_matches('"').trim_end());
    rows.collect::<Vec<_>>().join("\n") + "\n"
}

#[expect(clippy::needless_pass_by_value, reason = "as expect-test's own")]
#[track_caller]
fn check(mut state: State, size: Size, expected: Expect) {
    expected.assert_eq(&screen(&mut state, size));
}

const SMALL: Size = Size::new(80, 24);

fn typed(text: &str) -> Vec<Key> {
    text.chars().map(Key::Character).collect()
}

#[test]
fn findings_fit_80_columns() {
    check(view(), SMALL, expect![[r#"
        hitm view: ./packed 100000 on toy-4s
        Lost: 20.9% of the threads' time, 837,710 of 4,000,000 cycles: f causes 83.0% of
        it.
        [1 Findings]  2 Lines   3 Objects   4 Types   5 Functions
          # what                  kind               lost% lines written in
        > 1 f                     false sharing       17.4     1 packed.c:30 bump
          2 account.lock          lock with its data   2.8     1 packed.c:50 account_add
          3 slots (heap)[] (48 B) false sharing        0.8     1 packed.c:70..nt_in_slot















        Tab 1 2 3 table  Enter in  Esc out  s source  w what if  / find  ? help  q quit
    "#]]);
    let mut state = view();
    state.subject.report.findings.clear();
    assert!(screen(&mut state, SMALL).contains("Nothing costs time"));
    state.key(Key::Enter);
    assert!(state.pages.is_empty());
}

#[test]
fn a_finding_is_told_above_its_lines() {
    check(view_after(&[Key::Enter]), SMALL, expect![[r#"
        hitm view: ./packed 100000 on toy-4s
        Lost: 20.9% of the threads' time, 837,710 of 4,000,000 cycles: f causes 83.0% of
        it.
        [1 Findings] > finding 1
        Finding 1: f, false sharing
        Why: False sharing: 4 threads, 3,500 hand-overs (2,000 loads, 1,500 upgrades).
        By: bump (packed.c:30) 100.0%
        Do: Give f.w, f.y and f.z, which different threads write, a cache line each,
        away from f.x, which is only read (align to 64 bytes), and assert the offsets at
        compile time: the false sharing that this ends costs 695,000 cycles.
        Cost: lost cycles 695,000, waited 0, lost 17.4%, lines 1, handed 0, threads 4

          #     line object verdict       lost cycles lost% run% rmt HITM lcl HITM
        > 1 0x4040c0 f      false sharing     695,000  83.0 17.4    2,000        0









        Tab 1 2 3 table  Enter in  Esc out  s source  w what if  / find  ? help  q quit
    "#]]);
    let mut state = view();
    let of_first = &mut state.subject.report.findings[0].lines;
    of_first.extend_from_within(..);
    state.key(Key::Enter);
    let shown = screen(&mut state, SMALL);
    assert!(shown.contains("view: 1 of 2, more with --top"), "{shown}");
    // What threads wait for may have no contended line.
    let mut state = view();
    state.subject.report.findings[1].lines.clear();
    state.key(Key::Down);
    state.key(Key::Enter);
    let shown = screen(&mut state, SMALL);
    assert!(shown.contains("No line is contended."), "{shown}");
    state.key(Key::Enter);
    assert_eq!(state.pages.len(), 1);
    assert_eq!(
        state.key(Key::Character('s')),
        Action::Source("examples/packed.c:50".into())
    );
}

#[test]
fn lines_fit_80_columns() {
    check(
        view_after(&[Key::Character('2')]),
        SMALL,
        expect![[r#"
            hitm view: ./packed 100000 on toy-4s
            Lost: 20.9% of the threads' time, 837,710 of 4,000,000 cycles: f causes 83.0% of
            it.
             1 Findings  [2 Lines]  3 Objects   4 Types   5 Functions
              #       line object       verdict            lost cycles lost% rmt HITM
            > 1   0x4040c0 f            false sharing          695,000  83.0    2,000
              2   0x404100 account      lock with its data     110,000  13.1      400
              3 0x7f000040 slots (heap) false sharing           16,200   1.9        0















            Tab 1 2 3 table  Enter in  Esc out  s source  w what if  / find  ? help  q quit
        "#]],
    );
}

#[test]
fn a_line_is_a_heat_map_of_its_bytes() {
    check(
        view_after(&[Key::Enter, Key::Enter]),
        SMALL,
        expect![[r#"
            hitm view: ./packed 100000 on toy-4s
            Lost: 20.9% of the threads' time, 837,710 of 4,000,000 cycles: f causes 83.0% of
            it.
            [1 Findings] > finding 1 > line 1
            Line 1: 0x4040c0 f, 695,000 lost cycles (83.0%), false sharing

            byte            0       8       10      18      20      28      30      38
            member          AAAAbbbbccccdddd................................................
            worker..(1001)  RW99............................................................
            worker..(1002)  ........RW99....................................................
            worker..(1003)  ............RW99................................................
            worker..(1000)  ....R999........................................................
            lost cycles: 9 is 175,000, each step half; R reads, W writes, L locked

                 off member reads writes locked HITM lost cycles
              a> 0x0 f.w    1,000  1,000      0  500     175,000
              b  0x4 f.x      500      0      0  500     170,000
              c  0x8 f.y    1,000  1,000      0  500     175,000
              d  0xc f.z    1,000  1,000      0  500     175,000

            Accesses to f.w at 0x0
              op    lost% rmt% lcl% accesses thread          function source
              load   25.2 25.0  0.0    1,000 worker-1 (1001) bump     examples/packed.c:30
            Left Right member  f figure  s source  w what if  Esc out  ? help  q quit
        "#]],
    );
    // The reads of another member.
    let keys = [
        Key::Character('2'),
        Key::Enter,
        Key::Right,
        Key::Character('f'),
        Key::Character('f'),
    ];
    check(
        view_after(&keys),
        Size::new(160, 50),
        expect![[r#"
            hitm view: ./packed 100000 on toy-4s
            Lost: 20.9% of the threads' time, 837,710 of 4,000,000 cycles: f causes 83.0% of it.
            [2 Lines] > line 1
            Line 1: 0x4040c0 f, 695,000 lost cycles (83.0%), false sharing

            byte             0       8       10      18      20      28      30      38
            member           aaaaBBBBccccdddd................................................
            worker-1 (1001)  RW99............................................................
            worker-2 (1002)  ........RW99....................................................
            worker-3 (1003)  ............RW99................................................
            worker-0 (1000)  ....R888........................................................
            reads: 9 is 1,000, each step half; R reads, W writes, L locked

                 off member reads writes locked HITM lost cycles
              a  0x0 f.w    1,000  1,000      0  500     175,000
              b> 0x4 f.x      500      0      0  500     170,000
              c  0x8 f.y    1,000  1,000      0  500     175,000
              d  0xc f.z    1,000  1,000      0  500     175,000

            Accesses to f.x at 0x4
              op   lost% rmt% lcl% accesses thread          function source
              load  24.5 25.0  0.0      500 worker-0 (1000) read_x   examples/packed.c:21

            advice: Give f.w, f.y and f.z, which different threads write, a cache line each, away from f.x, which is only read (align to 64 bytes), and assert the offsets
            at compile time: the false sharing that this ends costs 695,000 cycles.
            load mean 200, threads 4, CPUs 4, nodes 0-3























            Left Right member  f figure  s source  w what if  Esc out  ? help  q quit
        "#]],
    );
}

#[test]
fn names_lead_to_their_lines() {
    check(
        view_after(&[Key::Character('5')]),
        SMALL,
        expect![[r#"
            hitm view: ./packed 100000 on toy-4s
            Lost: 20.9% of the threads' time, 837,710 of 4,000,000 cycles: f causes 83.0% of
            it.
             1 Findings   2 Lines   3 Objects   4 Types  [5 Functions]
              lost cycles lost% run% rmt HITM lcl HITM accesses lines name
            >     525,000  62.7 13.1    1,500        0    6,000     1 bump
                  170,000  20.3  4.2      500        0      500     1 read_x
                  110,000  13.1  2.8      400        0    1,000     1 account_add
                   32,710   3.9  0.8        1      360      721     4 count_in_slot
                        0   0.0  0.0        0        0        1     1 (no function known)













            Tab 1 2 3 table  Enter in  Esc out  s source  w what if  / find  ? help  q quit
        "#]],
    );
    let keys = [Key::Character('5'), Key::Down, Key::Enter];
    check(
        view_after(&keys),
        SMALL,
        expect![[r#"
            hitm view: ./packed 100000 on toy-4s
            Lost: 20.9% of the threads' time, 837,710 of 4,000,000 cycles: f causes 83.0% of
            it.
            [5 Functions] > read_x
              #     line object verdict       lost cycles lost% run% rmt HITM lcl HITM
            > 1 0x4040c0 f      false sharing     695,000  83.0 17.4    2,000        0

















            Tab 1 2 3 table  Enter in  Esc out  s source  w what if  / find  ? help  q quit
        "#]],
    );
}

#[test]
fn help_and_prompts() {
    check(
        view_after(&[Key::Character('?')]),
        SMALL,
        expect![[r#"
            hitm view: ./packed 100000 on toy-4s
            Lost: 20.9% of the threads' time, 837,710 of 4,000,000 cycles: f causes 83.0% of
            it.
            [1 Findings]  2 Lines   3 Objects   4 Types   5 Functions
            Tab, 1, 2, 3 ..  findings, lines, objects, types, functions, callers
            Up, Down, k, j   select a row, or scroll a text; also PageUp, PageDown, Home, En
            Enter            a finding or a name: its lines; a line: its bytes by thread
            Left, Right      another member of the line, with the accesses to it
            f                figure of the bytes: lost cycles, HITM, reads, writes, locked
            s                source of the costliest access, with cycles beside its lines
            w                run again with -m MACHINE, -l LAYOUT-FILE, --threads-to compact
            /, n, N          find a text in any case, the next place, the one before
            Esc              back, and from a table out; q, Ctrl-C: out

            Letters of a byte say what a thread does: R reads, W writes, L locked operations
            Its figure says how much: 9 for the most of the line, one less for each half.
            A narrow screen leaves columns out. hitm report has all of them as text.






            Tab 1 2 3 table  Enter in  Esc out  s source  w what if  / find  ? help  q quit
        "#]],
    );
    let mut keys = vec![Key::Character('w')];
    keys.extend(typed("-m x"));
    let shown = screen(&mut view_after(&keys), SMALL);
    assert!(shown.contains("hitm whatif -m x_"), "{shown}");
    keys.push(Key::Backspace);
    let mut state = view_after(&keys);
    assert_eq!(state.key(Key::Enter), Action::WhatIf("-m ".into()));
    assert_eq!(state.prompt, None);
}

#[test]
fn a_search_finds_members_functions_and_text() {
    let search = |text: &str| {
        let mut keys = vec![Key::Character('/')];
        keys.extend(typed(text));
        keys.push(Key::Enter);
        keys
    };
    // A function of the second line, in any case.
    let state = view_after(&search("ACCOUNT_ADD"));
    assert_eq!(state.tabs[0].index, 1);
    let mut state = view_after(&search("no such name"));
    assert_eq!(
        (state.tabs[0].index, &*state.told),
        (0, "not found: no such name")
    );
    assert_eq!(state.key(Key::Enter), Action::None);
    // In a text it continues from line to line, and wraps round.
    assert_eq!(state.key(Key::Enter), Action::None);
    screen(&mut state, Size::new(80, 10));
    for key in search("advice") {
        state.key(key);
    }
    let shown = screen(&mut state, Size::new(80, 10));
    assert!(shown.contains("advice:"), "{shown}");
}

#[test]
fn sources_are_those_of_the_selection() {
    let mut state = view();
    // The costliest row of the costliest line, and one of a selected member.
    assert_eq!(
        state.key(Key::Character('s')),
        Action::Source("examples/packed.c:30".into())
    );
    let mut state = view_after(&[Key::Enter, Key::Enter, Key::Right]);
    assert_eq!(
        state.key(Key::Character('s')),
        Action::Source("examples/packed.c:21".into())
    );
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    state.open("text", hitm_report::Printout::new(), 0);
    assert_eq!(state.key(Key::Character('s')), Action::None);
    assert!(here.is_dir());
}

#[test]
fn keys_go_in_and_out() {
    let mut state = view_after(&[Key::Enter]);
    assert_eq!(state.pages.len(), 1);
    assert_eq!(state.key(Key::Escape), Action::None);
    assert!(state.pages.is_empty());
    assert_eq!(state.key(Key::Escape), Action::Quit);
    assert_eq!(state.key(Key::Character('q')), Action::Quit);
    state.key(Key::Character('/'));
    // What is typed is no command.
    assert_eq!(state.key(Key::Character('q')), Action::None);
    assert_eq!(state.key(Key::Interrupt), Action::Quit);
    state.key(Key::Escape);
    state.key(Key::BackTab);
    assert_eq!(state.tab, 4);
    state.key(Key::Tab);
    assert_eq!(state.tab, 0);
}

#[test]
fn every_size_is_drawn() {
    let pages: [&[Key]; 5] = [
        &[],
        &[Key::Enter],
        &[Key::Enter, Key::Enter],
        &[Key::Character('3')],
        &[Key::Character('?')],
    ];
    for keys in pages {
        for size in [(1, 1), (10, 3), (40, 8), (79, 23), (200, 60)].map(Size::from) {
            screen(&mut view_after(keys), size);
        }
    }
}

#[test]
fn no_name_acts_on_the_terminal() {
    let mut state = view();
    let report = &mut state.subject.report;
    report.lines[0].objects[0].name = "evil\x1b[2J\n".into();
    report.lines[0].rows[0].function = "evil\x1b[2J\n".into();
    report.run.command = vec!["\x1b]0;x\x07".into()];
    state.subject.maps[0].seats[0].name = "evil\x1b[2J\n".into();
    report.findings[0].name = "evil\x1b[2J\n".into();
    report.findings[0].fix = "evil\x1b[2J\n".into();
    no_escape_is_shown(&mut state);
    state.key(Key::Enter);
    no_escape_is_shown(&mut state);
    state.key(Key::Enter);
    no_escape_is_shown(&mut state);
}

fn no_escape_is_shown(state: &mut State) {
    for size in [SMALL, Size::new(160, 50)] {
        let shown = screen(state, size);
        assert!(!shown.contains(['\x1b', '\x07']), "{shown}");
        assert!(shown.contains("\\x1b"), "{shown}");
    }
}

#[test]
fn heat_has_one_of_sixteen_colours_or_none() {
    let mut state = view_after(&[Key::Enter, Key::Enter]);
    let grounds = |backend: &TestBackend| -> Vec<Color> {
        let cells = backend.buffer().content().iter();
        cells.map(|cell| cell.bg).collect()
    };
    let coloured = drawn(&mut state, SMALL, true);
    assert!(grounds(&coloured).contains(&Color::Red));
    let indexed = |color: &Color| matches!(color, Color::Rgb(..) | Color::Indexed(_));
    assert!(!grounds(&coloured).iter().any(indexed));
    let plain = drawn(&mut state, SMALL, false);
    assert!(grounds(&plain).iter().all(|ground| *ground == Color::Reset));
    assert_eq!(plain.to_string(), coloured.to_string());
}
