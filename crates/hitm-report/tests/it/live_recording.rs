//! Live recordings that lie: an error with its place, or tables that hold together.

use hitm_live::recording::LiveRecording;
use hitm_report::live::{self, LiveLocks};
use hitm_report::text::{PercentLimit, TextOptions};
use proptest::prelude::*;

/// Two threads that write to a file, one that waits for a spin lock, and a program's mutex.
const WHOLE: &str = r#"{"hitm_live":1,"kernel":"6.12","cpu_count":4,"target":"t","layers":["l"],"missing":["m"],
"period_ns":1000000,"duration_ns":2000000000,"lost_count":3,
"threads":[{"pid":7,"tid":7,"comm":"a","start_ticks":1},{"pid":7,"tid":8,"comm":"b","start_ticks":0}],
"names":["vfs_write","ext4_buffered_write_iter","down_write","rwsem_down_write_slowpath","copy","_raw_spin_lock",
"native_queued_spin_lock_slowpath","main"],
"stacks":[{"kernel":[3,2,1,0],"user":[7]},{"kernel":[4,1,0],"user":[]},{"kernel":[6,5,4],"user":[]}],
"objects":[{"file":{"inode":"8:1:7","path":"/f"}},{"futex":{"pid":7,"address":4096}}],
"samples":[{"thread":0,"stack":0,"object":0,"count":40},{"thread":0,"stack":1,"object":0,"count":60},
{"thread":1,"stack":2,"object":1,"count":30},{"thread":1,"stack":1,"count":9}],
"waits":[{"thread":1,"stack":0,"lock":18446612682070000000,"count":5,"wait_ns":90000000,"longest_ns":70000000},
{"thread":0,"stack":2,"lock":64,"count":5,"wait_ns":80000000,"longest_ns":70000000}],
"program":{"processes":[{"pid":7,"parent":1,"comm":"a"}],"locks":[{"process":0,"address":4096,"kind":"mutex","variable":"v",
"call_site":{"address":1,"module":{"path":"/p","offset":1},"name":"f p.c:3"},"wait_site":null,"acquisitions":9,
"contended":3,"refused":0,"signals":0,"handovers":2,"wait_ns":50000000,"wait_max_ns":40000000,"held_ns":7,
"held_max_ns":7,"held_contended_ns":7,"ran_held_contended_ns":7,"ran_cycle_contended_ns":17,"ran_held_ns":7,
"ran_cycle_ns":17,"threads":[7,8],"thread_count":2},{"process":0,"address":4097,"kind":"condition","variable":null,
"call_site":{"address":1,"module":null,"name":null},"wait_site":{"address":1,"module":null,"name":null},
"acquisitions":9,"contended":3,"refused":0,"signals":5,"handovers":2,"wait_ns":50,"wait_max_ns":40,"held_ns":0,
"held_max_ns":0,"held_contended_ns":0,"ran_held_contended_ns":0,"ran_cycle_contended_ns":0,"ran_held_ns":0,
"ran_cycle_ns":0,"threads":[],"thread_count":0}],"threads":[{"tid":7,"process":0,"users":1,"ran_ns":5,
"paused_ns":6}],"losses":{"loaded":1,"acquisitions":0,"operations":0,"stale_holds":0,"processes":0,"threads":0,
"modules":0}}}"#;

/// Returns true if the text was read.
fn check(text: &[u8]) -> bool {
    let Ok(recording) = LiveRecording::parse(text) else {
        return false;
    };
    let written = serde_json::to_vec(&recording).unwrap();
    assert_eq!(LiveRecording::parse(&written).unwrap(), recording);
    let locks = LiveLocks::of(&recording);
    for view in &locks.locks {
        assert!((0.0..=1.0).contains(&view.lock.hold_share()));
        assert_ne!(view.lock.needed_cpus(), Some(0));
    }
    let json: serde_json::Value = serde_json::from_str(&live::json(&locks, None)).unwrap();
    assert_eq!(json["locks"].as_array().unwrap().len(), locks.locks.len());
    let options = TextOptions {
        width: TextOptions::WIDTH_MIN,
        color: false,
        has_events: true,
        percent_limit: PercentLimit::NONE,
    };
    live::text(&locks, &options);
    true
}

/// The text with its numbers of these indexes replaced.
fn with_numbers(changes: &[(usize, u64)]) -> String {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let mut parts: Vec<String> = Vec::new();
    let bytes = WHOLE
        .as_bytes()
        .chunk_by(|a, b| is_digit(*a) == is_digit(*b));
    parts.extend(bytes.map(|part| String::from_utf8_lossy(part).into_owned()));
    let is_number = |part: &String| part.bytes().all(is_digit);
    let numbers: Vec<usize> = (0..parts.len())
        .filter(|at| is_number(&parts[*at]))
        .collect();
    for (index, value) in changes {
        parts[numbers[index % numbers.len()]] = value.to_string();
    }
    parts.concat()
}

#[test]
fn the_whole_one_is_read_with_all_its_parts() {
    assert!(check(WHOLE.as_bytes()));
    let recording = LiveRecording::parse(WHOLE.as_bytes()).unwrap();
    let locks = LiveLocks::of(&recording);
    let names: Vec<&str> = locks
        .locks
        .iter()
        .map(|view| view.lock.name.as_str())
        .collect();
    // Tracepoints saw other threads wait than samples.
    let expected = ["taken by copy", "inode's i_rwsem"].repeat(2);
    assert_eq!(names, expected);
    assert_eq!(locks.program.unwrap().locks.len(), 2);
    assert_eq!(with_numbers(&[]), WHOLE);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_numbers_give_tables_or_an_error(
        changes in prop::collection::vec((any::<usize>(), any::<u64>(), 0u32..64), 1..6),
    ) {
        let changes = changes.iter().map(|(at, value, shift)| (*at, value >> shift));
        check(with_numbers(&changes.collect::<Vec<_>>()).as_bytes());
    }

    #[test]
    fn any_bytes_give_tables_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = WHOLE.as_bytes().to_vec();
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if is_cut {
            bytes.truncate(end.index(bytes.len()));
        }
        check(&bytes);
    }
}
