//! A recorded program whose threads, arguments, folder, types and symbols have hostile names.

use std::path::{Path, PathBuf};

use crate::hostile_names::{HOSTILE, all_strings, file_name, same_room, temporary, text_of, write};
use crate::programs::{build, run};

/// Two threads that go by the first argument, and a line that they share. They spin until both are
/// there: one that sleeps may wake up when the other has ended. Names are as long as those that take
/// their places in the file.
const PROGRAM: &str = "
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
struct TTTTTTTTTTTTTTTTT { long MMMMMMMMMMMMMMMMM; long other; };
static volatile struct TTTTTTTTTTTTTTTTT VVVVVVVVVVVVVVVVV __attribute__((aligned(64)));
static char *name;
static int waiting __attribute__((aligned(64))) = 2;
static __attribute__((noinline)) void *FFFFFFFFFFFFFFFFF(void *number)
{
	prctl(PR_SET_NAME, name);
	__atomic_fetch_sub(&waiting, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) > 0)
		;
	for (int i = 0; i < 20000; i++) {
		if (number)
			VVVVVVVVVVVVVVVVV.MMMMMMMMMMMMMMMMM++;
		else
			VVVVVVVVVVVVVVVVV.other++;
	}
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t threads[2];
	name = argv[argc > 1];
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, FFFFFFFFFFFFFFFFF, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
";

/// Names of type, member, variable and function.
struct Names([String; 4]);

impl Names {
    fn hostile() -> Names {
        Names(["T", "M", "V", "F"].map(|kind| format!("{kind}\x1b]0;x\x07\nFORGED\x7f..")))
    }

    fn plain() -> Names {
        Names(["T", "M", "V", "F"].map(|kind| kind.repeat(17)))
    }
}

/// Builds the program in `folder` and gives its names to it.
fn program(folder: &Path, names: &Names) -> PathBuf {
    std::fs::create_dir_all(folder).expect("a folder");
    write(folder, "p.c", PROGRAM);
    let program = build(folder, "p", &folder.join("p.c"), &[]);
    let mut bytes = std::fs::read(&program).expect("the program");
    for (plain, name) in Names::plain().0.iter().zip(&names.0) {
        let length = name.len();
        assert_eq!(plain.len(), length, "{name:?}");
        for at in 0..bytes.len() - length {
            if bytes[at..].starts_with(plain.as_bytes()) {
                bytes[at..at + length].copy_from_slice(name.as_bytes());
            }
        }
    }
    std::fs::write(&program, bytes).expect("the program");
    program
}

/// The first command that shows types; those before it show a run.
const FIRST_OF_TYPES: usize = 5;

/// Records the program in a folder of this name with one more argument; what each command prints.
fn outputs(folder: &str, thread: &str, argument: &str, names: &Names) -> Vec<String> {
    let directory = temporary();
    let path = directory.path();
    let program = program(&path.join(folder), names);
    let program = program.to_str().expect("a temporary path is UTF-8");
    let args = ["record", "-o", "a.hitm", "--", program, thread, argument];
    let recorded = text_of(&run(path, &args), &args);
    assert_eq!(recorded.0, 0, "{recorded:?}");
    let type_name = &names.0[0];
    let commands = [
        &["report", "-i", "a.hitm"][..],
        &["report", "-i", "a.hitm", "--perf-c2c"],
        &["report", "-i", "a.hitm", "--type", type_name],
        &["diff", "a.hitm", "a.hitm"],
        &["whatif", "-i", "a.hitm"],
        &["layout", "show", type_name, "-i", program],
        &["layout", "list", "-i", program],
        &["layout", "diff", program, program, type_name],
    ];
    let mut texts = Vec::new();
    for args in commands {
        let (code, out, error) = text_of(&run(path, args), args);
        assert_eq!(code, 0, "{args:?}: {error}");
        texts.push(out);
        let json = [args, &["--format", "json"]].concat();
        let (_, json, _) = text_of(&run(path, &json), &json);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        // What text shows escaped is in JSON as it was: JSON's own escapes are undone here.
        let has_name =
            all_strings(&json).any(|text| names.0.iter().any(|name| text.contains(name)));
        assert!(has_name, "{args:?}: {json:#}");
    }
    let args = ["export", "a.hitm", "--calls", "a.csv"];
    let (code, _, error) = text_of(&run(path, &args), &args);
    assert_eq!(code, 2, "{error}");
    let report = run(path, &["report", "-i", "a.hitm", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let strings: Vec<&str> = all_strings(&report).collect();
    assert!(
        strings.contains(&thread) && strings.contains(&argument),
        "{report:#}"
    );
    texts
}

#[test]
fn a_recorded_program_forges_no_line() {
    // The kernel writes a newline in the path of a mapping as four other characters.
    let folder = file_name().replace('\n', "|");
    let hostile = outputs(&folder, "\x1b]0;x\x07\nFORGED", HOSTILE, &Names::hostile());
    let escaped = r"\x1b]0;x\x07\nFORGED\x7f..";
    for (text, place) in hostile.iter().zip(0..) {
        assert!(
            text.contains(r"\x1b") && text.contains(r"FORGED"),
            "{place}: {text}"
        );
    }
    assert!(
        hostile[FIRST_OF_TYPES].contains(escaped),
        "{}",
        hostile[FIRST_OF_TYPES]
    );
    let (folder, argument) = (same_room(&folder), same_room(HOSTILE));
    let plain = outputs(&folder, "plain-thread", &argument, &Names::plain());
    // Two runs lose a few lines more or less to contention, so only types have as many. A line that a
    // name forged would begin with FORGED; what samples are shown in is counted above.
    let both = hostile.iter().zip(&plain).skip(FIRST_OF_TYPES);
    for (hostile, plain) in both {
        assert_eq!(
            hostile.lines().count(),
            plain.lines().count(),
            "{hostile}\n{plain}"
        );
    }
}
