//! The folder of the journals: one file a placement, locked while its tool or its guard lives.
//!
//! The lock is that of flock(2). A guard inherits the tool's open file, so the lock ends when both
//! have ended. A second lock, `change.lock`, is held during each change: two processes never change
//! placements at once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, RawFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use hitm_files::ours::{self, user};

use super::PlaceError;
use super::journal::{JOURNAL_BYTES_MAX, Journal, Record, encode_records};
use super::registry::Registry;

/// End of the name of each journal.
const SUFFIX: &str = ".journal";
/// End of the name of an incomplete journal: nothing has been changed for it.
const UNFINISHED: &str = ".journal.new";
/// A change takes milliseconds; a process that holds the lock for longer has been stopped.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The folder of the journals.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
    registry: Option<Registry>,
}

/// The right to change anything, or to be first, until it is dropped.
#[derive(Debug)]
pub(super) struct ChangeLock(#[expect(dead_code, reason = "closing the file unlocks it")] File);

/// A journal of this process or of its tool.
#[derive(Debug)]
pub(super) struct Held {
    file: File,
    pub(super) path: PathBuf,
}

/// A journal in the folder.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) journal: Result<Journal, PlaceError>,
    /// Its tool or its guard lives.
    pub(super) is_held: bool,
}

impl Store {
    /// The default folder: /run/hitm for root, `$XDG_RUNTIME_DIR/hitm` for others, where `runtime` is that variable.
    ///
    /// # Errors
    /// There is no such folder for this user.
    pub fn default_folder(runtime: Option<PathBuf>) -> Result<PathBuf, PlaceError> {
        if user() == 0 {
            return Ok(PathBuf::from("/run/hitm"));
        }
        let runtime = runtime.filter(|folder| folder.is_absolute());
        let of_user = PathBuf::from(format!("/run/user/{}", user()));
        let runtime = runtime.or_else(|| of_user.is_dir().then_some(of_user));
        let folder = runtime.map(|folder| folder.join("hitm"));
        folder.ok_or_else(|| PlaceError::Missing {
            what: String::from("keep a journal of what is changed"),
            needed: String::from("a folder in XDG_RUNTIME_DIR, or --journals FOLDER"),
        })
    }

    /// Opens the folder. Makes it if `makes` is set; otherwise returns `None` when it is missing.
    ///
    /// # Errors
    /// It cannot be made, or others may write to it: a journal's changes are made with this user's
    /// rights.
    pub fn open(folder: &Path, makes: bool) -> Result<Option<Store>, PlaceError> {
        let shown = folder.display();
        match ours::private_folder(folder, makes) {
            Ok(()) => Ok(Some(Store {
                folder: folder.to_owned(),
                registry: None,
            })),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound if !makes => Ok(None),
                io::ErrorKind::InvalidInput => Err(PlaceError::Refused(format!(
                    "{shown} could let others move this user's threads: {error}"
                ))),
                _ => Err(PlaceError::system(format!("use {shown} for the journals"))(
                    error,
                )),
            },
        }
    }

    /// Sees the placements in the folders of a registry from now on, and is seen by them.
    pub fn within(self, registry: Option<Registry>) -> Store {
        Store { registry, ..self }
    }

    /// Holds off placements with journals in other folders, which see those in this one from now on.
    pub(super) fn register(&self) -> Result<Option<ChangeLock>, PlaceError> {
        let registry = self.registry.as_ref();
        registry
            .map(|registry| registry.enter(&self.folder))
            .transpose()
    }

    /// Placements with journals in other folders.
    pub(super) fn elsewhere(&self) -> Vec<Journal> {
        let registry = self.registry.as_ref();
        registry.map_or_else(Vec::new, |registry| {
            registry.journals_elsewhere(&self.folder)
        })
    }

    /// Folder of the journals.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits for the right to change placements.
    pub(super) fn lock(&self) -> Result<ChangeLock, PlaceError> {
        lock_file(&self.folder.join("change.lock"))
    }

    /// Writes a journal, synced to its medium, and locks it. Under [`Store::lock`].
    pub(super) fn create(&self, journal: &Journal) -> Result<Held, PlaceError> {
        let tool = journal.head.tool;
        let name = format!("{}-{}", tool.tid, tool.start_ticks);
        let path = self.folder.join(format!("{name}{SUFFIX}"));
        let unfinished = self.folder.join(format!("{name}{UNFINISHED}"));
        let written = || -> io::Result<File> {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create_new(true).mode(0o600);
            let mut file = options.open(&unfinished)?;
            try_lock(&file)?;
            file.write_all(journal.encode().as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            File::open(&self.folder)?.sync_all()?;
            Ok(file)
        };
        let file = written();
        let file = file.map_err(PlaceError::system(format!("write {}", path.display())))?;
        Ok(Held { file, path })
    }

    /// Returns everything that has a journal's name, in the order of the names. Removes unfinished
    /// journals of dead processes. Under [`Store::lock`].
    pub(super) fn list(&self) -> Result<Vec<Found>, PlaceError> {
        let what = format!("read {}", self.folder.display());
        let entries = fs::read_dir(&self.folder).map_err(PlaceError::system(what))?;
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.sort_unstable();
        let mut found = Vec::new();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(UNFINISHED) {
                // We have the lock, so no process is writing it.
                let _ = fs::remove_file(&path);
            } else if name.ends_with(SUFFIX) {
                found.extend(look(path));
            }
        }
        Ok(found)
    }
}

