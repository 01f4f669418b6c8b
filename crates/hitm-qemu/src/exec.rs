//! Programs that the recorded one starts in its place (execve): QEMU is started for them, with the
//! recorder.
//!
//! The plugin sees the guest's call before QEMU makes it, and makes another one: of QEMU, with the
//! program behind it. That needs nothing of the program: static ones, closed descriptors and a
//! cleared environment are all the same. What cannot be followed is left to QEMU's own call, which
//! runs it natively, or fails as it would.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::IntoRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::guest_memory;
use crate::launch::Launch;

/// Scripts whose interpreter is a script, and so on: Linux follows four.
const INTERPRETERS_MAX: usize = 4;
/// Arguments and variables of a program, and bytes of one: Linux takes 128 KiB.
const STRINGS_MAX: usize = 1 << 20;
const STRING_BYTES_MAX: usize = 128 << 10;

/// A guest's execve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    path: CString,
    args: Vec<CString>,
    environment: Vec<CString>,
}

/// A program that QEMU can run, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    path: CString,
    args: Vec<CString>,
}

/// Decision about an execve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It fails by itself, or so it seems.
    LetFail,
    /// The program runs unrecorded, for this reason.
    LeaveAlone(&'static str),
    /// QEMU runs the program.
    Follow(Program),
}

impl Call {
    /// Reads the call's strings from the guest; none where it has no memory.
    pub(crate) fn read([path, args, environment]: [u64; 3]) -> Option<Call> {
        Some(Call {
            path: guest_memory::read_string(path, STRING_BYTES_MAX)?,
            args: strings(args)?,
            environment: strings(environment)?,
        })
    }

    /// The program as the guest named it.
    pub(crate) fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Finds out what the call would run. `elf_machine` is the guest's, `own_program` the file that this
    /// process runs.
    pub(crate) fn plan(&self, elf_machine: u16, own_program: &Path) -> Plan {
        let mut path = real_path(
            Path::new(OsStr::from_bytes(self.path.to_bytes())),
            own_program,
        );
        let mut args = self.args.clone();
        for _ in 0..=INTERPRETERS_MAX {
            match kind(&path) {
                Kind::Unusable => return Plan::LetFail,
                Kind::Privileged => return Plan::LeaveAlone("setuid"),
                Kind::Elf { machine, bits } if bits != 64 || machine != elf_machine => {
                    return Plan::LeaveAlone("another architecture");
                }
                Kind::Elf { .. } => {
                    let Ok(path) = CString::new(path.into_os_string().as_encoded_bytes()) else {
                        return Plan::LetFail;
                    };
                    return Plan::Follow(Program { path, args });
                }
                Kind::Script(interpreter, argument) => {
                    let Ok(script) = CString::new(path.as_os_str().as_bytes()) else {
                        return Plan::LetFail;
                    };
                    let before = [Some(interpreter.clone()), argument, Some(script)];
                    args.splice(..args.len().min(1), before.into_iter().flatten());
                    path = PathBuf::from(OsStr::from_bytes(interpreter.to_bytes()));
                }
            }
        }
        Plan::LetFail
    }

