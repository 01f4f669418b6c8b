//! Memory for bytes that are read once, much later: beyond a limit a temporary file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 32 << 10;

/// Bytes of a page in the file, its length with it.
const SLOT_BYTES: u64 = PAGE_BYTES as u64 + 8;

/// A way to make a temporary file.
#[derive(Debug, Clone, Copy)]
pub struct TemporaryFiles {
    /// Makes a file without a name.
    pub open: fn() -> io::Result<File>,
    /// Says in an error of reading or writing it where the file is.
    pub explain: fn(io::Error) -> io::Error,
}

/// A page that was put aside.
#[derive(Debug)]
pub(crate) enum Page {
    Memory(Vec<u8>),
    /// Its number in the file.
    File(u64),
}

/// Pages of all threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pages(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// Pages in memory.
    in_memory: usize,
    /// The number that there may be, and files for others; any number without a limit.
    limit: Option<(usize, TemporaryFiles)>,
    /// Made when there is something to write.
    file: Option<File>,
    /// Pages of the file, and those among them that were read.
    count: u64,
    free: Vec<u64>,
    failure: Option<io::Error>,
}

impl Pages {
    /// Writes what takes more than so many bytes of memory to a file.
    pub(crate) fn set_limit(&self, bytes: usize, files: TemporaryFiles) {
        self.with(|kept| kept.limit = Some((bytes / PAGE_BYTES, files)));
    }

    /// Puts a page aside. One that cannot be written stays in memory, and [`Pages::failure`] says why.
    pub(crate) fn put(&self, page: Vec<u8>) -> Page {
        self.with(|kept| {
            match kept.limit {
                Some((max, files)) if kept.in_memory >= max && kept.failure.is_none() => {
                    match kept.write(&page, files) {
                        Ok(number) => return Page::File(number),
                        Err(error) => kept.failure = Some(error),
                    }
                }
                _ => {}
            }
            kept.in_memory += 1;
            Page::Memory(page)
        })
    }

    /// The bytes of a page: empty if they cannot be read, and [`Pages::failure`] says why.
    pub(crate) fn take(&self, page: Page) -> Vec<u8> {
        self.with(|kept| match page {
            Page::Memory(bytes) => {
                kept.in_memory -= 1;
                bytes
            }
            Page::File(number) => kept.read(number).unwrap_or_else(|error| {
                kept.failure = Some(error);
                Vec::new()
            }),
        })
    }

    /// Reason for which a page could not be written or read, told once.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.with(|kept| kept.failure.take())
    }

    fn with<T>(&self, act: impl FnOnce(&mut Kept) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kept {
    /// Pages of the file have the same room: their length and their bytes.
    fn write(&mut self, page: &[u8], files: TemporaryFiles) -> io::Result<u64> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert((files.open)()?),
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        });
        let mut bytes = (page.len() as u64).to_le_bytes().to_vec();
        bytes.extend(page);
        let written = file.write_all_at(&bytes, number * SLOT_BYTES);
        written.map_err(files.explain).map(|()| number)
    }

    fn read(&mut self, number: u64) -> io::Result<Vec<u8>> {
        let Some(file) = &self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut len = [0; 8];
        file.read_exact_at(&mut len, number * SLOT_BYTES)?;
        let mut page = vec![0; u64::from_le_bytes(len) as usize];
        file.read_exact_at(&mut page, number * SLOT_BYTES + 8)?;
        self.free.push(number);
        Ok(page)
    }
}
