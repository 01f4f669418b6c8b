//! The words by subject.

use hitm_coherence::sharing::Verdict;

use super::{Group, Term};

/// All words by subject.
pub const GROUPS: &[Group] = &[
    Group {
        title: "Lines and caches",
        terms: LINES,
    },
    Group {
        title: "Cost",
        terms: COST,
    },
    Group {
        title: "Verdicts",
        terms: VERDICTS,
    },
    Group {
        title: "Reports",
        terms: REPORTS,
    },
    Group {
        title: "Waiting and locks",
        terms: WAITING,
    },
    Group {
        title: "Recording and replay",
        terms: RECORDING,
    },
    Group {
        title: "Reviews, simulations and hosts",
        terms: OTHERS,
    },
];

// Words whose meaning other texts quote.

pub(crate) const ASLEEP: Term =
    Term::new("asleep", "A thread that sleeps for a lock in the kernel.")
        .more("models/recording.md#waiting");

pub(crate) const CALLED_BY: Term = Term::new(
    "called by",
    "The calls that led to a row's function, innermost first, with their part of what the row lost, or of its samples \
     where it lost nothing.",
)
.also(&["call paths", "callers", "caller"])
.more("models/recording.md#callers");

pub(crate) const HANDED_OVER: Term = Term::new(
    "handed over",
    "Lines that pass from CPU to CPU, each too rarely for a verdict.",
)
.also(&[
    "taken by",
    "By kind of object",
    "By function that took them",
]);

pub(crate) const SPINNING: Term = Term::new(
    "spinning",
    "A thread that looks again and again at what another one is to change.",
)
.also(&["spins"])
.more("models/recording.md#waiting");

pub(crate) const TO_WAIT: Term = Term::new(
    "waiting",
    "Threads that spin or sleep until another one lets them go on.",
)
.also(&["wait", "waits", "By what they waited for"])
.more("models/recording.md#waiting");

const LINES: &[Term] = &[
    Term::new(
        "cache line",
        "The 64 bytes that caches move as one.",
    )
    .also(&["line", "lines", "Contended lines", "Shared cache lines"]),
    Term::new(
        "coherence",
        "The protocol (MESI, MESIF, MOESI) that keeps caches from holding two values of one line.",
    )
    .more("models/coherence.md"),
    Term::new(
        "contended",
        "An access is contended when its data, or its right to write, came from another CPU: by HITM, from a \
         peer, or by upgrade. A line is contended when it has a verdict.",
    )
    .also(&["contention", "contended access"])
    .more("models/sharing.md"),
    Term::new("DRAM", "Memory: local is that of the CPU's own NUMA node.").also(&["local DRAM", "remote DRAM"]),
    Term::new("fill buffer", "Place for a line that is on its way to L1.").also(&["LFB"]),
    Term::new(
        "hand-over",
        "A contended access: its data, or its right to write, came from another CPU. A hand-off is that of a lock.",
    )
    .also(&["Hand-overs", "who gives lines to whom"])
    .more("page.md#who-gives-lines-to-whom"),
    Term::new("hit", "A store that its own core completes, in its store buffer or its L1.").also(&["hit%"]),
    Term::new(
        "HITM",
        "A load or a locked operation that finds its line modified in another core's cache.",
    )
    .also(&["HITMs"]),
    Term::new(
        "home",
        "The memory controller, and so the NUMA node, that a line's address belongs to.",
    ),
    Term::new("LLC", "Last-level cache.").also(&["last-level cache"]),
    Term::new(
        "local",
        "From a cache of the same package; of memory, from the CPU's own NUMA node.",
    )
    .also(&["lcl", "lcl%", "lcl HITM", "lcl cyc", "local HITM"]),
    Term::new(
        "locked",
        "An atomic read-modify-write, such as `lock add`, `xchg` or one of LSE.",
    )
    .also(&["locked operation", "locked operations"]),
    Term::new(
        "miss",
        "An access that its core could not complete alone: a store that had to leave the L1, or a load or \
         locked operation that left the core. A TLB miss is one whose address was in no TLB.",
    )
    .also(&["miss%", "misses"]),
    Term::new("node", "A NUMA node: some CPUs with memory of their own.").also(&["nodes", "NUMA node"]),
    Term::new(
        "package",
        "A processor as it is put into a socket, with its cores and caches.",
    )
    .also(&["socket"]),
    Term::new(
        "peer",
        "A load that another CPU's cache answers with a clean copy.",
    )
    .also(&["local peer", "remote peer"]),
    Term::new("private line", "A line that one thread alone uses: counted, not recorded.")
        .also(&["private", "private accesses"])
        .more("models/recording.md#the-filter"),
    Term::new("reads", "Plain loads.").also(&["loads", "read"]),
    Term::new(
        "remote",
        "From a cache of another package; of memory, from another NUMA node.",
    )
    .also(&["rmt", "rmt%", "rmt HITM", "rmt cyc", "remote HITM"]),
    Term::new(
        "source",
        "Where an access found its line: a cache, a buffer or memory. Beside a function it is the source line.",
    )
    .also(&["source lines", "accesses by where the line was"]),
    Term::new(
        "upgrade",
        "A store to a line that its core has and others have copies of: only these are invalidated first.",
    )
    .also(&["upgrades", "local upgrade", "remote upgrade"]),
    Term::new("writes", "Plain stores.").also(&["stores", "written"]),
];

