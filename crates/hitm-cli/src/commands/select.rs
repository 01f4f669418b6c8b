//! Options of `hitm report` that say what is added up, in which order, and what is left out.

use clap::{Args, ValueEnum};
use hitm_report::text::PercentLimit;
use hitm_report::{By, Filters, Glob, Pattern, Selection, SkippedFunctions, SortKey};

/// The part of a recording to show, its totals and their order.
#[derive(Debug, Args)]
pub(crate) struct SelectArgs {
    /// Put totals by these names on top: how much each object, function, ... lost; several with
    /// commas between
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    by: Vec<ByArg>,
    /// The figure that orders lines and totals
    #[arg(short, long, value_enum, value_name = "KEY", default_value_t = SortArg::Lost)]
    sort: SortArg,
    /// Fold lines, totals and rows of a line below this share into one row, in per cent; 0 shows all.
    /// JSON has all
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = percent)]
    percent_limit: PercentLimit,
    /// Totals by function give accesses of these functions to their callers, as they do for functions that
    /// only lock, count or allocate. Patterns with * and ? match the whole name; for recordings and samples
    /// with call chains
    #[arg(long, value_name = "GLOB")]
    skip_function: Vec<Glob>,
    /// Only objects with this in their name, `f` or `f.member`. Patterns with * or ? match the whole
    /// name. Several of one option: any of them; several options: all of them
    #[arg(long, value_name = "NAME")]
    object: Vec<Pattern>,
    /// Only accesses by functions with this in their name
    #[arg(long, visible_alias = "symbol", value_name = "NAME")]
    function: Vec<Pattern>,
    /// Only accesses by threads with this in their name, `name:tid`
    #[arg(long, visible_alias = "comm", value_name = "NAME")]
    thread: Vec<Pattern>,
    /// Only accesses by programs with this in their name
    #[arg(long, value_name = "NAME")]
    process: Vec<Pattern>,
    /// Only accesses from source files with this in their name, `main.c` or `main.c:12`
    #[arg(long, value_name = "NAME")]
    file: Vec<Pattern>,
}

/// Kinds of names; perf's words are understood as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ByArg {
    /// Cache lines, the table that is always there
    Line,
    /// Variables, heap blocks by allocation site
    Object,
    /// Members of objects, those of all elements of an array together
    Member,
    /// Types of variables and of a kernel's objects
    Type,
    /// Functions, inlined ones included
    #[value(alias = "symbol", alias = "sym")]
    Function,
    /// Functions that give lines and functions that take them, by finding; of recordings
    #[value(alias = "cacheline-pair")]
    Pair,
    /// Functions that called those, where accesses have call chains
    #[value(alias = "parent")]
    Caller,
    /// Functions with all that they call, where accesses have call chains
    Children,
    /// Source files and lines
    #[value(alias = "srcline")]
    Source,
    /// Programs
    #[value(alias = "comm")]
    Process,
}

/// Key that orders lines and totals, the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SortArg {
    /// Cycles lost to contention
    #[value(alias = "overhead")]
    Lost,
    /// Local and remote HITM
    #[value(alias = "tot")]
    Hitm,
    /// Remote HITM
    #[value(alias = "rmt")]
    RemoteHitm,
    /// Local HITM
    #[value(alias = "lcl")]
    LocalHitm,
    /// Accesses
    Accesses,
    /// The name, or a line's address, the smallest first
    Name,
}

impl ByArg {
    /// The name of totals; none for pairs, which need the order of accesses.
    fn of_totals(self) -> Option<By> {
        Some(match self {
            ByArg::Line => By::Line,
            ByArg::Object => By::Object,
            ByArg::Member => By::Member,
            ByArg::Type => By::Type,
            ByArg::Function => By::Function,
            ByArg::Pair => return None,
            ByArg::Caller => By::Caller,
            ByArg::Children => By::Children,
            ByArg::Source => By::Source,
            ByArg::Process => By::Process,
        })
    }
}

impl From<SortArg> for SortKey {
    fn from(arg: SortArg) -> SortKey {
        match arg {
            SortArg::Lost => SortKey::Lost,
            SortArg::Hitm => SortKey::Hitm,
            SortArg::RemoteHitm => SortKey::RemoteHitm,
            SortArg::LocalHitm => SortKey::LocalHitm,
            SortArg::Accesses => SortKey::Accesses,
            SortArg::Name => SortKey::Name,
        }
    }
}

impl SelectArgs {
    pub(super) fn selection(&self) -> Selection {
        let mut by: Vec<By> = Vec::new();
        for one in self.by.iter().filter_map(|arg| arg.of_totals()) {
            if !by.contains(&one) {
                by.push(one);
            }
        }
        Selection {
            by,
            sort: self.sort.into(),
            filters: Filters {
                object: self.object.clone(),
                function: self.function.clone(),
                thread: self.thread.clone(),
                process: self.process.clone(),
                file: self.file.clone(),
            },
            skip: SkippedFunctions::with(self.skip_function.clone()),
        }
    }

    /// Returns true if pairs of functions are asked for.
    pub(super) fn has_pairs(&self) -> bool {
        self.by.contains(&ByArg::Pair)
    }

    pub(super) fn percent_limit(&self) -> PercentLimit {
        self.percent_limit
    }
}

/// Reads `0.5` as thousandths of a per cent.
pub(super) fn percent(text: &str) -> Result<PercentLimit, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    let number = number.ok().filter(|number| (0.0..=100.0).contains(number));
    let number = number.ok_or("expected a number from 0 to 100, such as 0.5")?;
    Ok(PercentLimit((number * 1000.0).round() as u32))
}
