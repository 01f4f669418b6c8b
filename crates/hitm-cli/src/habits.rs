//! Commands of perf and other tools that hitm has under another name.

/// A command that users of perf type, and what to run instead.
struct Habit {
    typed: &'static str,
    instead: &'static str,
}

const HABITS: &[Habit] = &[
    of(
        "c2c",
        "`hitm record PROGRAM` and `hitm report`; `hitm report --perf-c2c` has perf's tables",
    ),
    of(
        "mem",
        "`hitm record PROGRAM` and `hitm report`; `hitm live lines` looks at a running program",
    ),
    of(
        "annotate",
        "`hitm report --by source,code`, and `hitm view` for source text with its costs",
    ),
    of("stat", "`hitm record PROGRAM` and `hitm report --events`"),
    of(
        "top",
        "`hitm live`, and `hitm live lines -p PID` for the lines of a running program",
    ),
    of("lock", "`hitm live locks`"),
    of(
        "sched",
        "`hitm live neighbours`, `hitm live wakeups` and `hitm live throttle`",
    ),
    of(
        "script",
        "`hitm export --csv DIR`, or `hitm export --perf-data FILE` for perf script",
    ),
    of("data", "`hitm export`"),
    of(
        "archive",
        "`hitm report --format html -o FILE`: one file with all names",
    ),
    of("pahole", "`hitm layout show TYPE -i FILE`"),
    of(
        "attach",
        "`hitm live lines -p PID`: a recording begins with its program",
    ),
];

const fn of(typed: &'static str, instead: &'static str) -> Habit {
    Habit { typed, instead }
}

/// The counterpart of a command that hitm does not have.
pub(crate) fn counterpart(typed: &str) -> Option<&'static str> {
    let habit = HABITS.iter().find(|habit| habit.typed == typed);
    habit.map(|habit| habit.instead)
}