const COST: &[Term] = &[
    Term::new(
        "at least",
        "Of a running program: the part of the CPU time that its hand-overs cost, at the machine model's price, as many \
         as are certain by what watches saw. There were more.",
    )
    .also(&["at least%"])
    .more("guide/live-lines.md"),
    Term::new(
        "at most",
        "Of a running program: the part of the CPU time whose samples may stand at accesses to a line. What these \
         would cost without other threads is a part of it.",
    )
    .also(&["at most%"])
    .more("guide/live-lines.md"),
    Term::new(
        "cost",
        "What a line takes from its threads: lost cycles, and all stalls beside them.",
    ),
    Term::new(
        "latency",
        "Cycles from a load to its value, hits included. A core hides part of it; what it does not hide is the \
         stall.",
    )
    .more("models/coherence.md#what-a-core-hides"),
    Term::new(
        "lost cycles",
        "Cycles for which a thread stood still beyond what the access would have cost if no other CPU used the \
         line, whoever answered.",
    )
    .also(&["lost", "lost%", "lost to contention", "where cycles are lost", "Lost cycles over virtual time"])
    .more("models/coherence.md#what-is-lost"),
    Term::new(
        "occupancy",
        "Cycles for which a line is busy with one transfer, so that the next waits.",
    )
    .more("models/machine.md#occupancy"),
    Term::new(
        "stall",
        "Time for which a thread stands still for memory, whatever the source; lost cycles are a part of it. \
         `hitm record --stall` means a recording in which nothing moves.",
    )
    .also(&["stalls", "memory stall"]),
    Term::new(
        "virtual time",
        "A thread's clock in a recording: instructions times cycles per instruction, and every stall.",
    )
    .also(&["Time", "thread cycles", "virtual cycles"])
    .more("models/recording.md#a-threads-clock"),
];

const VERDICTS: &[Term] = &[
    Term::new(
        "a lock's count of readers",
        "A read-write lock that hardly anybody takes to write: readers exclude nobody, and fight over the \
         count of themselves in the lock.",
    )
    .also(&["count of readers"])
    .more("guide/verdicts.md#a-locks-count-of-readers"),
    Term::new(
        "disjoint",
        "The part of a line's hand-overs in which the two threads have no byte in common: they would not be if \
         the bytes lay on different lines.",
    )
    .more("models/sharing.md#decision"),
    Term::new(
        "end",
        "A change of layout ends a fight when its threads have the bytes on different lines afterwards. What \
         that saves is at most about what the fight lost.",
    )
    .also(&["ends"])
    .more("models/sharing.md#how-well-it-predicts"),
    Term::of_verdict(Verdict::FalseSharing).more("guide/verdicts.md#false-sharing"),
    Term::new(
        "fight",
        "Members of a line over which threads contend, priced apart from the line's other fights.",
    )
    .also(&["fights", "What threads fight over"])
    .more("models/sharing.md#decision"),
    Term::of_verdict(Verdict::Lock).more("models/sharing.md#what-counts-as-a-lock"),
    Term::new(
        "lock with its data",
        "A lock whose holders write data beside it in the same line: waiters take the line away from whoever \
         works on it.",
    )
    .more("guide/verdicts.md#lock-with-its-data"),
    Term::of_verdict(Verdict::Mixed).more("guide/verdicts.md#mixed"),
    Term::of_verdict(Verdict::NoContention),
    Term::new(
        "read-mostly",
        "Bytes that threads fetch unchanged far more often than they are written, and that are part of no lock.",
    )
    .more("models/sharing.md#decision"),
    Term::of_verdict(Verdict::ReadMostlyWithHotWriter).more("guide/verdicts.md#read-mostly-with-a-hot-writer"),
    Term::of_verdict(Verdict::PairSharing).more("guide/verdicts.md#shares-a-pair-of-lines"),
    Term::of_verdict(Verdict::TrueSharing).more("guide/verdicts.md#true-sharing"),
    Term::new(
        "verdict",
        "The kind of sharing of a line, by a rule over its fights. A plus behind it says that other fights \
         need another remedy.",
    )
    .also(&["+", "why"])
    .more("guide/verdicts.md"),
    Term::new(
        "visit",
        "A thread's accesses to a line from one that found it gone to the next that does. It meets others if \
         any layout would need it.",
    )
    .also(&["visits"])
    .more("models/sharing.md#decision"),
];

