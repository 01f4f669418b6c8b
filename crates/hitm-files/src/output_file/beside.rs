//! The file beside: a result until it is whole.
//!
//! Its name follows from the final one, so that two writers meet. The order of locks decides who has
//! the name: first the file beside, then the former file. With the first lock in hand nobody else can
//! replace the former file. The second lock finds those who write it in place, and recordings, which
//! grow under their final name.
//!
//! A file beside that nobody holds is left over from a killed writer. The next writer removes it.

use std::fs::{self, File, Metadata};
use std::io::{self, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use hitm_base::Fnv1a;

use super::{Durability, folder_of, leads_to, lock, own_file};

/// Longest name of a file in Linux.
const NAME_LEN_MAX: usize = 255;
/// Attempts at a name that others take and give up meanwhile.
const ATTEMPTS_MAX: usize = 1000;

/// Way in which a file is to be written.
pub(super) enum Start {
    /// Beside, into this file.
    Beside(File, Beside),
    /// In place: the folder takes no new file, or owner and mode would change.
    InPlace,
    /// Not now: another process writes it.
    Busy,
}

/// The names of a file that is being written. It must be dropped before the file, whose lock keeps
/// the name beside for this process.
#[derive(Debug)]
pub(super) struct Beside {
    temporary: PathBuf,
    target: PathBuf,
    /// The file that has the name, locked.
    former: Option<File>,
    /// Set until the file beside has another name, or another owner.
    is_own: bool,
}

impl Beside {
    /// Begins a new file that is to replace `target`, with the owner and mode of the former one.
    pub(super) fn start(target: PathBuf) -> io::Result<Start> {
        let temporary = temporary_of(&target);
        let file = match claim(&temporary) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(Start::Busy),
            Err(error) if is_refusal(&error) && target.exists() => return Ok(Start::InPlace),
            Err(error) => return Err(error),
        };
        let mut this = Beside {
            temporary,
            target,
            former: None,
            is_own: true,
        };
        let former = match own_file().open(&this.target) {
            Ok(former) => former,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Start::Beside(file, this));
            }
            Err(error) => return Err(error),
        };
        if !lock(&former)? {
            return Ok(Start::Busy);
        }
        if !keep_owner_and_mode(&file, &former.metadata()?)? {
            return Ok(Start::InPlace);
        }
        this.former = Some(former);
        Ok(Start::Beside(file, this))
    }

    /// Gives `file` its name; false when another process has taken over meanwhile, as file systems
    /// without locks allow.
    ///
    /// A name that cannot be given to another file, such as a mount point, keeps its own: that is
    /// rewritten, and `file` becomes it.
    pub(super) fn take_name(mut self, file: &mut File, durability: Durability) -> io::Result<bool> {
        if durability == Durability::OnDisk {
            file.sync_all()?;
        }
        self.is_own = leads_to(&self.temporary, file)?;
        if !self.is_own {
            return Ok(false);
        }
        let renamed = fs::rename(&self.temporary, &self.target);
        self.is_own = renamed.is_err();
        match (renamed, self.former.take()) {
            (Err(error), Some(former)) if is_refusal(&error) => {
                let former = rewritten(former, file, durability)?;
                // Removes the file beside before its lock goes.
                drop(self);
                *file = former;
                return Ok(true);
            }
            (renamed, _) => renamed?,
        }
        if durability == Durability::OnDisk
            && let Ok(folder) = File::open(folder_of(&self.target))
        {
            // The result is whole either way; some file systems sync no folders.
            let _ = folder.sync_all();
        }
        Ok(true)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if self.is_own {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Returns the name beside, which is hidden.
fn temporary_of(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default();
    let mut beside = std::ffi::OsString::from(".");
    match name.len() + ".".len() + ".part".len() <= NAME_LEN_MAX {
        true => beside.push(name),
        false => {
            let hash = Fnv1a::EMPTY.with_word(name.as_bytes()).value();
            beside.push(format!("{hash:016x}"));
        }
    }
    beside.push(".part");
    folder_of(target).join(beside)
}

/// Makes and locks the file beside; none when another process has it.
fn claim(temporary: &Path) -> io::Result<Option<File>> {
    let mut existing = own_file();
    existing.read(true);
    let mut new = existing.clone();
    new.create_new(true);
    for _ in 0..ATTEMPTS_MAX {
        match new.open(temporary) {
            // Another writer may have seen it before the lock, and removed it as left over.
            Ok(file) if lock(&file)? && leads_to(temporary, &file)? => return Ok(Some(file)),
            Ok(_) => continue,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match existing.open(temporary) {
            Ok(left) if !lock(&left)? => return Ok(None),
            Ok(left) if leads_to(temporary, &left)? => {
                fs::remove_file(temporary).map_err(|error| left_over(temporary, &error))?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(left_over(temporary, &error)),
        }
    }
    Ok(None)
}

/// An error at a file beside that is not this process's own.
fn left_over(temporary: &Path, error: &io::Error) -> io::Error {
    let message = format!("{} is in the way: {error}", temporary.display());
    io::Error::new(error.kind(), message)
}

/// True for errors by which a folder or a name keeps its files from being replaced.
fn is_refusal(error: &io::Error) -> bool {
    let refusals = [libc::EACCES, libc::EPERM, libc::EROFS, libc::EBUSY];
    error
        .raw_os_error()
        .is_some_and(|code| refusals.contains(&code))
}

/// Gives `file` the former one's owner and mode; false when the system refuses.
fn keep_owner_and_mode(file: &File, former: &Metadata) -> io::Result<bool> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (former.uid(), former.gid())
        && fchown(file, Some(former.uid()), Some(former.gid())).is_err()
    {
        return Ok(false);
    }
    Ok(file.set_permissions(former.permissions()).is_ok())
}

/// Returns the former file with the content of the new one.
fn rewritten(mut former: File, new: &mut File, durability: Durability) -> io::Result<File> {
    new.rewind()?;
    former.set_len(0)?;
    io::copy(new, &mut former)?;
    if durability == Durability::OnDisk {
        former.sync_all()?;
    }
    Ok(former)
}
