//! Broken rules as text.

use hitm_layout::structs::CheckReport;

use crate::Printout;

/// A line for each broken rule, as compilers write them.
pub fn check_text(report: &CheckReport) -> Printout {
    let mut text = Printout::new();
    if report.violations.is_empty() {
        text.line(&match report.rule_count {
            1 => format!("{}: 1 rule holds", report.file),
            count => format!("{}: {count} rules hold", report.file),
        });
    }
    for broken in &report.violations {
        text.line(&format!(
            "{}: struct {}: {} (rule at {})",
            broken.place, broken.struct_name, broken.message, broken.rule
        ));
    }
    text
}
