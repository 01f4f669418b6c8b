//! Outputs about recordings.

use super::Output;
use super::form::{Form, Members, list, rows};
use crate::explain::{condition, meaning};
use crate::fields;

pub(super) fn outputs() -> Vec<Output> {
    let of = Output::new;
    vec![
        of(
            "report",
            "hitm report --format json",
            "docs/formats/report.md",
            report(),
        ),
        of(
            "type",
            "hitm report --type T --format json",
            "docs/formats/type.md",
            of_type(),
        ),
        of(
            "perf-c2c",
            "hitm report --perf-c2c --format json",
            "docs/formats/perf-data.md",
            perf_c2c(),
        ),
        of(
            "explain",
            "hitm explain --format json",
            "docs/formats/explain.md",
            explain(),
        ),
        of(
            "diff",
            "hitm diff --format json",
            "docs/formats/side-by-side.md",
            diff(),
        ),
        of(
            "compare",
            "hitm compare --format json",
            "docs/formats/compare.md",
            compare(),
        ),
        of(
            "whatif",
            "hitm whatif --format json",
            "docs/formats/whatif.md",
            whatif(),
        ),
    ]
}

fn versioned() -> Members {
    Members::default().with("schema", Form::Whole)
}

fn report() -> Members {
    let machine = Members::of(fields::machine::ALL).with("unnamed", rows(fields::unnamed::ALL));
    let totals_by = Members::default()
        .with("by", Form::Text)
        .with("rows", rows(fields::total_row::ALL));
    let event = Members::default()
        .with("name", Form::Text)
        .with("sample_count", Form::Whole)
        .with("event_count", Form::Whole);
    let runs = Members::of(fields::runs::ALL)
        .with("runs", rows(fields::one_run::ALL))
        .with_some("members", rows(fields::member_runs::ALL));
    let finding = Members::of(fields::finding::ALL)
        .with("places", rows(fields::finding_place::ALL))
        .with("ranks", list(Form::Whole));
    let handed = Members::of(fields::handed::ALL)
        .with("objects", rows(fields::handed_row::ALL))
        .with("takers", rows(fields::handed_row::ALL));
    let waiting = Members::of(fields::waiting::ALL).with("rows", rows(fields::wait_row::ALL));
    versioned()
        .with("run", Members::of(fields::run::ALL))
        .with_some("summary", rows(fields::summary::ALL))
        .with_some("runs", runs)
        .with_some("sampled_events", list(event))
        .with_some("watched", Members::of(fields::watched::ALL))
        .with(
            "totals",
            Members::of(fields::totals::ALL).with("counts", counts()),
        )
        .with_some("of_machine", machine)
        .with_some("filtered", Members::of(fields::filtered::ALL))
        .with_some("totals_by", list(totals_by))
        .with("findings", list(finding))
        .with_some("pairs", rows(fields::pair::ALL))
        .with("lines", list(line()))
        .with("quiet", Members::of(fields::quiet::ALL))
        .with_some("handed_over", handed)
        .with_some("waiting", waiting)
        .with("threads", rows(fields::thread::ALL))
        .with_some("processes", rows(fields::process::ALL))
        .with("diagnostics", list(Form::Text))
}

fn line() -> Members {
    let path = Members::of(fields::call_path::ALL).with("frames", rows(fields::call_frame::ALL));
    let row = Members::of(fields::row::ALL)
        .with_some("call_path_count", Form::Whole)
        .with_some("call_paths", list(path));
    Members::of(fields::line::ALL)
        .with("counts", counts())
        .with("fights", rows(fields::fight::ALL))
        .with("objects", rows(fields::object::ALL))
        .with("rows", list(row))
}

fn counts() -> Members {
    let source = || Members::of(fields::source::ALL);
    Members::default()
        .with("loads", source())
        .with("stores", source())
        .with("locked", source())
}

fn of_type() -> Members {
    let line = Members::of(fields::type_line::ALL).with("rows", rows(fields::type_row::ALL));
    versioned()
        .with("command", list(Form::Text))
        .with("machine", Form::Text)
        .and(fields::type_report::ALL)
        .with("lines", list(line))
}

/// Its columns are perf's, whose ids docs/formats/perf-data.md has.
fn perf_c2c() -> Members {
    let sums = || Form::Map(Box::new(Form::Number));
    versioned()
        .with("events", list(Form::Text))
        .with("sorted_by", Form::Text)
        .with("notes", list(Form::Text))
        .with("totals", sums())
        .with("shared", sums())
        .with("lines", list(Form::Map(Box::new(Form::Any))))
}

fn explain() -> Members {
    let condition = Members::of(condition::ALL).with("is_met", Form::Flag);
    let finding = Members::of(fields::finding::ALL)
        .with("places", rows(fields::finding_place::ALL))
        .with_some("wait", Members::of(fields::wait_row::ALL));
    let line = Members::of(fields::line::ALL)
        .with("conditions", list(condition))
        .with_some("lock_signs", list(Form::Text))
        .with("fights", rows(fields::fight::ALL))
        .with("rows", rows(fields::row::ALL))
        .with("changes", list(Form::Text));
    // Only what was asked for.
    let values = Members::default()
        .with("run", Members::of(fields::run::ALL).partly())
        .with("totals", Members::of(fields::totals::ALL).partly())
        .with("lines", list(Members::of(fields::line::ALL).partly()));
    versioned()
        .with_some("word", Form::Text)
        .with("meanings", rows(meaning::ALL))
        .with_some("recording", Form::Text)
        .with_some("run", Members::of(fields::run::ALL))
        .with_some("finding", finding)
        .with_some("line", line)
        .with_some("other_findings", list(Form::Any))
        .with_some("values", values)
}

fn diff() -> Members {
    versioned()
        .with("labels", list(Form::Text))
        .with("sentences", list(Form::Text))
        .with("runs", rows(fields::run_cost::ALL))
        .with("all", Members::of(fields::side::ALL))
        .with("places", rows(fields::side::ALL))
        .with("functions", rows(fields::side::ALL))
        .with("uses", rows(fields::side::ALL))
}

fn compare() -> Members {
    let program = Members::default()
        .with("label", Form::Text)
        .with("command", list(Form::Text))
        .with("runs", rows(fields::run_cost::ALL));
    versioned()
        .with("machine", Form::Text)
        .with("sentence", Form::Text)
        .with("programs", list(program))
        .with("totals", rows(fields::compared_row::ALL))
        .with("findings", rows(fields::compared_row::ALL))
        .with("small_count", Form::Whole)
}

fn whatif() -> Members {
    let run = Members::default()
        .with("before", Members::of(fields::whatif_run::ALL))
        .with("after", Members::of(fields::whatif_run::ALL));
    versioned()
        .with("command", list(Form::Text))
        .with("layouts", list(Form::Text))
        .with("run", run)
        .with("threads", rows(fields::whatif_thread::ALL))
        .with("lines", rows(fields::whatif_line::ALL))
        .with("lines_left_out_count", Form::Whole)
        .with("members", rows(fields::whatif_member::ALL))
        .with("objects", rows(fields::whatif_object::ALL))
        .with("objects_left_out_count", Form::Whole)
        .with("moves", Members::of(fields::whatif_move::ALL))
        .with("notes", list(Form::Text))
}