    /// Runs the program under QEMU in this process, with the recording's `memory`. Comes back only when that
    /// is not possible.
    pub(crate) fn follow(&self, program: &Program, launch: &Launch, memory: File) {
        let fd = memory.into_raw_fd();
        // SAFETY: the descriptor is ours; the new program inherits it.
        unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
        let plugin = format!("{},fd={fd}", launch.plugin);
        let (environment, given) = self.environments(&launch.observer);
        let mut command = vec![launch.qemu.as_bytes(), b"-plugin", plugin.as_bytes()];
        for variable in &given {
            command.extend([b"-E".as_slice(), variable]);
        }
        let arg0 = program
            .args
            .first()
            .map_or(b"".as_slice(), |arg| arg.to_bytes());
        command.extend([b"-0", arg0, program.path.to_bytes()]);
        command.extend(program.args.iter().skip(1).map(|arg| arg.to_bytes()));
        let owned = |strings: &[&[u8]]| -> Option<Vec<CString>> {
            strings
                .iter()
                .map(|string| CString::new(*string).ok())
                .collect()
        };
        let environment: Vec<&[u8]> = environment
            .iter()
            .map(|variable| variable.to_bytes())
            .collect();
        let (Some(command), Some(environment)) = (owned(&command), owned(&environment)) else {
            return;
        };
        let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
            let all = strings.iter().map(|string| string.as_ptr());
            all.chain([std::ptr::null()]).collect()
        };
        // SAFETY: both arrays end with a null pointer and point to strings that live on.
        unsafe {
            let (args, variables) = (pointers(&command), pointers(&environment));
            libc::execve(args[0], args.as_ptr(), variables.as_ptr());
            libc::close(fd);
        }
    }

    /// The environment of QEMU, and the variables that it gives to the program: those that would change
    /// how QEMU itself is loaded.
    fn environments(&self, observer: &str) -> (Vec<CString>, Vec<Vec<u8>>) {
        let (mut given, mut kept) = (Vec::new(), Vec::new());
        let mut preload = observer.as_bytes().to_vec();
        for variable in &self.environment {
            let bytes = variable.to_bytes();
            match bytes.strip_prefix(b"LD_PRELOAD=") {
                Some(theirs) => {
                    let others = theirs
                        .split(|byte| matches!(byte, b':' | b' '))
                        .filter(|one| !one.is_empty() && *one != observer.as_bytes());
                    for other in others {
                        if !preload.is_empty() {
                            preload.push(b':');
                        }
                        preload.extend_from_slice(other);
                    }
                }
                None if bytes.starts_with(b"LD_") && !bytes.contains(&b',') => {
                    given.push(bytes.to_vec());
                }
                None => kept.push(variable.clone()),
            }
        }
        if !preload.is_empty() {
            given.push([b"LD_PRELOAD=".as_slice(), &preload].concat());
        }
        (kept, given)
    }
}

/// The strings of an array of pointers that a null pointer ends.
fn strings(mut array: u64) -> Option<Vec<CString>> {
    let mut found = Vec::new();
    if array == 0 {
        return Some(found);
    }
    while found.len() < STRINGS_MAX {
        let addr = guest_memory::read_word(array)?;
        if addr == 0 {
            return Some(found);
        }
        found.push(guest_memory::read_string(addr, STRING_BYTES_MAX)?);
        array += 8;
    }
    None
}

/// The file that a path in /proc leads to; those of this process show QEMU.
fn real_path(path: &Path, own_program: &Path) -> PathBuf {
    let own = format!("/proc/{}/exe", std::process::id());
    if path == Path::new("/proc/self/exe") || path == Path::new(&own) {
        return own_program.to_path_buf();
    }
    let is_descriptor = path.starts_with("/proc/self/fd") || path.starts_with("/dev/fd");
    match is_descriptor.then(|| fs::read_link(path)) {
        Some(Ok(file)) if file.is_absolute() && file.exists() => file,
        _ => path.to_path_buf(),
    }
}

enum Kind {
    Unusable,
    /// Running it gives other rights.
    Privileged,
    Elf {
        machine: u16,
        bits: u8,
    },
    Script(CString, Option<CString>),
}

fn kind(path: &Path) -> Kind {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
        return Kind::Unusable;
    };
    // SAFETY: a terminated string.
    let may_run = unsafe { libc::access(name.as_ptr(), libc::X_OK) } == 0;
    let metadata = fs::metadata(path)
        .ok()
        .filter(|data| may_run && data.is_file());
    let Some(metadata) = metadata else {
        return Kind::Unusable;
    };
    if is_privileged(&name, &metadata) {
        return Kind::Privileged;
    }
    let mut head = Vec::new();
    let read = File::open(path).map(|file| file.take(256).read_to_end(&mut head));
    match (read, head.as_slice()) {
        (Err(_), _) => Kind::Unusable,
        (_, [b'#', b'!', rest @ ..]) => script(rest).unwrap_or(Kind::Unusable),
        (_, [0x7f, b'E', b'L', b'F', class, 1, ..]) if head.len() >= 20 => Kind::Elf {
            machine: u16::from_le_bytes([head[18], head[19]]),
            bits: if *class == 2 { 64 } else { 32 },
        },
        _ => Kind::Unusable,
    }
}

