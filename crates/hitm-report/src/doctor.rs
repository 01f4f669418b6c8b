//! What works on a host and what is missing, as text.

use hitm::doctor::Finding;

use crate::Printout;

/// A line for each finding.
pub fn text(findings: &[Finding], has_colors: bool) -> Printout {
    let mut text = Printout::new();
    for finding in findings {
        let (mark, color) = if finding.works {
            ("ok     ", "32")
        } else {
            ("missing", "31")
        };
        let color = if has_colors { color } else { "" };
        let rest = format!("  {}: {}", finding.subject, finding.detail);
        text.spans(&[(color, mark), ("", &rest)]);
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn what_works_and_what_is_missing() {
        let finding = |subject: &str, works| Finding {
            subject: subject.to_owned(),
            detail: "as found".to_owned(),
            works,
            package: None,
        };
        let findings = [
            finding("record x86_64 programs", true),
            finding("record others", false),
        ];
        expect![[r#"
            ok       record x86_64 programs: as found
            missing  record others: as found
        "#]]
        .assert_eq(&text(&findings, false));
        assert!(text(&findings, true).starts_with("\x1b[32mok     \x1b[0m  record"));
    }
}
