//! View of `hitm fix`: remedies that were tried, what is left, the patch and a message for its commit.

mod markdown;
mod text;

use std::collections::BTreeSet;

use hitm::fix::{Changed, Elsewhere, Fate, Fixed, Incurable, Limits, Step, Tried};
use hitm_base::counted;
use hitm_fields::fields;
use hitm_layout::advise::Plan;
use hitm_layout::emit::difference;

use crate::layout_advice::plan;
use crate::object::{Object, list};
use crate::sentences::fix as say;

/// Version of the JSON; docs/formats/fix.md describes it.
pub const FIX_SCHEMA: u64 = 1;

fields! {
    /// A remedy that was tried.
    #[derive(Debug, Clone, PartialEq)]
    pub struct FixRemedy in fix_remedy {
        /// Its number in the order of trials.
        pub number: u64 => number "#";
        /// The change in a few words.
        pub what: String => words "remedy";
        /// Name of the finding that it is for.
        pub finding: String => label "finding";
        /// Source file that it changes, below the source's folder; null when it is not known.
        pub file: String => known label "file";
        /// Median of the threads' cycles in the version before; null when it was not measured.
        pub cycles_before: Option<u64> => cycles "before";
        /// Median of the threads' cycles with the remedy.
        pub cycles_after: Option<u64> => cycles "after";
        /// Part of the median that it saves; negative where it costs more.
        pub gain: Option<f64> => share "gain";
        /// Part that its slowest run saves beside the fastest run before.
        pub sure_gain: Option<f64> => share "sure";
        /// Part that a replay of the recording saved.
        pub replayed_gain: Option<f64> => share "replay";
        /// Bytes of the structure before; null of what is none.
        pub size_before_bytes: Option<u64> => bytes "size";
        /// Bytes of the structure with the remedy.
        pub size_after_bytes: Option<u64> => bytes "new size";
        /// Instances of the structure that are accessed in the recording.
        pub instance_count: Option<u64> => count "instances";
        /// Bytes of these instances before.
        memory_before_bytes => bytes "in all", |row| row.memory(row.size_before_bytes);
        /// Bytes of these instances with the remedy.
        memory_after_bytes => bytes "new in all", |row| row.memory(row.size_after_bytes);
        /// kept, undone, measured or refused.
        pub fate: &'static str => label "fate";
        /// Reason for which it was refused; null of others.
        pub reason: String => known label "reason";
        /// Options that builds and runs need with it; null for none.
        pub needs: String => known label "needs";
    }
}

impl FixRemedy {
    /// Bytes of all instances of some size.
    fn memory(&self, size_bytes: Option<u64>) -> Option<u64> {
        Some(size_bytes?.saturating_mul(self.instance_count?))
    }
}

fields! {
    /// A finding that is left, since no layout ends it.
    #[derive(Debug, Clone, PartialEq)]
    pub struct FixLeft in fix_left {
        /// The finding.
        pub finding: String => label "finding";
        /// Kind of its contention.
        pub kind: String => words "kind";
        /// Part of all threads' time that it costs: what its end would gain at most.
        pub run_share: f64 => share "at most";
        /// Advice on it.
        pub fix: String => label "fix";
    }
}

fields! {
    /// Both versions on another machine, by replays.
    #[derive(Debug, Clone, PartialEq)]
    pub struct FixMachine in fix_machine {
        /// The machine model.
        pub machine: String => label "machine";
        /// Threads' cycles of the user's version.
        pub cycles_before: u64 => cycles "before";
        /// Threads' cycles with all that was kept.
        pub cycles_after: u64 => cycles "after";
        /// Part that all of it saves; negative where it costs more.
        gain => share "gain", |row| 1.0 - row.cycles_after as f64 / row.cycles_before.max(1) as f64;
    }
}

