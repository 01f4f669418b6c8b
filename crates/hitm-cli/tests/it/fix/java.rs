//! `hitm fix` on programs of Java.

use hitm_test::process::Command;

use super::{Tree, only};
use crate::programs::say_not_run;

/// Three threads that loop at the same time, each with a field of its own in one object or one class: two of three lie
/// on one line wherever they begin.
const SOURCE: &str = r#"package app;

public class Counts {
    /** The first thread's. */
    volatile long left;
    volatile long middle;
    volatile long right;
    static volatile long hits;
    static volatile long misses;
    static volatile long errors;

    static void run(Runnable... all) throws Exception {
        Thread[] threads = new Thread[all.length];
        var begun = new java.util.concurrent.CountDownLatch(all.length);
        for (int i = 0; i < all.length; i++) {
            Runnable loop = all[i];
            threads[i] = new Thread(() -> {
                begun.countDown();
                try { begun.await(); } catch (InterruptedException e) { return; }
                loop.run();
            });
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
    }

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        Counts counts = new Counts();
        if (arguments[0].equals("fields")) {
            run(() -> { for (int i = 0; i < count; i++) counts.left++; },
                () -> { for (int i = 0; i < count; i++) counts.middle++; },
                () -> { for (int i = 0; i < count; i++) counts.right++; });
        } else {
            run(() -> { for (int i = 0; i < count; i++) hits++; },
                () -> { for (int i = 0; i < count; i++) errors++; },
                () -> { for (int i = 0; i < count; i++) misses++; });
        }
        System.out.println(counts.left + counts.middle + counts.right + hits + misses + errors);
    }
}
"#;

const BUILD: &str = "javac -g -d %/out %/src/app/Counts.java";

/// Loops are compiled once, after so many rounds, not when the compiler's thread gets a CPU.
const JAVA: &str = "java -Xbatch -XX:TieredStopAtLevel=1 -XX:Tier3BackEdgeThreshold=2000 -XX:+UseSerialGC -cp %/out app.Counts";

/// The answer about a program; none, with a word about it, where there is no compiler.
fn answer(build: &str, what: &str) -> Option<serde_json::Value> {
    let tree = Tree::of(&[("src/app/Counts.java", SOURCE)]);
    let javac = Command::new("javac").arg("-version").output();
    if javac.is_err() {
        say_not_run("@Contended", "there is no javac");
        return None;
    }
    let run = format!("{JAVA} {what}");
    let mut command = tree.command(build, "", &["--format", "json", "--run", &run]);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hitm fix fails: {error}");
    assert_eq!(tree.text_of("src/app/Counts.java"), SOURCE);
    Some(serde_json::from_slice(&output.stdout).expect("the answer is JSON"))
}

#[test]
fn fields_of_java_are_annotated_and_the_options_told() {
    let Some(answer) = answer(BUILD, "fields 300000") else {
        return;
    };
    let remedy = only(&answer, "remedies");
    let what = remedy["what"].as_str().unwrap();
    let fields = what.strip_prefix("app.Counts: @Contended on ");
    let fields = fields.unwrap_or_default().split(", ").count();
    assert!((2..=3).contains(&fields), "{answer:#}");
    assert_eq!(remedy["fate"], "kept", "{answer:#}");
    assert_eq!(remedy["file"], "src/app/Counts.java");
    let diff = answer["diff"].as_str().unwrap();
    let added = "+    @jdk.internal.vm.annotation.Contended\n";
    assert_eq!(diff.matches(added).count(), fields, "{diff}");
    let needs = remedy["needs"].as_str().unwrap();
    assert!(needs.contains("-XX:-RestrictContended"), "{needs}");
    let message = answer["message"].as_str().unwrap();
    let exports =
        "export JDK_JAVAC_OPTIONS='--add-exports java.base/jdk.internal.vm.annotation=ALL-UNNAMED'";
    assert!(message.contains(exports), "{message}");
}

#[test]
fn a_build_that_takes_no_options_is_refused_with_them() {
    let build = format!("env -u JDK_JAVAC_OPTIONS {BUILD}");
    let Some(answer) = answer(&build, "fields 300000") else {
        return;
    };
    let remedy = only(&answer, "remedies");
    assert_eq!(remedy["fate"], "refused", "{answer:#}");
    let reason = remedy["reason"].as_str().unwrap();
    for part in [
        "it does not build: ",
        "Counts.java:",
        "javac needs --add-exports ",
    ] {
        assert!(reason.contains(part), "no {part:?} in {reason}");
    }
}

#[test]
fn static_fields_of_java_are_refused() {
    let Some(answer) = answer(BUILD, "statics 300000") else {
        return;
    };
    let remedy = only(&answer, "remedies");
    assert_eq!(remedy["fate"], "refused", "{answer:#}");
    let reason = remedy["reason"].as_str().unwrap();
    // The field that costs more is named.
    let fields = [(8, "hits"), (9, "misses"), (10, "errors")];
    let is_named = fields.iter().any(|(line, name)| {
        let found = format!("src/app/Counts.java:{line}: found the static field {name}, ");
        reason.starts_with(&format!("{found}expected a field of objects"))
    });
    assert!(is_named, "{reason}");
    assert_eq!(answer["diff"], "");
}
