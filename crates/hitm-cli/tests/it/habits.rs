//! Users of perf: recordings with or without -i, commands of other tools, the former recording, chosen defaults.

use std::fs;
use std::path::Path;

use hitm_test::process::Command;

use crate::programs::{build, hitm};

/// Two threads that write neighbouring words.
const PACKED: &str = r"
#include <pthread.h>

static struct { volatile long one, two; } __attribute__((aligned(64))) packed;

static void *count(void *unused)
{
	for (int i = 0; i < 20000; i++)
		packed.two++;
	return unused;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, count, 0);
	for (int i = 0; i < 20000; i++)
		packed.one++;
	return pthread_join(thread, 0);
}
";

/// The program's path.
fn packed(folder: &Path) -> String {
    let source = folder.join("packed.c");
    fs::write(&source, PACKED).expect("a source");
    let program = build(folder, "packed", &source, &[]);
    program.display().to_string()
}

/// Exit code, output and errors of hitm in a folder, whose user has no settings.
fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(hitm());
    command.args(args).current_dir(folder);
    command.env("XDG_CONFIG_HOME", folder.join("of-user"));
    let done = command.output().expect("hitm runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        done.status.code().expect("it ends by itself"),
        text(&done.stdout),
        text(&done.stderr),
    )
}

#[test]
fn what_users_of_perf_type_is_answered() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let program = packed(folder);
    let program = program.as_str();
    let refused = |args: &[&str]| {
        let (code, _, errors) = run(folder, args);
        assert_eq!(code, 2, "{errors}");
        errors
    };
    assert!(
        refused(&["c2c", "report"]).contains("hitm has no command c2c: use `hitm record PROGRAM`")
    );
    assert!(refused(&["top"]).contains("`hitm live lines -p PID`"));
    assert!(refused(&["repot"]).contains("unrecognized subcommand 'repot'"));
    for verb in ["report", "whatif"] {
        assert!(refused(&[verb]).contains("there is no hitm.data in this folder: record first"));
        assert!(refused(&[verb, program]).contains("is a program, expected a recording"));
    }
    for _ in 0..2 {
        assert_eq!(run(folder, &["record", program]).0, 0);
    }
    let (by_default, behind_option, alone) = (
        run(folder, &["report"]),
        run(folder, &["report", "-i", "hitm.data"]),
        run(folder, &["report", "hitm.data"]),
    );
    assert_eq!((&by_default.1, &by_default.1), (&behind_option.1, &alone.1));
    // The former recording is of the same run, but for the numbers of threads.
    let former = run(folder, &["report", "hitm.data.old"]);
    assert_eq!(
        (former.0, former.1.lines().next()),
        (0, alone.1.lines().next())
    );
    assert_eq!(
        run(folder, &["whatif", "hitm.data", "--threads-to", "compact"]).0,
        0
    );
}

#[test]
fn a_folder_and_a_user_choose_defaults() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let program = packed(folder);
    let program = program.as_str();
    fs::create_dir_all(folder.join("of-user/hitm")).expect("a folder");
    fs::write(
        folder.join("of-user/hitm/config.toml"),
        "machine = 'milan-2s'\nthreads-to = '0,32'\n",
    )
    .expect("a file");
    fs::write(
        folder.join("hitm.toml"),
        "machine = 'icelake-2s'\nfail-on = ['false-sharing']\n",
    )
    .expect("a file");
    assert_eq!(run(folder, &["record", program]).0, 0);
    let (code, report, _) = run(folder, &["report"]);
    assert_eq!(code, 1, "{report}");
    let setting = report.lines().nth(1).expect("a line about the machine");
    assert_eq!(
        setting,
        "  as on icelake-2s (128 CPUs, 2 nodes), 2 threads placed 0,32"
    );
    assert_eq!(run(folder, &["report", "--suppress", "pack*"]).0, 0);
    fs::write(
        folder.join("hitm.toml"),
        "fail-on = ['false-sharing']\nsuppress = ['packed']\n",
    )
    .expect("a file");
    assert_eq!(run(folder, &["report"]).0, 0);
    assert_eq!(run(folder, &["record", "-m", "genoa-384", program]).0, 0);
    assert!(
        run(folder, &["report"]).1.contains("as on genoa-384"),
        "what is typed comes first"
    );
    fs::write(folder.join("hitm.toml"), "\nmashine = 'host'\n").expect("a file");
    let (code, _, errors) = run(folder, &["report"]);
    assert_eq!(code, 2);
    assert_eq!(
        errors,
        "hitm: error: hitm.toml:2: unknown field `mashine`, expected one of `machine`, `threads-to`, `fail-on`, `suppress`\n"
    );
}
