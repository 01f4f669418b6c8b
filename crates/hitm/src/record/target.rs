//! The program to record: where it is, what it is built for, and which interpreter runs a script.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hitm_base::Architecture;
use hitm_files::limits;
use thiserror::Error;

/// Scripts whose interpreter is a script, and so on: Linux follows four.
const INTERPRETERS_MAX: usize = 4;

/// A program, found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The ELF file that runs.
    pub program: PathBuf,
    /// `argv[0]`, as the user typed it; for a script, the interpreter's name.
    pub arg0: String,
    /// The other arguments; for a script, the script first.
    pub args: Vec<String>,
    /// Architecture that it is built for.
    pub architecture: Architecture,
}

/// Reason for which a command cannot be recorded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TargetError {
    /// No command at all.
    #[error("no program to record: expected `hitm record [OPTIONS] -- PROGRAM ARGS`")]
    Empty,
    /// No such program.
    #[error("{0}: not found, neither as a path nor in PATH")]
    NotFound(String),
    /// It exists and is no program.
    #[error("{}: {found}, expected {expected}", path.display())]
    NotRunnable {
        /// The file.
        path: PathBuf,
        /// Kind of file that it is.
        found: String,
        /// Kind of file that is needed.
        expected: &'static str,
    },
}

impl Target {
    /// Finds what `command` would run.
    pub fn find(command: &[String]) -> Result<Target, TargetError> {
        Target::find_in(None, command)
    }

    /// Finds what `command` would run in another folder, of which a path without a slash at its beginning is one.
    pub fn find_in(directory: Option<&Path>, command: &[String]) -> Result<Target, TargetError> {
        let [name, args @ ..] = command else {
            return Err(TargetError::Empty);
        };
        let mut target_args = args.to_vec();
        let mut arg0 = name.clone();
        let mut program = locate(name, directory)?;
        for _ in 0..INTERPRETERS_MAX {
            match read_kind(&program)? {
                Kind::Elf(architecture) => {
                    return Ok(Target {
                        program,
                        arg0,
                        args: target_args,
                        architecture,
                    });
                }
                Kind::Script {
                    interpreter,
                    argument,
                } => {
                    target_args.insert(0, program.to_string_lossy().into_owned());
                    target_args.splice(0..0, argument);
                    arg0 = interpreter.clone();
                    program = locate(&interpreter, directory)?;
                }
            }
        }
        let expected = "an interpreter that is a program";
        Err(not_runnable(&program, "a script run by scripts", expected))
    }
}

enum Kind {
    Elf(Architecture),
    Script {
        interpreter: String,
        argument: Option<String>,
    },
}

/// As a shell would: a name with a slash is a path, any other is looked for in PATH.
fn locate(name: &str, directory: Option<&Path>) -> Result<PathBuf, TargetError> {
    let not_found = || TargetError::NotFound(name.to_string());
    let path = if name.contains('/') {
        directory.map_or_else(|| PathBuf::from(name), |folder| folder.join(name))
    } else {
        find_in_path(name).ok_or_else(not_found)?
    };
    let metadata = path.metadata().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => not_found(),
        _ => unreadable(&path, error),
    })?;
    if !metadata.is_file() {
        return Err(not_runnable(&path, "not a file", "a program"));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(not_runnable(
            &path,
            "a file without execute permission",
            "a program",
        ));
    }
    Ok(path)
}

/// The first executable file of this name in the directories of PATH.
pub(crate) fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| {
            candidate
                .metadata()
                .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        })
}

fn read_kind(path: &Path) -> Result<Kind, TargetError> {
    let mut head = Vec::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(256).read_to_end(&mut head));
    read.map_err(|error| unreadable(path, error))?;
    let expected = "a 64-bit little-endian ELF program for x86-64 or aarch64, or a script";
    match head.as_slice() {
        [b'#', b'!', rest @ ..] => script(rest)
            .ok_or_else(|| not_runnable(path, "a script without an interpreter", expected)),
        // 64 bits, little-endian; the machine is the half-word at 18.
        [0x7f, b'E', b'L', b'F', 2, 1, ..] if head.len() >= 20 => {
            let machine = u16::from_le_bytes([head[18], head[19]]);
            let found = Architecture::of_elf(machine).map(Kind::Elf);
            found.ok_or_else(|| {
                let found = format!("an ELF file for machine {machine}");
                not_runnable(path, &found, expected)
            })
        }
        _ => Err(not_runnable(
            path,
            "neither an ELF file nor a script",
            expected,
        )),
    }
}

fn script(first_line: &[u8]) -> Option<Kind> {
    let line = first_line.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let line = line.trim();
    let (interpreter, argument) = match line.split_once(char::is_whitespace) {
        Some((interpreter, argument)) => (interpreter, Some(argument.trim().to_string())),
        None => (line, None),
    };
    (!interpreter.is_empty()).then(|| Kind::Script {
        interpreter: interpreter.to_string(),
        argument,
    })
}

fn unreadable(path: &Path, error: io::Error) -> TargetError {
    let error = limits::explain(error);
    not_runnable(path, &format!("unreadable ({error})"), "a program")
}

fn not_runnable(path: &Path, found: &str, expected: &'static str) -> TargetError {
    TargetError::NotRunnable {
        path: path.to_path_buf(),
        found: found.to_string(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_script_is_run_by_its_interpreter() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        fs::write(&script, "#!/bin/sh -e\nexit 0\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let script = script.to_str().unwrap().to_string();
        let target = Target::find(&[script.clone(), "x".into()]).unwrap();
        assert_eq!(target.program, Path::new("/bin/sh"));
        assert_eq!(target.args, ["-e".to_string(), script, "x".to_string()]);
    }

    #[test]
    fn what_is_no_program_is_said() {
        let message = |command: &str| Target::find(&[command.into()]).unwrap_err().to_string();
        assert_eq!(
            message("no-such-program"),
            "no-such-program: not found, neither as a path nor in PATH"
        );
        assert_eq!(message("/"), "/: not a file, expected a program");
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join("text");
        fs::write(&text, "hello").unwrap();
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(message(text.to_str().unwrap()).contains("neither an ELF file nor a script"));
        assert!(matches!(Target::find(&[]), Err(TargetError::Empty)));
    }
}