/// Returns true if the program runs with other rights than this process.
fn is_privileged(name: &CStr, metadata: &fs::Metadata) -> bool {
    const GROUP_RUNS: u32 = 0o010;
    // SAFETY: plain system calls with terminated strings.
    let (user, group, capabilities) = unsafe {
        let attribute = c"security.capability".as_ptr();
        let length = libc::getxattr(name.as_ptr(), attribute, std::ptr::null_mut(), 0);
        (libc::geteuid(), libc::getegid(), length > 0)
    };
    let mode = metadata.mode();
    let other_user = mode & libc::S_ISUID != 0 && metadata.uid() != user;
    let other_group =
        mode & libc::S_ISGID != 0 && mode & GROUP_RUNS != 0 && metadata.gid() != group;
    other_user || other_group || (capabilities && user != 0)
}

fn script(first_line: &[u8]) -> Option<Kind> {
    let line = first_line.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t'));
    let (interpreter, argument) = line.split_at(end.unwrap_or(line.len()));
    let argument = argument.trim_ascii();
    if interpreter.is_empty() {
        return None;
    }
    let argument = (!argument.is_empty()).then(|| CString::new(argument).ok());
    Some(Kind::Script(
        CString::new(interpreter).ok()?,
        argument.flatten(),
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::arch::x86_64::X86_64;

    fn call(path: &Path, args: &[&str], environment: &[&str]) -> Call {
        let strings = |texts: &[&str]| {
            let all = texts.iter().map(|text| CString::new(*text).unwrap());
            all.collect::<Vec<_>>()
        };
        Call {
            path: CString::new(path.to_str().unwrap()).unwrap(),
            args: strings(args),
            environment: strings(environment),
        }
    }

    fn file(name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let path = std::env::temp_dir().join(format!("hitm-exec-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn scripts_are_run_by_their_interpreters_and_others_are_left_alone() {
        let own = Path::new("/bin/sh");
        let script = file("script", b"#! /bin/sh  -e x\nexit 0\n", 0o755);
        let plan = call(&script, &["a0", "a1"], &[]).plan(X86_64.elf_machine, own);
        let expected = ["/bin/sh", "-e x", script.to_str().unwrap(), "a1"];
        match plan {
            Plan::Follow(program) => {
                assert_eq!(program.path.to_str(), Ok("/bin/sh"));
                let args = program.args.iter().map(|arg| arg.to_str().unwrap());
                assert_eq!(args.collect::<Vec<_>>(), expected);
            }
            other => panic!("{other:?}"),
        }
        let plan = |path: &Path| call(path, &["a"], &[]).plan(X86_64.elf_machine, own);
        assert_eq!(plan(Path::new("/nonexistent")), Plan::LetFail);
        let plain = file("plain", b"#!/bin/sh\n", 0o644);
        assert_eq!(plan(&plain), Plan::LetFail);
        let mut elf = [0u8; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x01\x01");
        elf[18] = 3;
        let small = file("small", &elf, 0o755);
        assert_eq!(plan(&small), Plan::LeaveAlone("another architecture"));
        assert!(matches!(plan(Path::new("/proc/self/exe")), Plan::Follow(_)));
        for path in [script, plain, small] {
            fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn what_the_loader_reads_goes_to_the_program_and_not_to_qemu() {
        let environment = [
            "A=1",
            "LD_PRELOAD=/o.so:/b.so",
            "LD_LIBRARY_PATH=/x",
            "LDX=2",
        ];
        let made = call(Path::new("/bin/true"), &[], &environment);
        let (kept, given) = made.environments("/o.so");
        assert_eq!(kept, [c"A=1".to_owned(), c"LDX=2".to_owned()]);
        let expected: [&[u8]; 2] = [b"LD_LIBRARY_PATH=/x", b"LD_PRELOAD=/o.so:/b.so"];
        assert_eq!(given, expected);
        assert_eq!(
            call(Path::new("/"), &[], &[]).environments(""),
            (vec![], vec![])
        );
    }
}
