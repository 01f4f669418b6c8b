//! The call paths of a row, one a line.

use hitm_base::grouped;

use super::table::shorten;
use crate::fields::call_path;
use crate::model::{CallPath, RowReport};

/// The widest function in a path.
const FUNCTION_WIDTH_MAX: usize = 40;
/// Columns that a note's indentation and its share take.
const BEFORE: usize = 32;

/// The notes below a row.
pub(crate) fn notes(row: &RowReport, width: usize) -> Vec<String> {
    let has_lost = row.call_paths.iter().any(|path| path.lost_share > 0.0);
    let share = match has_lost {
        true => call_path::lost_share,
        false => call_path::access_share,
    };
    let mut notes = Vec::new();
    for path in &row.call_paths {
        let label = if notes.is_empty() { "called by" } else { "" };
        let share = share.text(path);
        let calls = calls(path, width.saturating_sub(BEFORE));
        notes.push(format!("  {label:9} {share:>6}  {calls}"));
    }
    let more = row.call_path_count - row.call_paths.len() as u64;
    if more > 0 && !notes.is_empty() {
        notes.push(format!("  {:9} {:>6}  more paths", "", grouped(more)));
    }
    notes
}

/// As many calls as fit, and how many do not.
fn calls(path: &CallPath, width: usize) -> String {
    let mut text = String::new();
    for (place, frame) in path.frames.iter().enumerate() {
        let function = shorten(&frame.function, FUNCTION_WIDTH_MAX);
        let left = path.frames.len() - place;
        if place > 0 && text.chars().count() + function.chars().count() + 3 > width {
            text.push_str(&format!(" +{left} more"));
            return text;
        }
        if place > 0 {
            text.push_str(" < ");
        }
        text.push_str(&function);
    }
    if text.is_empty() {
        text.push_str("nobody known");
    }
    text
}

#[cfg(test)]
mod tests {
    use hitm_base::CodeAddr;

    use super::*;
    use crate::model::CallFrame;

    fn check(functions: &[&str], width: usize, expected: &str) {
        let frames = functions.iter().map(|function| CallFrame {
            is_inlined: false,
            code: CodeAddr(0),
            function: (*function).to_owned(),
            source: String::new(),
        });
        let path = CallPath {
            access_count: 1,
            access_share: 1.0,
            lost_share: 0.0,
            frames: frames.collect(),
        };
        assert_eq!(calls(&path, width), expected);
    }

    #[test]
    fn a_path_ends_where_the_line_does() {
        check(
            &["worker", "start_thread", "clone3"],
            80,
            "worker < start_thread < clone3",
        );
        check(
            &["worker", "start_thread", "clone3"],
            23,
            "worker < start_thread +1 more",
        );
        check(&["worker", "start_thread"], 2, "worker +1 more");
        check(&[], 80, "nobody known");
    }
}
