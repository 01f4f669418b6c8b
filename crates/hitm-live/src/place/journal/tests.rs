use proptest::prelude::*;

use super::*;

fn head() -> Head {
    Head {
        boot: "0f-12".into(),
        tool: TaskId {
            tid: 7,
            start_ticks: 900,
        },
        since: 1_700_000_000,
        backend: Backend::CpusetV1,
        cpus: CpuSet::parse("0-3,8").unwrap(),
        name: "inode 12 of / 100 %\n".into(),
    }
}

fn mask(list: &str, is_free: bool) -> OldMask {
    let cpus = CpuSet::parse(list).unwrap();
    OldMask { cpus, is_free }
}

fn id(tid: u32) -> TaskId {
    TaskId {
        tid,
        start_ticks: 5,
    }
}

fn journal() -> Journal {
    Journal {
        head: head(),
        records: vec![
            Record::Control("/cg/a b/cgroup.subtree_control".into()),
            Record::Setting("/cg/a b/cpuset.cpus.exclusive".into(), String::new()),
            Record::Group("/cg/a b/hitm-7-900".into()),
            Record::Process(OldProcess {
                id: id(10),
                group: 10,
                session: 0,
                is_whole: true,
                mask: mask("0-15", true),
            }),
            Record::Home(Home {
                pid: 10,
                uid: 1000,
                cgroups: "3:cpuset:/a b\n0::/\n".into(),
            }),
            Record::Task(OldTask {
                id: id(11),
                pid: 10,
                mask: mask("0-3", false),
            }),
            Record::Other(OldTask {
                id: id(12),
                pid: 12,
                mask: mask("4", false),
            }),
            Record::Guard(id(8)),
            Record::Guard(id(9)),
        ],
    }
}

/// Lines with right checksums.
fn lines(words: &[&str]) -> Vec<u8> {
    let mut text = String::new();
    for line in words {
        push_line(&mut text, line);
    }
    text.into_bytes()
}

const HEAD: [&str; 7] = [
    "hitm-place 1",
    "boot 0f-12",
    "tool 7 900",
    "since 1",
    "backend affinity",
    "cpus 0",
    "name x",
];

#[test]
fn a_journal_reads_back() {
    let journal = journal();
    let text = journal.encode();
    assert_eq!(Journal::parse(text.as_bytes()).as_ref(), Ok(&journal));
    assert_eq!(journal.guard(), Some(id(9)));
    assert_eq!(text.lines().count(), 16);
    assert!(
        text.contains(" name inode%2012%20of%20/%20100%20%25%0a\n"),
        "{text}"
    );
}

#[test]
fn a_line_that_was_being_written_does_not_count() {
    let journal = journal();
    let text = journal.encode();
    let head = text
        .match_indices('\n')
        .nth(6)
        .map(|(at, _)| at + 1)
        .unwrap();
    for length in head..text.len() {
        let read = Journal::parse(&text.as_bytes()[..length]).unwrap();
        let whole = text[head..length].matches('\n').count();
        assert_eq!(read.records, journal.records[..whole]);
    }
    for length in 0..head {
        assert!(
            Journal::parse(&text.as_bytes()[..length]).is_err(),
            "{length}"
        );
    }
}

#[test]
fn damage_has_a_line() {
    let text = journal().encode().into_bytes();
    for at in 0..text.len() {
        let mut damaged = text.clone();
        damaged[at] ^= 1;
        let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
        match Journal::parse(&damaged) {
            Err(error) => assert!((line..=line + 1).contains(&error.line), "{at}: {error}"),
            // The last line has lost its end.
            Ok(_) => assert_eq!(at, text.len() - 1),
        }
    }
}

#[test]
fn words_that_make_no_sense_have_a_line() {
    let check = |words: &[&str], line: usize, expected: &str| {
        let all = [&HEAD[..], words].concat();
        let error = Journal::parse(&lines(&all)).unwrap_err();
        assert_eq!((error.line, error.expected), (line, expected), "{words:?}");
    };
    assert!(Journal::parse(&lines(&HEAD)).is_ok());
    for wrong in [
        "nonsense",
        "guard 0 1",
        "guard 1",
        "guard 1 2 3",
        "guard +1 2",
        "guard 1 02",
        "group relative/hitm-1",
        "group /cg/other",
        "group /cg/../hitm-1",
        "group /cg/hitm-1/x",
        "control /etc/passwd",
        "setting /cg/cpuset.cpus 0",
        "setting /cg/cpuset.cpus.exclusive x",
        "setting /cg/cpuset.cpus.exclusive",
        "task 1 2 3 free",
        "task 1 2 3 free ",
        "task 1 2 3 free 9000",
        "task 1 2 3 open 0",
        "task 1 2 3 free 0,1",
        "process 1 2 3 4 some free 0",
        "group /cg/hitm-%zz",
        "group /cg/hitm-%41",
    ] {
        check(&[wrong], 8, RECORD);
    }
    check(&["guard 1 2", "task"], 9, RECORD);
    let mut other = HEAD;
    other[0] = "hitm-place 2";
    assert_eq!(Journal::parse(&lines(&other)).unwrap_err().line, 1);
    other = HEAD;
    other[4] = "backend numad";
    assert_eq!(
        Journal::parse(&lines(&other)).unwrap_err().expected,
        "backend NAME"
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Journal::parse(&bytes);
    }

    #[test]
    fn any_words_are_read_as_they_were_written_or_refused(words in prop::collection::vec("(task|other|group|guard|process|control|setting)( [0-9a-z/%-]{0,12}){0,7}", 0..6)) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let bytes = lines(&[&HEAD[..], &words].concat());
        if let Ok(journal) = Journal::parse(&bytes) {
            prop_assert_eq!(journal.encode().into_bytes(), bytes);
        }
    }
}
