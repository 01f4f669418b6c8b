//! JUnit's XML: one suite for each gate, one case for each line or member that the gate looks at.
//!
//! Elements and attributes are those of the schema that Jenkins publishes. There are no times: nothing here ran.

use std::collections::BTreeMap;

use hitm_base::printable;

use super::{Checked, Findings, Subject};
use crate::Printout;
use crate::baseline::Change;
use crate::fields::run;
use crate::gate::{Gate, GateFailure};

/// One case of a suite; a failure has a message.
struct Case {
    name: String,
    failure: Option<Failure>,
}

struct Failure {
    kind: &'static str,
    message: String,
    /// Source lines and what they touch.
    details: Vec<String>,
}

struct Suite {
    name: String,
    class: String,
    cases: Vec<Case>,
}

/// The suites as XML. Without gates and without a baseline there are none.
pub fn render(checked: &Checked<'_>, findings: &Findings<'_>) -> Printout {
    let gates = checked.gates.iter();
    let mut suites: Vec<Suite> = gates
        .map(|gate| of_gate(checked, findings, *gate))
        .collect();
    suites.extend(of_baseline(checked, findings));
    suites.iter_mut().for_each(Suite::finish);
    let count = |of: fn(&Suite) -> usize| suites.iter().map(of).sum::<usize>();
    let mut out = Printout::new();
    out.line("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    out.line(&format!(
        "<testsuites name=\"hitm report\" tests=\"{}\" failures=\"{}\" errors=\"0\">",
        count(|suite| suite.cases.len()),
        count(Suite::failure_count),
    ));
    for suite in &suites {
        write_suite(&mut out, checked, suite);
    }
    out.line("</testsuites>");
    out
}

impl Suite {
    fn failure_count(&self) -> usize {
        let cases = self.cases.iter();
        cases.filter(|case| case.failure.is_some()).count()
    }

    /// Gives each case a name of its own, and an empty suite a case: readers refuse those without.
    fn finish(&mut self) {
        if self.cases.is_empty() {
            self.cases.push(Case {
                name: "no contended line".to_owned(),
                failure: None,
            });
        }
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        for case in &mut self.cases {
            let count = seen.entry(case.name.clone()).or_default();
            *count += 1;
            if *count > 1 {
                case.name += &format!(" ({count})");
            }
        }
    }
}

fn of_gate(checked: &Checked<'_>, findings: &Findings<'_>, gate: Gate) -> Suite {
    let failures = checked.failures.iter();
    let failures = failures.filter(|failure| failure.gate == gate);
    let failing: BTreeMap<u64, &GateFailure<'_>> = failures
        .map(|failure| (failure.finding.number, failure))
        .collect();
    let mut cases = Vec::new();
    for finding in &findings.list {
        let Subject::Finding(of_report) = finding.subject else {
            continue;
        };
        let failure = failing.get(&of_report.number).copied();
        cases.push(Case {
            name: finding.name.clone(),
            failure: failure.map(|failure| Failure {
                kind: finding.rule.id(),
                message: failure.to_string(),
                details: details(finding),
            }),
        });
    }
    Suite {
        name: format!("hitm --fail-on {gate}"),
        class: format!("hitm.{}", gate.to_string().replace('=', ".")),
        cases,
    }
}

fn of_baseline(checked: &Checked<'_>, findings: &Findings<'_>) -> Option<Suite> {
    let comparison = checked.comparison?;
    let members = findings
        .list
        .iter()
        .filter_map(|finding| match finding.subject {
            Subject::Member(member) => Some((member.name.as_str(), finding)),
            _ => None,
        });
    let by_member: BTreeMap<&str, &super::Told<'_>> = members.collect();
    let rows = comparison.rows.iter();
    let cases = rows.map(|row| {
        let failure = (row.change != Change::Within).then(|| Failure {
            kind: row.change.id(),
            message: comparison.text(row),
            details: by_member
                .get(row.name.as_str())
                .map_or_else(Vec::new, |same| details(same)),
        });
        Case {
            name: row.name.clone(),
            failure,
        }
    });
    Some(Suite {
        name: format!("hitm --baseline {}", comparison.baseline),
        class: "hitm.baseline".to_owned(),
        cases: cases.collect(),
    })
}

fn details(finding: &super::Told<'_>) -> Vec<String> {
    let places = finding.places.iter().map(|place| {
        let line = place.line.map(|line| format!(":{line}"));
        format!(
            "{}{} {} {}",
            place.file,
            line.unwrap_or_default(),
            place.function,
            place.member
        )
    });
    let message = std::iter::once(finding.message.clone());
    message.chain(places).collect()
}

fn write_suite(out: &mut Printout, checked: &Checked<'_>, suite: &Suite) {
    out.line(&format!(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\">",
        attribute(&suite.name),
        suite.cases.len(),
        suite.failure_count()
    ));
    out.line("    <properties>");
    for field in [
        run::command,
        run::machine,
        run::placement,
        run::seed,
        run::complete,
    ] {
        let (id, value) = (field.id, attribute(&field.text(&checked.report.run)));
        out.line(&format!(
            "      <property name=\"{id}\" value=\"{value}\"/>"
        ));
    }
    out.line("    </properties>");
    for case in &suite.cases {
        let (name, class) = (attribute(&case.name), attribute(&suite.class));
        let begin = format!("    <testcase name=\"{name}\" classname=\"{class}\"");
        let Some(failure) = &case.failure else {
            out.line(&format!("{begin}/>"));
            continue;
        };
        out.line(&format!("{begin}>"));
        let (kind, message) = (failure.kind, attribute(&failure.message));
        out.line(&format!(
            "      <failure type=\"{kind}\" message=\"{message}\">"
        ));
        for line in &failure.details {
            out.line(&escaped(line));
        }
        out.line("      </failure>");
        out.line("    </testcase>");
    }
    out.line("  </testsuite>");
}

/// Text of an element. Control characters, which XML has no way to write, are made printable.
fn escaped(text: &str) -> String {
    let is_legal = |c: char| !matches!(c, '\u{fffe}' | '\u{ffff}');
    let text: String = printable(text).chars().filter(|c| is_legal(*c)).collect();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn attribute(text: &str) -> String {
    escaped(text).replace('"', "&quot;")
}
