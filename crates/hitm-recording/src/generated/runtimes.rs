//! Names that runtimes give the functions of their languages in perf's maps.
//!
//! V8 writes `JS:*bump /app/count.js:2:14` (`LazyCompile:` before version 10, `Function:` for some), with a mark for
//! how a function is compiled: `*`, `^`, `~` or none. CPython (Lib/test/test_perf_profiler.py, 3.12) writes
//! `py::left:/app/count.py`.

use crate::recording::CodeLabel;

/// Beginnings of V8's names for functions of a script.
const V8: [&str; 3] = ["JS:", "LazyCompile:", "Function:"];

/// A language's runtime whose functions have names only if it is asked for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runtime {
    /// Beginning of the names of its programs' files.
    program: &'static str,
    /// Sentence on the option.
    pub(crate) hint: &'static str,
}

const RUNTIMES: [Runtime; 2] = [
    Runtime {
        program: "node",
        hint: "JavaScript functions have no names: start node with --perf-basic-prof \
               --interpreted-frames-native-stack",
    },
    Runtime {
        program: "python3",
        hint: "Python functions are not among the callers: start Python 3.12 or later with -X perf",
    },
];

/// The runtime that a program is, by the path of its file.
pub(crate) fn of_program(path: &str) -> Option<Runtime> {
    let file = path.rsplit('/').next().unwrap_or(path);
    let mut runtimes = RUNTIMES.into_iter();
    runtimes.find(|runtime| file.starts_with(runtime.program))
}

/// Function, file and line in a name; any other name as the function.
pub(super) fn label(name: &str) -> CodeLabel {
    let found = of_v8(name).or_else(|| of_python(name));
    found.unwrap_or_else(|| CodeLabel {
        function: name.to_owned(),
        ..CodeLabel::default()
    })
}

fn of_v8(name: &str) -> Option<CodeLabel> {
    let rest = V8.iter().find_map(|begin| name.strip_prefix(begin))?;
    let rest = rest.trim_start_matches(['*', '^', '~']);
    let (function, place) = rest.split_once(' ')?;
    // The line, and behind it the column in newer versions.
    let (before, last) = place.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let with_column = before.rsplit_once(':');
    let with_column = with_column.and_then(|(file, line)| Some((file, line.parse().ok()?)));
    let (file, line) = with_column.unwrap_or((before, last));
    Some(CodeLabel {
        function: match function {
            "" => "(anonymous)".to_owned(),
            function => function.to_owned(),
        },
        file: file.trim_start_matches("file://").to_owned(),
        line,
    })
}

fn of_python(name: &str) -> Option<CodeLabel> {
    let (function, file) = name.strip_prefix("py::")?.split_once(':')?;
    Some(CodeLabel {
        function: function.to_owned(),
        file: file.to_owned(),
        line: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_v8_and_python_have_function_and_place() {
        let parts = |name: &str| {
            let label = label(name);
            (label.function, label.file, label.line)
        };
        let of = |function: &str, file: &str, line| (function.to_owned(), file.to_owned(), line);
        assert_eq!(parts("JS:*bump /app/a.js:2:14"), of("bump", "/app/a.js", 2));
        assert_eq!(parts("LazyCompile:~add a.js:3"), of("add", "a.js", 3));
        assert_eq!(
            parts("JS:^ node:internal/x:7:1"),
            of("(anonymous)", "node:internal/x", 7)
        );
        assert_eq!(parts("Builtin:AtomicsAdd"), of("Builtin:AtomicsAdd", "", 0));
        assert_eq!(parts("py::A.left:/app/a.py"), of("A.left", "/app/a.py", 0));
        assert_eq!(parts("JS:"), of("JS:", "", 0));
        assert_eq!(parts("py::"), of("py::", "", 0));
    }

    #[test]
    fn a_runtime_is_known_by_its_file() {
        assert!(of_program("/usr/bin/node").is_some());
        assert!(of_program("/usr/bin/python3.12").is_some());
        assert_eq!(of_program("/opt/node/bin/server"), None);
    }
}