const REPORTS: &[Term] = &[
    Term::new("baseline", "An earlier recording, or several, that a gate compares members with.")
        .also(&["compared"])
        .more("formats/ci.md"),
    CALLED_BY,
    Term::new(
        "dearest source lines",
        "The lines of the program's source that lose most cycles, over all cache lines; with their text where the host \
         that writes the page has the file.",
    ),
    Term::new(
        "filter",
        "A choice of accesses by object, function, thread, process or file: the rest is left out.",
    )
        .also(&["filtered"]),
    Term::new(
        "finding",
        "What one change cures: the lines of an object, those of it that are handed over, and the waits for it.",
    )
    .also(&["findings", "what", "fix"]),
    Term::new(
        "folded",
        "Taken together in one row: threads that differ in nothing else, and names below `--percent-limit`. \
         Nothing that is folded is missing from sums.",
    )
    .also(&["fold", "Fold to"]),
    Term::new("gate", "A condition that ends `hitm report` with exit code 1: `--fail-on` or `--baseline`.")
        .more("formats/ci.md"),
    HANDED_OVER,
    Term::new("in window", "Cycles lost in the window of time that is chosen on the page."),
    Term::new(
        "incomplete",
        "A recording that ends before its run: figures cover what was written.",
    )
    .also(&["complete"]),
    Term::new(
        "left out",
        "Not shown one by one: lines beyond `--top`, the cheapest rows of a line, columns that a screen has no \
         room for. Sums have them.",
    )
    .also(&["not shown"]),
    Term::new(
        "line map",
        "The 64 bytes of a line from left to right, with a row for each thread, the one that lost most first.",
    )
    .also(&["byte", "map", "colour"])
    .more("page.md#the-line-map"),
    Term::new(
        "member",
        "A part of an object: of a structure or of an array.",
    )
    .also(&["members", "off", "offset", "place"]),
    Term::new(
        "note",
        "What its reader or its recorder says about a recording.",
    )
    .also(&["notes", "diagnostics"]),
    Term::new(
        "object",
        "A variable, or a block of the heap by its type or by who allocated it.",
    )
    .also(&["objects", "objects of the line"])
    .more("models/types.md"),
    Term::new(
        "picture",
        "The users of each 8 bytes of a finding's costliest line: the number of the thread that writes them, `**` for \
         several, `r` where threads only read them, a dot where nobody uses them.",
    )
    .also(&["**", "writer of each 8 bytes"]),
    Term::new(
        "quiet line",
        "A line that changed hands too rarely for a verdict, or that lost too little of the run: counted only.",
    )
    .also(&["quiet", "quiet lines"]),
    Term::new(
        "R, W, L",
        "R reads, W writes, L locked operations. In the picture of a finding's line `r` stands for bytes that threads \
         only read.",
    )
    .also(&["R", "W", "L"]),
    Term::new("row", "Accesses of one instruction, in one way, to one place in a line.")
        .also(&["rows", "Accesses by place, operation, thread and instruction"]),
    Term::new(
        "samples",
        "Accesses that hardware picked, as perf takes them: counts and shares are of samples, and what lies \
         between them is not known.",
    )
    .also(&["sampled", "read as", "sample"])
    .more("formats/perf-data.md"),
    Term::new("shared by", "Threads, modelled CPUs and NUMA nodes that used a line."),
    Term::new(
        "stack",
        "The way to a loss, from the thread down to function, inlined function, source line and member.",
    )
    .also(&["stacks"]),
    Term::new("straddles", "An object that is spread over more lines than its size needs."),
    Term::new(
        "summary",
        "The answer in short: Lost is what is lost, Where the place, Why the verdict, By who does it, Do the \
         advice, Held how long threads hold the lock, Gain what a replay of that saves, Here what a replay on this host loses, Next a command that says more.",
    )
    .also(&["Where", "By", "Do", "Held", "Gain", "Here", "Next"])
    .more("guide/reading-a-report.md"),
    Term::new(
        "totals",
        "Sums over all lines, or by a kind of name: object, member, type, function, caller, source line or process.",
    )
    .also(&["Event totals", "all", "types", "functions", "Functions with their callees", "tables", "figures"]),
    Term::new(
        "where in the program",
        "A function that contends for what a finding is about, and the line of its source: the program's own where one \
         is known, not a library's. Writers come before readers.",
    )
    .also(&["written in"]),
];

