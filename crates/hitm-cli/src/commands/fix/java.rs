//! Remedies for objects of a Java machine: `@Contended` on fields or on a class.
//!
//! Places in the source are the compiler's own (`com.sun.source`), asked by a small program that `java` runs from its
//! source. Build and run need an option each; trials have them by the environment.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hitm::fix::{Environment, Remedy};
use hitm_layout::emit::difference;
use hitm_report::fix::{contended_class_words, contended_words, java_options, jdk_words};
use hitm_report::{LineReport, ObjectUse};

use super::advisor::Case;

/// Prints places of annotations.
const PLACES: &str = include_str!("Places.java");

/// The annotation. Its package is not imported: a name may stand for another one in the file.
const ANNOTATION: &str = "@jdk.internal.vm.annotation.Contended";

/// Option of javac by which source may name the annotation.
const EXPORTS: &str = "--add-exports java.base/jdk.internal.vm.annotation=ALL-UNNAMED";

/// Option of a Java machine by which it heeds annotations of programs.
const HEEDS: &str = "-XX:-RestrictContended";

/// The remedy for a finding's objects; none where they are not a Java machine's.
pub(super) fn remedy(case: &Case<'_>) -> Option<Remedy> {
    let wanted = Wanted::of(case)?;
    let found = wanted.edited(case);
    let what = match wanted.fields.is_empty() {
        true => contended_class_words(&wanted.class),
        false => contended_words(&wanted.class, &wanted.fields),
    };
    let (file, diff) = match found {
        Ok((file, diff)) => (Some(file), Ok(diff)),
        Err((file, why)) => (file, Err(why)),
    };
    Some(Remedy {
        key: what.clone(),
        what,
        finding: case.finding.name.clone(),
        file,
        diff,
        replayed_gain: None,
        size_before: None,
        size_after: None,
        instance_count: None,
        assertions: String::new(),
        environment: Environment::new(
            &[("JDK_JAVAC_OPTIONS", EXPORTS)],
            &[("JAVA_TOOL_OPTIONS", HEEDS)],
        ),
        needs: java_options(EXPORTS, HEEDS),
    })
}

/// A class and the fields of it that get lines.
struct Wanted {
    class: String,
    /// None for whole objects.
    fields: Vec<String>,
    /// Reason for which no annotation helps.
    refusal: Option<String>,
}

/// A file that cannot be edited, where it is known, and the reason.
type Refusal = (Option<PathBuf>, String);

impl Wanted {
    fn of(case: &Case<'_>) -> Option<Wanted> {
        let contended = |line: &LineReport| {
            let objects = line.objects.iter();
            let objects = objects.filter(|object| object.contended_count > 0);
            objects.cloned().collect::<Vec<ObjectUse>>()
        };
        let objects: Vec<ObjectUse> = case.lines().flat_map(contended).collect();
        let first = objects.first()?;
        if !objects.iter().all(ObjectUse::is_java) {
            return None;
        }
        let mut wanted = Wanted {
            class: first.name.clone(),
            fields: Vec::new(),
            refusal: None,
        };
        if let Some(array) = objects.iter().find(|object| object.is_array) {
            wanted.refusal = Some(format!(
                "{}: no annotation keeps elements of an array apart",
                array.name
            ));
            return Some(wanted);
        }
        if objects.iter().all(ObjectUse::is_of_jdk) {
            wanted.refusal = Some(jdk_words(&wanted.class));
        }
        let places: BTreeSet<(&str, u64)> = objects
            .iter()
            .map(|object| (object.name.as_str(), object.address))
            .collect();
        let is_shared = case.lines().any(|line| contended(line).len() > 1);
        if !is_shared || places.len() == 1 {
            wanted.fields = wanted.written(case);
        }
        Some(wanted)
    }

    /// Fields of the class that are written on the finding's lines.
    fn written(&self, case: &Case<'_>) -> Vec<String> {
        let rows = case.lines().flat_map(|line| &line.rows);
        let written = rows.filter(|row| row.op.is_write() && row.lost_cycles > 0);
        let fields = written.filter_map(|row| {
            let field = row.member.strip_prefix(&self.class)?.strip_prefix('.')?;
            (!field.starts_with('<')).then(|| field.to_owned())
        });
        let fields: BTreeSet<String> = fields.collect();
        fields.into_iter().collect()
    }

