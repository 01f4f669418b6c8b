//! Checks whether a library can be preloaded into a program.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::ShimError;

/// Bytes of an ELF file that hold its headers and the name of its loader, in practice.
const HEAD_BYTES: usize = 64 << 10;

const SETUID_OR_SETGID: u32 = 0o6000;

/// Checks that glibc's loader would preload a library into the ELF file at `path`.
///
/// # Errors
/// It would not, or the file cannot be read.
pub fn check_program(path: &Path) -> Result<(), ShimError> {
    let failed = |source| ShimError::system(format!("cannot read {}", path.display()), source);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mut head = vec![0; HEAD_BYTES.min(usize::try_from(metadata.len()).unwrap_or(HEAD_BYTES))];
    file.read_exact_at(&mut head, 0).map_err(failed)?;
    // SAFETY: these calls always succeed.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let changes = metadata.mode() & SETUID_OR_SETGID != 0
        && (metadata.uid() != user || metadata.gid() != group);
    if changes {
        return Err(ShimError::Setuid(path.to_path_buf()));
    }
    match interpreter(&head) {
        None => Err(ShimError::Static(path.to_path_buf())),
        Some(interpreter) if is_glibc(&interpreter) => Ok(()),
        Some(interpreter) => Err(ShimError::OtherLoader {
            path: path.to_path_buf(),
            interpreter,
        }),
    }
}

/// glibc's loaders are called ld-linux-x86-64.so.2, ld-linux-aarch64.so.1 and the like; some distributions
/// keep them elsewhere.
fn is_glibc(interpreter: &str) -> bool {
    let name = interpreter.rsplit('/').next().unwrap_or_default();
    name.starts_with("ld-linux")
}

/// The loader that a 64-bit little-endian ELF file names (PT_INTERP), none if it names none within `head`.
fn interpreter(head: &[u8]) -> Option<String> {
    const PT_INTERP: usize = 3;
    let (table, size, count) = (
        number(head, 32, 8)?,
        number(head, 54, 2)?,
        number(head, 56, 2)?,
    );
    let headers = (0..count).map(|index| table.checked_add(index * size));
    let found = headers
        .map_while(|at| head.get(at?..))
        .find(|header| number(header, 0, 4) == Some(PT_INTERP))?;
    let (at, len) = (number(found, 8, 8)?, number(found, 32, 8)?);
    let name = head.get(at..at.checked_add(len)?)?;
    let name = name.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// The little-endian number of so many bytes at `at`.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(len)?)?;
    let digits = bytes.iter().rev();
    Some(digits.fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of one program header.
    fn elf(header_type: u32, name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64..68].copy_from_slice(&header_type.to_le_bytes());
        bytes[64 + 8] = 120;
        bytes[64 + 32] = name.len() as u8;
        bytes.extend_from_slice(name);
        bytes
    }

    #[test]
    fn the_loader_is_named_in_the_file() {
        let name = b"/lib64/ld-linux-x86-64.so.2\0";
        let found = interpreter(&elf(3, name)).unwrap();
        assert_eq!(found, "/lib64/ld-linux-x86-64.so.2");
        assert!(is_glibc(&found));
        assert!(!is_glibc("/lib/ld-musl-x86_64.so.1"));
        assert_eq!(interpreter(&elf(1, name)), None, "a static program");
    }

    #[test]
    fn cut_files_name_none() {
        let whole = elf(3, b"/lib/ld-linux.so\0");
        for len in 0..whole.len() - 1 {
            assert_eq!(interpreter(&whole[..len]), None, "{len} bytes");
        }
        let mut wrapping = whole.clone();
        wrapping[32..40].fill(0xff);
        assert_eq!(interpreter(&wrapping), None);
        let mut long = whole;
        long[64 + 32..64 + 40].fill(0xff);
        assert_eq!(interpreter(&long), None);
    }

    #[test]
    fn this_test_can_be_observed() {
        check_program(&std::env::current_exe().unwrap()).unwrap();
    }
}