const WAITING: &[Term] = &[
    ASLEEP,
    Term::new(
        "bound",
        "The most times faster that many threads can be than one, `1/u`, when they hold one lock for a share \
         `u` of their work.",
    )
    .also(&["1/u"])
    .more("live.md"),
    Term::new("chain", "A lock whose holder sleeps for another lock.")
        .also(&["asleep for"])
        .more("live.md"),
    Term::new("hand-off", "A lock that passes from one thread to another."),
    Term::new("hold share", "The share of its working time for which a thread holds a lock, `u`.")
        .also(&["u"])
        .more("live.md"),
    Term::new(
        "holder",
        "The thread that has a lock. While others wait it runs, is preempted or throttled, is in a page fault, or sleeps.",
    )
    .also(&["preempted", "preempted by", "in a minor page fault", "in a major page fault"])
    .more("live.md"),
    SPINNING,
    TO_WAIT,
    Term::new(
        "waking up",
        "A lock is free, and its next holder is on the way to a CPU; or a holder that slept is.",
    )
    .more("live.md"),
];

const RECORDING: &[Term] = &[
    Term::new(
        "advice",
        "What to do about a line: a sentence for each remedy that its fights need, the dearest first.",
    )
        .also(&["remedy"])
        .more("guide/verdicts.md"),
    Term::new("layout", "The order and the gaps of a structure's members.").more("guide/layouts.md"),
    Term::new("machine", "A model: a tree of CPUs, caches and latencies.").more("guide/machines.md"),
    Term::new("placement", "The modelled CPUs that threads are put on.").also(&["threads placed"]),
    Term::new("process", "A running program; one that takes a process over by exec has a number of its own.")
        .also(&["processes", "program"])
        .more("models/recording.md#processes"),
    Term::new(
        "profile",
        "Who reads and writes the members of a type, for `hitm layout advise`.",
    )
    .more("formats/profile.md"),
    Term::new("recording", "A file with every access to shared lines, and its price.").more("formats/trace.md"),
    Term::new("replay", "A recording run again, on another machine or with members moved: `hitm whatif`.")
        .also(&["as replayed"])
        .more("models/whatif.md"),
    Term::new(
        "run",
        "One execution of the recorded program. Of several, the one whose lost cycles are the median is shown.",
    )
        .also(&["runs", "Run by run"]),
    Term::new("scenario", "A file that says what to simulate.").more("formats/scenario.md"),
    Term::new("seed", "The number that the random choices of a run begin with."),
    Term::new("thread", "A thread of the recorded program, by its name and its id: `name:tid`.")
        .also(&["threads", "Threads by first appearance"]),
    Term::new("window", "The virtual time by which threads may run apart while they are recorded.")
        .more("models/recording.md#bound"),
];

const OTHERS: &[Term] = &[
    Term::new(
        "conditions",
        "Condition variables of a program, and the longest wait for one.",
    )
    .more("live.md"),
    Term::new(
        "front",
        "Points of a plot that no other point beats in both metrics.",
    )
    .more("page.md#a-sweep"),
    Term::new(
        "HITM without a name",
        "Code whose HITM fell on memory without a name, the most frequent first.",
    )
    .also(&["HITM with a name"])
    .more("models/vm.md#names"),
    Term::new("host", "The machine that hitm itself runs on."),
    Term::new(
        "interval",
        "The least and the largest value of a simulated figure over all its runs.",
    )
    .more("formats/sim.md"),
    Term::new(
        "kept",
        "A remedy of `hitm fix` that is in the patch: its slowest run takes fewer cycles than the fastest one before.",
    )
    .also(&["undone", "measured", "refused"])
    .more("fix.md"),
    Term::new(
        "memory",
        "Bytes of a type and of its arrays in two builds, and the lines that they take.",
    )
    .also(&["touched lines"])
    .more("formats/review.md"),
    Term::new("metric", "A figure of a simulation or a sweep.")
        .also(&["what the figures count"])
        .more("formats/sim.md"),
    Term::new(
        "no costs",
        "The reason why a type has no costs in a review.",
    )
    .also(&["Cost on each machine"]),
    Term::new(
        "no place",
        "A member of a profile for which a build has no place, so that it has no cost.",
    ),
    Term::new(
        "not used",
        "A way to look at this host that is not there, and the reason.",
    ),
    Term::new(
        "renamed",
        "A member that two builds have under different names: it is matched by place and type.",
    )
    .more("formats/review.md"),
    Term::new(
        "seen",
        "The operations of a program that its own locks were counted from.",
    )
    .more("live.md"),
    Term::new(
        "worse",
        "A part of a structure that costs more in the new build than in the old one.",
    )
    .also(&["What gets worse"])
    .more("formats/review.md"),
];