/// Waits for the lock of a file that every hitm of this user takes.
pub(super) fn lock_file(path: &Path) -> Result<ChangeLock, PlaceError> {
    let what = format!("lock {}", path.display());
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = ours::open_owned(path, &mut options, &[user()]);
    let file = file.map_err(PlaceError::system(what.clone()))?;
    let mut waited = Duration::ZERO;
    loop {
        match try_lock(&file) {
            Ok(true) => return Ok(ChangeLock(file)),
            Ok(false) if waited < LOCK_PATIENCE => {
                thread::sleep(LOCK_PAUSE);
                waited += LOCK_PAUSE;
            }
            Ok(false) => {
                return Err(PlaceError::Refused(format!(
                    "another hitm holds {} for more than ten seconds",
                    path.display()
                )));
            }
            Err(error) => return Err(PlaceError::system(what)(error)),
        }
    }
}

/// Journals in a folder that may be another user's. What is no journal is left out.
pub(super) fn journals_in(folder: &Path) -> Vec<Journal> {
    let Ok(owner) = fs::symlink_metadata(folder).map(|data| data.uid()) else {
        return Vec::new();
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let journals = paths.filter(|path| path.to_string_lossy().ends_with(SUFFIX));
    let journals = journals.filter_map(|path| {
        let file = ours::open_owned(&path, OpenOptions::new().read(true), &[owner]).ok()?;
        Journal::parse(&read(&file).ok()?).ok()
    });
    journals.collect()
}

/// Looks at a file with a journal's name; none when it is gone.
fn look(path: PathBuf) -> Option<Found> {
    let looked = open_journal(&path).and_then(|file| Ok((read(&file)?, !try_lock(&file)?)));
    let (journal, is_held) = match looked {
        Ok((bytes, is_held)) => (parse(&path, &bytes), is_held),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(source) => {
            let path = path.clone();
            (Err(PlaceError::NoJournal { path, source }), false)
        }
    };
    Some(Found {
        path,
        journal,
        is_held,
    })
}

fn open_journal(path: &Path) -> io::Result<File> {
    let file = ours::open_owned(path, OpenOptions::new().read(true), &[user()])?;
    ours::check_mode(&file.metadata()?)?;
    Ok(file)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Journal, PlaceError> {
    Journal::parse(bytes).map_err(|source| PlaceError::Journal {
        path: path.to_owned(),
        source,
    })
}

/// Reads an open journal from its start, whose descriptor a tool and its guard share.
fn read(file: &File) -> io::Result<Vec<u8>> {
    const PIECE_BYTES: usize = 64 << 10;
    let mut bytes = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    while bytes.len() <= JOURNAL_BYTES_MAX {
        match file.read_at(&mut piece, bytes.len() as u64) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

impl Held {
    /// Opens the journal of a tool whose open file this process has inherited.
    ///
    /// # Errors
    /// The descriptor is not that file.
    pub(super) fn inherited(descriptor: RawFd, path: &Path) -> Result<Held, PlaceError> {
        let wrong =
            || PlaceError::Wrong(format!("{descriptor} is not open for {}", path.display()));
        // SAFETY: reads the flags of a descriptor, which may be invalid.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        if descriptor <= 2 || flags < 0 {
            return Err(wrong());
        }
        // SAFETY: the descriptor is open, and the caller has it from its tool for this alone.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let held = Held {
            file,
            path: path.to_owned(),
        };
        match held.is_there() {
            true => Ok(held),
            false => Err(wrong()),
        }
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Returns true until a process has undone the placement and removed its journal.
    pub(super) fn is_there(&self) -> bool {
        let here = self.file.metadata().map(|data| (data.dev(), data.ino()));
        let there = fs::symlink_metadata(&self.path).map(|data| (data.dev(), data.ino()));
        matches!((here, there), (Ok(here), Ok(there)) if here == there)
    }

    /// Reads the journal again.
    pub(super) fn read(&self) -> Result<Journal, PlaceError> {
        let what = format!("read {}", self.path.display());
        let bytes = read(&self.file).map_err(PlaceError::system(what))?;
        parse(&self.path, &bytes)
    }

    /// Appends records, synced to the medium. Under [`Store::lock`].
    pub(super) fn append(&mut self, records: &[Record]) -> Result<(), PlaceError> {
        let text = encode_records(records);
        let written = self
            .file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_data());
        written.map_err(PlaceError::system(format!("write {}", self.path.display())))
    }
}

/// Removes the journal of an undone placement.
pub(super) fn remove(path: &Path) -> Result<(), PlaceError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PlaceError::system(format!(
            "remove {}",
            path.display()
        ))(error)),
        _ => Ok(()),
    }
}

/// Returns false if another process has the lock.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: a plain system call on an open file.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}
