//! Contents of the guest's file system: the agent, hitm's own workloads, and a program of this host
//! with its libraries.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use hitm_base::Fnv1a;
use hitm_files::input_file::{self, NamedBy};
use hitm_files::limits;
use hitm_files::output_file::{self, Durability};

use super::initramfs::Initramfs;
use super::{VmError, cache_folder};
use crate::record::find_in_path;

/// Directories on which the agent mounts file systems.
const MOUNT_POINTS: [&str; 5] = ["dev", "proc", "sys", "tmp", "root"];

/// Name of this very program in the guest.
const THIS_PROGRAM: &str = "hitm";

/// Builds the guest's file system; the command's program and `others` may be hitm's own.
pub(super) fn initramfs(command: &[String], others: &[String]) -> Result<Vec<u8>, VmError> {
    let mut archive = Initramfs::default();
    for directory in MOUNT_POINTS {
        archive.add_directory(directory);
    }
    archive.add_program("init", hitm_guest::agent());
    for (name, bytes) in hitm_guest::workloads() {
        archive.add_program(&format!("hitm/bin/{name}"), bytes);
    }
    for program in others {
        add_program(&mut archive, program)?;
    }
    let mut arguments = command.to_vec();
    if let Some(program) = arguments.first_mut() {
        *program = add_program(&mut archive, program)?;
    }
    let terminated: String = arguments
        .iter()
        .map(|argument| format!("{argument}\0"))
        .collect();
    archive.add_file("hitm/command", terminated.as_bytes());
    Ok(archive.finish())
}

/// Directory of hitm's own workloads in the guest.
const OWN_PROGRAMS: &str = "/hitm/bin/";

/// Keeps hitm's own workloads in the cache, for the names in recordings of them. Files are named by
/// content: the next hitm may have other workloads.
pub(super) fn keep_own(cache: &Path) -> Result<(), VmError> {
    let directory = own_directory(cache);
    cache_folder(&directory)?;
    for (name, bytes) in hitm_guest::workloads() {
        let path = own_path(cache, name, bytes);
        if !path.exists() {
            cache_folder(path.parent().unwrap_or(&directory))?;
            output_file::write_shared(&path, bytes, Durability::OnDisk)
                .map_err(|error| VmError::system("keep the guest's programs", error.into()))?;
        }
    }
    Ok(())
}

fn own_directory(cache: &Path) -> PathBuf {
    let directory = cache.join("guest");
    std::path::absolute(&directory).unwrap_or(directory)
}

fn own_path(cache: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let directory = own_directory(cache);
    let version = Fnv1a::EMPTY.with_word(bytes).value();
    directory.join(format!("{version:016x}")).join(name)
}

/// Path on this host of a guest's file.
pub(super) fn path_on_host(path: &str, cache: &Path) -> String {
    let own = path.strip_prefix(OWN_PROGRAMS).and_then(|wanted| {
        let mut programs = hitm_guest::workloads().iter();
        let (name, bytes) = programs.find(|(name, _)| *name == wanted)?;
        Some(own_path(cache, name, bytes))
    });
    own.map_or(path.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Adds a program and its libraries under their own paths, and a link in the guest's PATH. Returns
/// the program's path in the guest. hitm's own workloads are there already.
fn add_program(archive: &mut Initramfs, program: &str) -> Result<String, VmError> {
    let mut own = hitm_guest::workloads().iter();
    if own.any(|(name, _)| *name == program) {
        return Ok(program.to_owned());
    }
    let failed = |problem: String| VmError::Workload {
        program: program.to_owned(),
        problem,
    };
    let path = match program {
        THIS_PROGRAM => std::env::current_exe().ok(),
        _ if program.contains('/') => Some(PathBuf::from(program)),
        _ => find_in_path(program),
    };
    let path =
        path.ok_or_else(|| failed("it is not in PATH, and hitm has none of this name".into()))?;
    let path = path
        .canonicalize()
        .map_err(|error| failed(error.to_string()))?;
    let mut files = libraries(&path).map_err(|error| failed(format!("{LINKER}: {error}")))?;
    files.push(path.clone());
    for file in files {
        let bytes = input_file::bytes(&file, NamedBy::User)
            .map_err(|error| failed(format!("{}: {error}", file.display())))?;
        let inside = file.to_string_lossy();
        archive.add_program(inside.trim_start_matches('/'), &bytes);
    }
    let inside = path.to_string_lossy().into_owned();
    if let Some(name) = path.file_name() {
        let name = name.to_string_lossy();
        archive.add_link(&format!("{}{name}", &OWN_PROGRAMS[1..]), &inside);
    }
    Ok(inside)
}

/// The dynamic linker of x86-64.
const LINKER: &str = "/lib64/ld-linux-x86-64.so.2";

/// Libraries that the dynamic linker would load, itself among them. None for a static program, and
/// none on a host without the linker.
fn libraries(program: &Path) -> io::Result<Vec<PathBuf>> {
    let output = match Command::new(LINKER).arg("--list").arg(program).output() {
        Ok(output) if output.status.success() => output,
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(limits::explain_start(error));
        }
        _ => return Ok(Vec::new()),
    };
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`, or without the arrow.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = text.lines().filter_map(|line| {
        line.split_ascii_whitespace()
            .find(|word| word.starts_with('/'))
            .map(PathBuf::from)
    });
    let mut files: Vec<PathBuf> = words.chain([PathBuf::from(LINKER)]).collect();
    files.sort();
    files.dedup();
    Ok(files)
}
