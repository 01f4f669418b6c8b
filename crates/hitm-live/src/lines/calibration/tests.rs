use super::setting::{Ended, armed_ns, begun_ns};
use super::stands::Places;
use super::*;

fn places(at: usize, behind: usize, all: usize) -> Option<Stand> {
    Places { at, behind, all }.stand()
}

#[test]
fn samples_decide_for_a_place_where_they_are_clear() {
    assert_eq!(places(4, 80, 100), Some(Stand::Behind));
    assert_eq!(places(90, 0, 100), Some(Stand::At));
    // Both, none more than others, too few.
    assert_eq!(places(10, 80, 100), Some(Stand::Either));
    assert_eq!(places(0, 60, 100), Some(Stand::Either));
    assert_eq!(places(0, 20, 20), None);
}

#[test]
fn a_stand_allows_what_is_before_or_not() {
    let allowed = |stand: Stand| [true, false].map(|is_before| stand.allows(is_before));
    assert_eq!(allowed(Stand::At), [false, true]);
    assert_eq!(allowed(Stand::Behind), [true, false]);
    assert_eq!(allowed(Stand::Either), [true, true]);
}

#[test]
fn what_watches_take_beside_hits_is_the_least_of_turns() {
    let ended = |counted_ns, first_ns| Ended {
        since_ns: 100,
        counted_ns,
        first_ns,
        last_ns: first_ns + 50,
    };
    // Two ran from the beginning on, two had to wait for a CPU.
    let turns = [
        ended(80, 112),
        ended(90, 113),
        ended(85, 900),
        ended(77, 500),
    ];
    assert_eq!((armed_ns(&turns), begun_ns(&turns)), (12, 27));
    assert_eq!((armed_ns(&[]), begun_ns(&turns[..2])), (0, 0));
}

#[test]
fn this_host_is_measured() {
    let begun = std::time::Instant::now();
    let found = match Calibration::measure() {
        Ok(found) => found,
        Err(error) => return eprintln!("NOT RUN: a clock of an own thread: {error}"),
    };
    eprintln!("{found:?} {:?}", begun.elapsed());
    let figures = found.figures;
    if found.is_whole {
        // An interrupt is served when an instruction has ended.
        assert!(figures.locked != Stand::At, "{figures:?}");
        assert!((500..1_000_000).contains(&figures.locked_ps), "{figures:?}");
        assert!((100..1_000_000).contains(&figures.hit_ns), "{figures:?}");
        assert!(figures.armed_ns < 1_000_000, "{figures:?}");
        assert!(figures.begun_ns < 1_000_000, "{figures:?}");
    }
}
