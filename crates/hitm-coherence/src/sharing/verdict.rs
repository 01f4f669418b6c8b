//! The verdicts on a line, each declared once with all that is told of it, and the kinds of fight that lead to them.

/// Everything that is told of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictFacts {
    /// The name in files and on the command line.
    pub id: &'static str,
    /// The same in words.
    pub words: &'static str,
    /// A title.
    pub title: &'static str,
    /// One sentence on what threads do.
    pub meaning: &'static str,
    /// Sentences on what to do.
    pub remedy: &'static str,
    /// True if a good part of the contention would vanish if the bytes lay on different lines, or on different
    /// pairs of lines.
    pub is_curable_by_layout: bool,
    /// The colour of its mark on pages, by the name that page.css has for it; none for a plain mark.
    pub color: Option<&'static str>,
}

/// Declares verdicts with their facts.
macro_rules! verdicts {
    ($($(#[doc = $doc:literal])+ $verdict:ident { $($fact:ident: $value:expr,)* })*) => {
        /// Kind of contention that a line sees.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Verdict {
            $($(#[doc = $doc])+ $verdict,)*
        }

        impl Verdict {
            /// Every verdict: those that another layout helps come before the others.
            pub const ALL: &[Verdict] = &[$(Verdict::$verdict),*];

            /// Everything that is told of it.
            pub const fn facts(self) -> VerdictFacts {
                match self {
                    $(Verdict::$verdict => VerdictFacts { $($fact: $value,)* },)*
                }
            }
        }
    };
}

verdicts! {
    /// Nothing worth a change: private, read only, or handed over now and then.
    NoContention {
        id: "no-contention",
        words: "no contention",
        title: "No contention",
        meaning: "Threads do not take the line from each other, or hardly ever.",
        remedy: "Nothing.",
        is_curable_by_layout: false,
        color: None,
    }
    /// Threads take the line from each other although they use different bytes.
    FalseSharing {
        id: "false-sharing",
        words: "false sharing",
        title: "False sharing",
        meaning: "Threads take a cache line from each other although they use different bytes of it.",
        remedy: "Give each writer's bytes a line of their own, by alignment or by padding. `hitm layout advise` \
                 proposes a layout, `hitm whatif` prices it.",
        is_curable_by_layout: true,
        color: Some("hitm"),
    }
    /// Readers of bytes that are hardly ever written lose the line to writers of other bytes.
    ReadMostlyWithHotWriter {
        id: "read-mostly-with-hot-writer",
        words: "read-mostly with a hot writer",
        title: "Read-mostly data beside a hot writer",
        meaning: "Readers of bytes that are hardly ever written lose their line to writers of other bytes.",
        remedy: "Move the written member to another line. `hitm layout advise` proposes a layout, `hitm whatif` \
                 prices it.",
        is_curable_by_layout: true,
        color: Some("hitm"),
    }
    /// One thread has the line, and loses it because others fetch the other line of its pair.
    PairSharing {
        id: "pair-sharing",
        words: "shares a pair of lines",
        title: "Shared pair of lines",
        meaning: "Other threads use the other line of an aligned pair of 128 bytes. The machine fetches both, so \
                  that the line's own thread loses it.",
        remedy: "Align to 128 bytes what other threads use, and fill these.",
        is_curable_by_layout: true,
        color: Some("hitm"),
    }
    /// Both, neither dominating.
    Mixed {
        id: "mixed",
        words: "mixed",
        title: "Several kinds of contention on a line",
        meaning: "Threads fight over a line both for the same bytes and for different ones.",
        remedy: "Separate the bytes of different writers first. What remains is true sharing or a lock.",
        is_curable_by_layout: true,
        color: None,
    }
    /// Threads take the line from each other for the same bytes.
    TrueSharing {
        id: "true-sharing",
        words: "true sharing",
        title: "True sharing",
        meaning: "Threads take a cache line from each other for the same bytes.",
        remedy: "Write less often, or to a copy per thread. No layout helps.",
        is_curable_by_layout: false,
        color: Some("reads"),
    }
    /// A contended lock, perhaps with the data that it guards.
    Lock {
        id: "lock",
        words: "lock",
        title: "Contended lock",
        meaning: "Threads fight for a lock, perhaps with the data that it guards.",
        remedy: "Hold it for less time, or lock smaller parts of the data.",
        is_curable_by_layout: false,
        color: Some("locked"),
    }
}

impl Verdict {
    /// The name in files and on the command line.
    pub const fn id(self) -> &'static str {
        self.facts().id
    }

    /// Returns true if a good part of the contention would vanish if the bytes lay on different
    /// lines, or on different pairs of lines.
    pub const fn is_curable_by_layout(self) -> bool {
        self.facts().is_curable_by_layout
    }
}

/// Kind of thing that two threads fight over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FightKind {
    /// A lock that both take: its word, its other parts and the data that it guards.
    Lock,
    /// Bytes that both use and at least one of them writes.
    TrueSharing,
    /// Nothing but the line: each uses bytes of its own.
    FalseSharing,
    /// Nothing but the line: one reads what is hardly ever written, the other writes beside it.
    ReadMostlyWithHotWriter,
    /// Nothing but the pair of lines that the machine fetches together.
    PairSharing,
}

impl FightKind {
    /// Every kind.
    pub const ALL: &[FightKind] = &[
        FightKind::Lock,
        FightKind::TrueSharing,
        FightKind::FalseSharing,
        FightKind::ReadMostlyWithHotWriter,
        FightKind::PairSharing,
    ];

    /// The verdict on a line that has no other fight.
    pub const fn verdict(self) -> Verdict {
        match self {
            FightKind::Lock => Verdict::Lock,
            FightKind::TrueSharing => Verdict::TrueSharing,
            FightKind::FalseSharing => Verdict::FalseSharing,
            FightKind::ReadMostlyWithHotWriter => Verdict::ReadMostlyWithHotWriter,
            FightKind::PairSharing => Verdict::PairSharing,
        }
    }

    /// Returns true if the fight would end if the bytes lay on different lines, or on different pairs of lines.
    pub const fn is_curable_by_layout(self) -> bool {
        self.verdict().is_curable_by_layout()
    }
}