fields! {
    /// The result of all trials.
    #[derive(Debug, Clone, PartialEq)]
    pub struct FixView in fix {
        /// The machine model.
        pub machine: String => label "machine";
        /// Recordings of each version.
        pub run_count: u64 => count "runs";
        /// Part of the cycles that a remedy had to save beyond the spread.
        pub min_gain: f64 => share "asked for";
        /// Median of the threads' cycles in the user's version; null when nothing was measured.
        pub cycles_before: Option<u64> => cycles "before";
        /// Median of the threads' cycles with all that was kept.
        pub cycles_after: Option<u64> => cycles "after";
        /// Part that all of it saves.
        gain => share "gain", |view| view.gain();
        /// Words of the program's output that differ from run to run and were not compared.
        pub varying_words: u64 => count "varying";
        /// Exit code of the program.
        pub exit_code: Option<u64> => number "exit code";
        /// True if remedies were left when the limit of --remedies was reached.
        pub is_cut: bool => label "cut";
        /// Unified diff of all that was kept, for git apply; empty for nothing.
        pub diff: String => label "diff";
        /// Assertions that keep the layouts, as source.
        pub assertions: String => label "assertions";
        /// Layout file of what was kept of a kernel's structure, for hitm vm run --layout; empty for programs.
        pub layout: String => label "layout file";
        /// That structure as C, where no source was given; empty else.
        pub declaration: String => label "declaration";
        /// Message for a commit, with the commands that repeat the figures.
        pub message: String => label "message";
        /// The result on other machines.
        pub machines: Vec<FixMachine>;
        /// The remedies.
        pub remedies: Vec<FixRemedy>;
        /// Findings that are left.
        pub left: Vec<FixLeft>;
    }
}

/// Commands that repeat the figures, in a tree with the change or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands(pub Vec<String>);

