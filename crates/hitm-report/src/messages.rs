//! Messages: text for people that no report has.

use crate::Printout;

/// A message of one line.
pub fn line(text: &str) -> Printout {
    let mut out = Printout::new();
    out.line(text);
    out
}

/// Text of several lines, each behind `indent`. Names do not belong into it: theirs would be lines as well.
pub fn block(indent: &str, text: &str) -> Printout {
    let mut out = Printout::new();
    out.block(indent, text);
    out
}

/// The same, whose sequences for colours stay.
pub fn colored_block(text: &str) -> Printout {
    let mut out = Printout::new();
    out.colored_block(text);
    out
}
