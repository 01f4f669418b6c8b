//! Every reported quantity, declared once with its struct, or here for structs of other crates.
//!
//! Text, JSON and docs/formats use these tables, so a figure has one name, one unit and one meaning wherever it
//! appears. A test writes the tables of the documents.

mod layout;

pub use hitm_fields::{Align, Column, Field, Unit, Value};

pub use crate::baseline::compared;
pub use crate::build::source_line;
pub use crate::by::{filtered, total_row};
pub use crate::compare::{compared_row, run_cost};
pub use crate::handed::{handed, handed_row};
pub use crate::machine::{machine, unnamed};
pub use crate::model::{
    call_frame, call_path, fight, finding, finding_place, line, object, process, quiet, row, run,
    source, thread, totals, watched,
};
pub use crate::of_type::{type_line, type_report, type_row};
pub use crate::pairs::pair;
pub use crate::pictures::{cell, frame, line_box, seat, stack, time, transfer, unknown};
pub use crate::review::{
    review, review_cost, review_coverage, review_line, review_member, review_rename, review_type,
    review_unmatched, review_worse,
};
pub use crate::runs::{member_runs, one_run, runs};
pub use crate::side_by_side::side;
pub use crate::summary::summary;
pub use crate::sweep::{sweep_effect, sweep_failure, sweep_key, sweep_metric, sweep_run};
pub use crate::tables::fleet_row;
pub use crate::waiting::{wait_row, waiting};
pub use crate::whatif::{
    whatif_line, whatif_member, whatif_move, whatif_object, whatif_run, whatif_thread,
};
pub use layout::layout_member;