    /// The file that declares the class, and its diff.
    fn edited(&self, case: &Case<'_>) -> Result<(PathBuf, String), Refusal> {
        if let Some(why) = &self.refusal {
            return Err((None, why.clone()));
        }
        let outer = self.class.rsplit('.').next().unwrap_or(&self.class);
        let outer = outer.split('$').next().unwrap_or(outer);
        for file in case.tree.files() {
            let is_java = file.extension().is_some_and(|ending| ending == "java");
            let Ok(text) = case.tree.read(file) else {
                continue;
            };
            if !is_java || !text.contains(outer) {
                continue;
            }
            let failed = |why| (Some(file.clone()), why);
            let answer = self.ask(&case.tree.root().join(file)).map_err(failed)?;
            if let Some(places) = places(&answer, file).map_err(failed)? {
                let after = annotated(&text, &places);
                let shown = file.display().to_string();
                return Ok((file.clone(), difference(&shown, &text, &after)));
            }
        }
        Err((None, format!("no file of the tree declares {}", self.class)))
    }

    /// The small program's answer about a file.
    fn ask(&self, file: &Path) -> Result<String, String> {
        let failed = |error| format!("cannot ask java for places in its source: {error}");
        let mut program = tempfile::Builder::new()
            .suffix(".java")
            .tempfile()
            .map_err(failed)?;
        program.write_all(PLACES.as_bytes()).map_err(failed)?;
        let mut java = Command::new("java");
        java.arg(program.path()).arg(file).arg(&self.class);
        let output = java.args(&self.fields).stdin(Stdio::null()).output();
        let output = output.map_err(failed)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => {
                let errors = String::from_utf8_lossy(&output.stderr);
                let first = errors.lines().next().unwrap_or_default();
                Err(failed(std::io::Error::other(format!(
                    "{first} (a JDK of version 11 or later has the compiler)"
                ))))
            }
        }
    }
}

/// Places that the small program names, in UTF-16 units; none where the file does not declare the class.
fn places(answer: &str, file: &Path) -> Result<Option<Vec<usize>>, String> {
    let mut places = Vec::new();
    for line in answer.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words[..] {
            ["at", place] => places.extend(place.parse::<usize>().ok()),
            ["refused", line, found, expected] => {
                let file = file.display();
                return Err(format!("{file}:{line}: found {found}, expected {expected}"));
            }
            _ => {}
        }
    }
    Ok(Some(places).filter(|places| !places.is_empty()))
}

/// The text with the annotation at some places, on a line of its own where nothing else comes before.
fn annotated(text: &str, places: &[usize]) -> String {
    let mut out = String::new();
    let mut units = 0;
    for (at, character) in text.char_indices() {
        if places.contains(&units) {
            let line = &text[text[..at].rfind('\n').map_or(0, |end| end + 1)..at];
            out += ANNOTATION;
            match line.trim().is_empty() {
                true => out += &format!("\n{line}"),
                false => out.push(' '),
            }
        }
        out.push(character);
        units += character.len_utf16();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_come_before_what_they_are_for() {
        let text = "class A {\n    /* \u{1f600} */ long a;\n    volatile int b;\n}\n";
        let at = |part: &str| text[..text.find(part).unwrap()].encode_utf16().count();
        assert_eq!(
            annotated(text, &[at("long"), at("volatile")]),
            format!(
                "class A {{\n    /* \u{1f600} */ {ANNOTATION} long a;\n    {ANNOTATION}\n    volatile int b;\n}}\n"
            )
        );
    }

    #[test]
    fn answers_are_places_or_refusals() {
        let file = Path::new("A.java");
        assert_eq!(places("at\t3\nat\t17\n", file), Ok(Some(vec![3, 17])));
        assert_eq!(places("none\n", file), Ok(None));
        assert_eq!(
            places("refused\t4\tno field a in class A\tthe source\n", file),
            Err("A.java:4: found no field a in class A, expected the source".to_owned())
        );
    }
}
