//! Files and folders in places where others may write.
//!
//! A file is opened without waiting and judged by its descriptor, so that nobody can swap it in
//! between. The name is looked at first: opening a device may do anything.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
};
use std::path::Path;

/// Bits of a mode that let the group and others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Opens a regular file without waiting for anybody. A link may lead to it.
///
/// # Errors
/// Those of the system, and [`io::ErrorKind::InvalidInput`] for anything but a regular file.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    open(path, options, fs::metadata(path), 0)
}

/// Like [`open_regular`], for a file of one of these users that is no symbolic link.
///
/// # Errors
/// As [`open_regular`], and [`io::ErrorKind::InvalidInput`] for a link and a file of somebody else.
pub fn open_owned(path: &Path, options: &mut OpenOptions, owners: &[u32]) -> io::Result<File> {
    let file = open(path, options, fs::symlink_metadata(path), libc::O_NOFOLLOW)?;
    check_owner(&file.metadata()?, owners)?;
    Ok(file)
}

fn open(
    path: &Path,
    options: &mut OpenOptions,
    named: io::Result<Metadata>,
    flags: i32,
) -> io::Result<File> {
    match named {
        Ok(found) => check_regular(&found)?,
        // The options may make it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | flags);
    let file = options.open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Refuses anything but a regular file.
///
/// # Errors
/// [`io::ErrorKind::IsADirectory`], else [`io::ErrorKind::InvalidInput`] with what was found.
pub fn check_regular(found: &Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        false => Err(unfit(format!(
            "found {}, expected a regular file",
            kind(found)
        ))),
    }
}

/// Refuses a file or folder that the group or others may write to.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`], with its mode.
pub fn check_mode(found: &Metadata) -> io::Result<()> {
    match found.mode() & WRITABLE_BY_OTHERS {
        0 => Ok(()),
        _ => Err(unfit(format!(
            "others may write to it (mode {:o})",
            found.mode() & 0o7777
        ))),
    }
}

/// Makes sure that a folder is this user's alone. With `makes`, makes it and its parents where they
/// are missing.
///
/// # Errors
/// Those of the system, and [`io::ErrorKind::InvalidInput`] for a link, a file, a folder of somebody
/// else and one that others may write to.
pub fn private_folder(path: &Path, makes: bool) -> io::Result<()> {
    if makes && fs::symlink_metadata(path).is_err() {
        DirBuilder::new().mode(0o700).recursive(true).create(path)?;
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(unfit(format!("found {}, expected a folder", kind(&found))));
    }
    check_owner(&found, &[user()])?;
    check_mode(&found)
}

fn check_owner(found: &Metadata, owners: &[u32]) -> io::Result<()> {
    match owners.contains(&found.uid()) {
        true => Ok(()),
        false => Err(unfit(format!("it belongs to user {}", found.uid()))),
    }
}

/// This process's user.
pub fn user() -> u32 {
    // SAFETY: a plain system call that cannot fail.
    unsafe { libc::geteuid() }
}

fn kind(found: &Metadata) -> &'static str {
    let kind = found.file_type();
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_file() {
        "a file"
    } else {
        "a device"
    }
}

fn unfit(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn refusal(done: io::Result<impl Sized>) -> String {
        done.err().expect("it is refused").to_string()
    }

    #[test]
    fn a_file_is_regular_and_of_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let pipe = CString::new(path("pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: a system call with a string that lives.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        fs::write(path("plain"), "text").unwrap();
        symlink(path("plain"), path("link")).unwrap();
        let owned = |name, owner| open_owned(&path(name), OpenOptions::new().read(true), &[owner]);
        assert!(owned("plain", user()).is_ok());
        assert!(refusal(owned("plain", user() + 1)).starts_with("it belongs to user"));
        for options in [
            OpenOptions::new().read(true),
            OpenOptions::new().append(true),
        ] {
            let said = refusal(open_regular(&path("pipe"), options));
            assert_eq!(said, "found a FIFO, expected a regular file");
        }
        let said = refusal(owned("link", user()));
        assert_eq!(said, "found a symbolic link, expected a regular file");
        assert!(open_regular(&path("link"), OpenOptions::new().read(true)).is_ok());
        assert_eq!(refusal(owned(".", user())), "is a directory");
        let missing = owned("missing", user()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_folder_is_this_users_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let missing = private_folder(&path("a"), false).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        private_folder(&path("a/b"), true).unwrap();
        assert_eq!(fs::metadata(path("a/b")).unwrap().mode() & 0o777, 0o700);
        symlink(path("a"), path("link")).unwrap();
        let said = refusal(private_folder(&path("link"), true));
        assert_eq!(said, "found a symbolic link, expected a folder");
        for mode in [0o770, 0o702] {
            fs::set_permissions(path("a"), fs::Permissions::from_mode(mode)).unwrap();
            let said = refusal(private_folder(&path("a"), true));
            assert_eq!(said, format!("others may write to it (mode {mode:o})"));
        }
        fs::write(path("file"), "").unwrap();
        let said = refusal(private_folder(&path("file"), true));
        assert_eq!(said, "found a file, expected a folder");
    }
}