impl FixView {
    /// The view of a result. `commands` repeat its figures.
    pub fn new(fixed: &Fixed, limits: &Limits, machine: &str, commands: &Commands) -> FixView {
        let kept = || {
            fixed
                .tried
                .iter()
                .filter(|one| matches!(one.fate, Fate::Kept(_)))
        };
        let assertions: Vec<&str> = kept()
            .map(|one| one.remedy.assertions.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        let remedies = fixed
            .tried
            .iter()
            .zip(1..)
            .map(|(one, number)| remedy(one, number));
        let diffs = fixed.changed.iter().map(diff);
        let mut view = FixView {
            machine: machine.to_owned(),
            run_count: limits.runs.into(),
            min_gain: limits.min_gain,
            cycles_before: fixed.first.map(|spread| spread.median),
            cycles_after: fixed.last.map(|spread| spread.median),
            varying_words: fixed.varying_words,
            exit_code: fixed.exit_code,
            is_cut: fixed.is_cut,
            diff: diffs.collect(),
            assertions: assertions.join("\n"),
            layout: fixed.layout.clone(),
            declaration: fixed.declaration.clone(),
            message: String::new(),
            machines: fixed.elsewhere.iter().map(machine_row).collect(),
            remedies: remedies.collect(),
            left: fixed.incurable.iter().map(left).collect(),
        };
        if kept().next().is_some() {
            let exports: BTreeSet<String> = kept()
                .flat_map(|one| one.remedy.environment.exports())
                .collect();
            view.message = message(&view, &exports, commands);
        }
        view
    }

    /// Part of the cycles that all kept remedies save.
    fn gain(&self) -> Option<f64> {
        let (before, after) = (self.cycles_before?, self.cycles_after?);
        Some(1.0 - after as f64 / before.max(1) as f64)
    }

    fn kept(&self) -> impl Iterator<Item = &FixRemedy> {
        self.remedies.iter().filter(|remedy| remedy.fate == KEPT)
    }

    /// The first sentence.
    fn result(&self) -> String {
        let runs = counted(self.run_count, "recording");
        if self.kept().next().is_some() {
            return say::result(
                fix::gain.text(self),
                fix::cycles_after.text(self),
                fix::cycles_before.text(self),
                runs,
                &self.machine,
            );
        }
        let mut remedies = self.remedies.iter();
        match remedies.all(|remedy| remedy.gain.is_none()) {
            true => say::no_remedy(),
            false => say::no_patch(runs, &self.machine, fix::min_gain.text(self)),
        }
    }

    /// Sentences about other machines.
    fn elsewhere(&self) -> impl Iterator<Item = String> {
        let rows = self.machines.iter();
        rows.map(|row| {
            let [gain, after, before] = [
                fix_machine::gain,
                fix_machine::cycles_after,
                fix_machine::cycles_before,
            ]
            .map(|field| field.text(row));
            say::elsewhere(&row.machine, gain, after, before)
        })
    }

    /// Sentences about what was not done.
    fn notes(&self) -> Vec<String> {
        let varying =
            (self.varying_words > 0).then(|| say::varying(counted(self.varying_words, "word")));
        let code = self.exit_code.filter(|code| *code != 0);
        let cut = self.is_cut.then(say::is_cut);
        let code = code.map(say::ends_with);
        let needs = self.kept().filter(|remedy| !remedy.needs.is_empty());
        let needs: BTreeSet<String> = needs.map(|remedy| format!("{}.", remedy.needs)).collect();
        let notes = varying.into_iter().chain(code).chain(cut);
        needs.into_iter().chain(notes).collect()
    }

    /// A line on what `--apply` wrote.
    pub fn applied(&self) -> String {
        let mut files: Vec<&str> = self.kept().map(|remedy| remedy.file.as_str()).collect();
        files.sort_unstable();
        files.dedup();
        say::applied(files.join(", "))
    }

    /// The result for programs.
    pub fn json(&self) -> String {
        Object::default()
            .with("schema", FIX_SCHEMA)
            .and(Object::of(fix::ALL, self))
            .with("remedies", list(fix_remedy::ALL, &self.remedies))
            .with("left", list(fix_left::ALL, &self.left))
            .with("machines", list(fix_machine::ALL, &self.machines))
            .text()
    }
}

/// Fates of remedies.
const KEPT: &str = "kept";
const UNDONE: &str = "undone";
const MEASURED: &str = "measured";
const REFUSED: &str = "refused";

fn remedy(tried: &Tried, number: u64) -> FixRemedy {
    let own = &tried.remedy;
    let (fate, judgement, reason) = match &tried.fate {
        Fate::Kept(judgement) => (KEPT, Some(judgement), ""),
        Fate::Undone(judgement) => (UNDONE, Some(judgement), ""),
        Fate::Compared(judgement) => (MEASURED, Some(judgement), ""),
        Fate::Refused(why) => (REFUSED, None, why.as_str()),
    };
    FixRemedy {
        number,
        what: own.what.clone(),
        finding: own.finding.clone(),
        file: own
            .file
            .as_ref()
            .map_or_else(String::new, |file| file.display().to_string()),
        cycles_before: judgement.map(|judgement| judgement.before.median),
        cycles_after: judgement.map(|judgement| judgement.after.median),
        gain: judgement.map(|judgement| judgement.gain()),
        sure_gain: judgement.map(|judgement| judgement.sure_gain()),
        replayed_gain: own.replayed_gain,
        size_before_bytes: own.size_before,
        size_after_bytes: own.size_after,
        instance_count: own.instance_count,
        fate,
        reason: reason.to_owned(),
        needs: own.needs.clone(),
    }
}

fn machine_row(one: &Elsewhere) -> FixMachine {
    FixMachine {
        machine: one.machine.clone(),
        cycles_before: one.before,
        cycles_after: one.after,
    }
}

fn left(one: &Incurable) -> FixLeft {
    FixLeft {
        finding: one.finding.clone(),
        kind: one.kind.clone(),
        run_share: one.share,
        fix: one.advice.clone(),
    }
}

/// The diff of a file, as git writes it.
fn diff(changed: &Changed) -> String {
    let file = changed.file.display();
    let diff = difference(&format!("a/{file}"), &changed.before, &changed.after);
    let diff = diff.replacen("\n+++ a/", "\n+++ b/", 1);
    diff.replacen("\n+++ \"a/", "\n+++ \"b/", 1)
}

/// A fate in words.
fn fate(row: &FixRemedy) -> String {
    let gain = row.gain.unwrap_or_default();
    match row.fate {
        KEPT => say::kept(fix_remedy::gain.text(row)),
        MEASURED if gain < 0.0 => say::compared_worse(per_cent(-gain)),
        MEASURED => say::compared(fix_remedy::gain.text(row), fix_remedy::sure_gain.text(row)),
        UNDONE if gain < 0.0 => say::undone_worse(per_cent(-gain)),
        UNDONE => say::undone(fix_remedy::gain.text(row), fix_remedy::sure_gain.text(row)),
        _ => say::refused(&row.reason),
    }
}

fn per_cent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A message for the commit.
fn message(view: &FixView, exports: &BTreeSet<String>, commands: &Commands) -> String {
    let names = view
        .kept()
        .map(|remedy| remedy.what.split(": ").next().unwrap_or(&remedy.what));
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    let mut out = format!("{}\n\n", say::title(names.join(", ")));
    for remedy in view.kept() {
        let line = match view.kept().count() {
            1 => say::only_line(&remedy.what),
            _ => say::kept_line(
                &remedy.what,
                fix_remedy::gain.text(remedy),
                fix_remedy::cycles_after.text(remedy),
                fix_remedy::cycles_before.text(remedy),
            ),
        };
        out += &format!("{line}\n");
        if !remedy.needs.is_empty() {
            out += &format!("{}.\n", remedy.needs);
        }
    }
    out += &format!(
        "\n{}\n\nTo repeat, with the change and without:\n\n",
        view.result()
    );
    for line in exports.iter().chain(&commands.0) {
        out += &format!("    {line}\n");
    }
    out
}

/// A step of the loop in words.
pub fn step(step: &Step<'_>) -> String {
    match step {
        Step::Base => say::base(),
        Step::Trial(remedy) => say::trial(&remedy.what),
        Step::Ended(tried) => say::ended(&tried.remedy.what, fate(&remedy(tried, 0))),
    }
}

/// A structure with another layout.
pub fn layout_words(name: &str, of: &Plan) -> String {
    say::of_layout(name, plan(of))
}

/// A layout file that remedies are compared with.
pub fn compared_words(name: &str, layout: &str) -> String {
    say::of_file(name, layout)
}

/// Fields of Rust in crossbeam's wrapper.
pub fn wrapped_words(name: &str, fields: &[&str]) -> String {
    say::wrapped(name, fields.join(", "))
}

/// Fields of a Java class with `@Contended`.
pub fn contended_words(class: &str, fields: &[String]) -> String {
    say::annotated(class, fields.join(", "))
}

/// Objects of a Java class with `@Contended`.
pub fn contended_class_words(class: &str) -> String {
    say::annotated_class(class)
}

/// Remedies for a class of the JDK, which takes no `@Contended`.
pub fn jdk_words(class: &str) -> String {
    say::for_jdk(class)
}

/// Options that `@Contended` needs.
pub fn java_options(exports: &str, heeds: &str) -> String {
    say::java_options(exports, heeds)
}

/// An array of values that are padded.
pub fn array_words(name: &str) -> String {
    say::array(name)
}

/// Variables that begin lines.
pub fn variables_words(names: &[&str]) -> String {
    say::variables(names.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hitm::fix::{Environment, Judgement, Remedy, Spread};

    use super::*;
    use crate::text::{PercentLimit, TextOptions};

    fn spread(median: u64) -> Spread {
        Spread {
            median,
            min: median - 10,
            max: median + 10,
        }
    }

    fn fixed() -> Fixed {
        let judgement = |after| Judgement {
            before: spread(1_000_000),
            after: spread(after),
        };
        let tried = |what: &str, fate| Tried {
            remedy: Remedy {
                key: what.to_owned(),
                what: what.to_owned(),
                finding: "foo".to_owned(),
                file: Some(PathBuf::from("src/a.c")),
                diff: Ok(String::new()),
                replayed_gain: Some(0.5),
                size_before: Some(16),
                size_after: Some(128),
                instance_count: Some(3),
                assertions: "_Static_assert(sizeof(struct foo) == 128, \"foo\");\n".to_owned(),
                environment: Environment::new(&[("A", "-b")], &[]),
                needs: "The build needs -b".to_owned(),
            },
            fate,
        };
        Fixed {
            tried: vec![
                tried(
                    "foo: by the model's search",
                    Fate::Refused("foo is packed (a.c:3)".to_owned()),
                ),
                tried(
                    "foo: x on a line of its own",
                    Fate::Undone(judgement(1_200_000)),
                ),
                tried(
                    "foo: each written member on a line of its own",
                    Fate::Kept(judgement(400_000)),
                ),
            ],
            incurable: vec![Incurable {
                finding: "account.lock".to_owned(),
                kind: "lock".to_owned(),
                share: 0.25,
                advice: "Take account.lock less often.".to_owned(),
            }],
            changed: vec![Changed {
                file: PathBuf::from("src/a.c"),
                before: "a\n\tb\n".to_owned(),
                after: "a\n\tc\n".to_owned(),
            }],
            elsewhere: vec![Elsewhere {
                machine: "genoa-384".to_owned(),
                before: 2_000_000,
                after: 500_000,
            }],
            first: Some(spread(1_000_000)),
            last: Some(spread(400_000)),
            varying_words: 1,
            exit_code: Some(0),
            is_cut: false,
            layout: String::new(),
            declaration: String::new(),
        }
    }

    fn view(fixed: &Fixed) -> FixView {
        let limits = Limits {
            runs: 3,
            min_gain: 0.03,
            remedies: 8,
        };
        let lines = ["make", "make test", "hitm record -- ./prog", "hitm report"];
        let commands = Commands(lines.map(str::to_owned).to_vec());
        FixView::new(fixed, &limits, "broadwell-4s", &commands)
    }

    fn assert_has(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }

    #[test]
    fn the_result_for_people() {
        let options = TextOptions {
            width: 200,
            color: false,
            has_events: false,
            percent_limit: PercentLimit::DEFAULT,
        };
        let text = view(&fixed()).text(&options);
        let parts = [
            "Threads take 60.0% less: 400,000 cycles instead of 1,000,000, 3 recordings of each version on broadwell-4s.\n",
            "On genoa-384, by replays, 75.0% less: 500,000 cycles instead of 2,000,000.\n",
            "     foo is packed (a.c:3)\n",
            "undone: 20.0% more\n",
            "kept, 60.0% less\n",
            "note: Not compared, as runs of the program as it is differ there: 1 word of its output.\n",
            "  account.lock (lock), at most 25.0% of the threads' time: Take account.lock less often.\n",
            "\nPatch:\n--- a/src/a.c\n+++ b/src/a.c\n@@ -1,2 +1,2 @@\n a\n-\tb\n+\tc\n",
            "_Static_assert(sizeof(struct foo) == 128, \"foo\");\n",
            "\nKeep apart what different threads use: foo\n\nfoo: each written member on a line of its own.\n",
            "The build needs -b.\n",
            "    export A='-b'\n    make\n    make test\n    hitm record -- ./prog\n    hitm report\n",
        ];
        assert_has(text.as_str(), &parts);
    }

    #[test]
    fn the_result_for_a_pull_request() {
        let parts = [
            "| 1,000,000 | 400,000 | 16 | 128 | 3 | 48 | 384 | kept, 60.0% less |\n",
            "| refused: foo is packed (a.c:3) |\n",
            "- account.lock (lock), at most 25.0% of the threads' time: Take account.lock less often.\n",
            "\n```diff\n--- a/src/a.c\n+++ b/src/a.c\n@@ -1,2 +1,2 @@\n a\n-\tb\n+\tc\n```\n",
        ];
        assert_has(&view(&fixed()).markdown(), &parts);
    }

    #[test]
    fn the_result_for_programs() {
        let json: serde_json::Value = serde_json::from_str(&view(&fixed()).json()).unwrap();
        assert_eq!((&json["schema"], &json["gain"]), (&1.into(), &0.6.into()));
        assert_eq!(json["remedies"][0]["reason"], "foo is packed (a.c:3)");
        assert_eq!(json["remedies"][0]["gain"], serde_json::Value::Null);
        assert_eq!(json["remedies"][2]["fate"], "kept");
        let row = &json["remedies"][2];
        let memory = [
            "instance_count",
            "memory_before_bytes",
            "memory_after_bytes",
        ];
        assert_eq!(
            memory.map(|key| row[key].as_u64()),
            [Some(3), Some(48), Some(384)]
        );
        assert_eq!(json["left"][0]["run_share"], 0.25);
        assert_eq!(json["machines"][0]["cycles_after"], 500_000);
    }

    #[test]
    fn nothing_to_keep_is_said() {
        let mut fixed = fixed();
        (fixed.tried, fixed.changed) = (Vec::new(), Vec::new());
        let view = view(&fixed);
        assert_eq!((view.message.as_str(), view.diff.as_str()), ("", ""));
        assert!(
            view.result()
                .starts_with("No patch: no finding has a remedy")
        );
    }
}
