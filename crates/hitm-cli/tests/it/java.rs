//! Objects of a Java machine have the names of their classes and fields, and compiled code has its source lines.

use std::fs;
use std::path::Path;

use hitm_test::process::Command;
use serde_json::Value;

use crate::programs;

/// Two threads each: on fields of an object, on static fields, on elements of an array.
const SOURCE: &str = r#"
package app;

public class Counts {
    volatile long left;
    volatile long right;
    static volatile long hits;
    static volatile long misses;
    static final long[] slots = new long[8];

    static void start(int count, Runnable one, Runnable other) throws Exception {
        Thread[] threads = {new Thread(one), new Thread(other)};
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
    }

    static void fill(int slot, int count) {
        for (int i = 0; i < count; i++) {
            slots[slot]++;
            java.lang.invoke.VarHandle.fullFence();
        }
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        Counts counts = new Counts();
        switch (arguments[0]) {
            case "fields" -> start(count,
                () -> { for (int i = 0; i < count; i++) counts.left++; },
                () -> { for (int i = 0; i < count; i++) counts.right++; });
            case "statics" -> start(count,
                () -> { for (int i = 0; i < count; i++) hits++; },
                () -> { for (int i = 0; i < count; i++) misses++; });
            default -> start(count, () -> fill(0, count), () -> fill(1, count));
        }
    }
}
"#;

/// Compiles the program; false, with a word about it, where there is no compiler.
fn compile(folder: &Path) -> bool {
    let source = folder.join("Counts.java");
    fs::write(&source, SOURCE).expect("a temporary file");
    let mut javac = Command::new("javac");
    match javac.arg("-d").arg(folder).arg(&source).output() {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            true
        }
        Err(_) => {
            programs::say_not_run("names of a Java machine", "there is no javac");
            false
        }
    }
}

/// Records the program; returns its report.
fn report_of(folder: &Path, options: &[&str], what: &str) -> Value {
    report_by("java", folder, options, what)
}

fn report_by(java: &str, folder: &Path, options: &[&str], what: &str) -> Value {
    let record = ["record", "-q", "-o", "java.hitm", "--", java];
    // A loop is compiled after so many rounds, not when the compiler's thread gets a CPU.
    let compiled = ["-Xbatch", "-XX:Tier3BackEdgeThreshold=2000"];
    let java = [&record[..], &compiled, options].concat();
    let args = [&java[..], &["-cp", ".", "app.Counts", what, "60000"]].concat();
    let run = programs::run(folder, &args);
    assert!(run.status.success(), "{run:?}");
    assert_eq!(String::from_utf8_lossy(&run.stderr), "", "{what}");
    programs::report(&folder.join("java.hitm"))
}

/// The line with objects of this name.
fn line<'r>(report: &'r Value, object: &str) -> &'r Value {
    let lines = report["lines"].as_array().expect("lines");
    let has_it = |line: &&Value| line["objects"][0]["name"] == object;
    let found = lines.iter().find(has_it);
    found.unwrap_or_else(|| panic!("no {object} in {lines:#?}"))
}

fn members(line: &Value) -> Vec<&str> {
    let rows = line["rows"].as_array().expect("rows");
    let mut members: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["member"].as_str())
        .collect();
    members.sort_unstable();
    members.dedup();
    members
}

#[test]
fn fields_statics_and_elements_have_their_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    if !compile(folder.path()) {
        return;
    }
    let folder = folder.path();
    for options in [
        &[][..],
        &["-XX:+UseSerialGC", "-XX:-UseCompressedClassPointers"],
    ] {
        let report = report_of(folder, options, "fields");
        let fields = line(&report, "app.Counts");
        // The object may begin in one line and end in the next.
        let names = members(fields);
        let used = ["app.Counts.left", "app.Counts.right"].map(|name| names.contains(&name));
        assert!(used[0] || used[1], "{names:?}");
        let advice = fields["advice"].as_str().expect("text");
        let wanted = match used {
            [true, true] => {
                "app.Counts.left, app.Counts.right (fields of app.Counts): @Contended or a class each"
            }
            [true, false] => {
                "app.Counts.left (field of app.Counts): @Contended or a class of its own"
            }
            _ => "app.Counts.right (field of app.Counts): @Contended or a class of its own",
        };
        assert!(advice.starts_with(wanted), "{advice}");
        assert_eq!(fields["objects"][0]["origin"], "Java heap");
        let sources = fields["rows"].as_array().expect("rows").iter();
        let mut sources = sources.filter_map(|row| row["source"].as_str());
        assert!(
            sources.any(|source| source.contains("Counts.java:")),
            "{fields:#}"
        );
    }
    let report = report_of(folder, &[], "statics");
    let names = members(line(&report, "app.Counts"));
    for wanted in ["app.Counts.hits", "app.Counts.misses"] {
        assert!(names.contains(&wanted), "{names:?}");
    }
    let report = report_of(folder, &[], "elements");
    let slots = line(&report, "long[]");
    let names = members(slots);
    for wanted in ["long[][0]", "long[][1]"] {
        assert!(names.contains(&wanted), "{names:?}");
    }
    let advice = slots["advice"].as_str().expect("text");
    assert!(advice.contains("every 8th element of long[]"), "{advice}");
}

/// The `java` of a JDK of this version, where distributions put them.
fn java_of(version: &str) -> Option<String> {
    let folders = fs::read_dir("/usr/lib/jvm").ok()?;
    let mut folders: Vec<_> = folders.flatten().map(|entry| entry.path()).collect();
    folders.sort_unstable();
    let is_wanted = |folder: &&std::path::PathBuf| {
        let release = fs::read_to_string(folder.join("release")).unwrap_or_default();
        release.contains(&format!("JAVA_VERSION=\"{version}."))
    };
    let found = folders.iter().find(is_wanted)?.join("bin/java");
    found.to_str().map(str::to_owned)
}

#[test]
fn fields_of_jdk_25_have_their_names_and_lines() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    if !compile(folder.path()) {
        return;
    }
    let Some(java) = java_of("25") else {
        programs::say_not_run("names of JDK 25", "there is no JDK 25 in /usr/lib/jvm");
        return;
    };
    let compact = ["-XX:+UseSerialGC", "-XX:+UseCompactObjectHeaders"];
    let report = report_by(&java, folder.path(), &compact, "fields");
    let fields = line(&report, "app.Counts");
    let names = members(fields);
    let used = ["app.Counts.left", "app.Counts.right"].map(|name| names.contains(&name));
    assert!(used[0] || used[1], "{names:?}");
    let sources = fields["rows"].as_array().expect("rows").iter();
    let mut sources = sources.filter_map(|row| row["source"].as_str());
    assert!(
        sources.any(|source| source.contains("Counts.java:")),
        "{fields:#}"
    );
}

#[test]
fn what_has_no_name_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    if !compile(folder.path()) {
        return;
    }
    let report = report_of(folder.path(), &["-XX:+UseZGC"], "fields");
    let notes = report["diagnostics"].as_array().expect("notes");
    let notes: Vec<&str> = notes.iter().filter_map(Value::as_str).collect();
    let of_heap = notes.iter().find(|note| note.contains("Java heap"));
    assert!(
        of_heap.is_some_and(|note| note.contains("-XX:+UseG1GC")),
        "{notes:?}"
    );
}
