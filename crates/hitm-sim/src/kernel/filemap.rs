//! Files in the page cache: mm/filemap.c and fs/ext4/file.c, v6.12.
//!
//! **What Linux does:** a read finds the page, takes a reference, copies and gives the reference
//! back. A buffered write takes the inode's `i_rwsem` for writing and looks at size and times. It
//! finds the page, locks it, copies, marks it dirty, unlocks it and gives it back. Then it lets go
//! of the inode.
//!
//! **What we do:** the same lines: those of the inode, read or written, and that of each page. All
//! pages are there already and dirty, as in a benchmark that copies the same file again and again.
//!
//! The bytes that a write overwrites have lines too, which come, overlapped, from the CPU that
//! wrote them last. With a page for every few blocks of its private cache a CPU finds them in that
//! CPU's caches or in the cache above it. That is about as far away.
//!
//! **What a test could notice:** bytes that are read have no lines: nobody writes them, and fetching
//! them is part of the stated work. No write-back, no readahead, no times that change, no journal.

use std::rc::Rc;

use hitm_base::machine::MachineCost;
use hitm_base::{CpuId, Cycles, LINE_SIZE};

use super::Kernel;
use super::functions as f;
use super::process::Thread;
use super::rwsem::{Hold, RwSem};
use super::task::Task;
use crate::engine::{Arena, ObjectPool, Opaque, Place, Rmw, SimError, Site};

/// `PG_locked`.
const LOCKED: u64 = 1;
/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4096;
const LINES_PER_PAGE: u64 = PAGE_BYTES / LINE_SIZE;

/// Members of `page` in [`PageCacheFile::pages`].
const FLAGS: usize = 0;
const REFCOUNT: usize = 1;

/// Contents of some pages, by cache line.
#[derive(Debug)]
pub(super) struct PageBytes {
    lines: ObjectPool,
    page_count: u64,
}

impl PageBytes {
    pub(super) fn new(arena: &mut Arena, name: &str, page_count: u64) -> PageBytes {
        PageBytes {
            lines: arena.plain_pool(name, PAGE_BYTES),
            page_count,
        }
    }

    /// Index of the page that a byte lies in; behind the last comes the first again.
    pub(super) fn page_of(&self, offset_bytes: u64) -> usize {
        (offset_bytes / PAGE_BYTES % self.page_count) as usize
    }

    /// The lines of `count` bytes.
    pub(super) fn lines(&self, offset_bytes: u64, count: u64) -> Vec<Place> {
        let lines = offset_bytes / LINE_SIZE..(offset_bytes + count).div_ceil(LINE_SIZE);
        let place = |line: u64| {
            let page = self.page_of(line * LINE_SIZE);
            let line = line % LINES_PER_PAGE;
            self.lines.place(page, line as usize, CpuId(0))
        };
        lines.map(place).collect()
    }
}

/// A file all of whose pages are in the page cache.
#[derive(Debug)]
pub struct PageCacheFile {
    /// Its lock.
    pub i_rwsem: RwSem,
    /// Members that a write looks at: size, times, the root of the pages.
    looked_at: [Opaque; 3],
    pages: ObjectPool,
    bytes: PageBytes,
}

/// One copy of a block: where it lies and what it takes beside shared accesses.
#[derive(Debug, Clone, Copy)]
pub struct BlockCopy {
    /// First byte in the file.
    pub offset_bytes: u64,
    /// Its length.
    pub count_bytes: u64,
    /// Instructions of the copying and of all that belongs to it.
    pub work: Cycles,
}

/// Cost of reading and writing a block beside [`BlockCopy::work`] when nobody else is there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyCosts {
    pub(crate) outside: Cycles,
    pub(crate) under_lock: Cycles,
}

impl PageCacheFile {
    fn page(&self, offset_bytes: u64, member: usize) -> Place {
        let page = self.bytes.page_of(offset_bytes);
        // The writer of the file touches it first: any node will do for a page that moves about.
        self.pages.place(page, member, CpuId(0))
    }
}

impl Kernel {
    /// A file of `bytes` in the page cache.
    ///
    /// # Errors
    /// A layout without `inode` or `page`.
    pub fn page_cache_file(&self, name: &str, bytes: u64) -> Result<Rc<PageCacheFile>, SimError> {
        let stat = self.lock_stat(name);
        let mut arena = self.arena.borrow_mut();
        let inode = arena.allocate("inode", CpuId(0))?;
        let i_rwsem = RwSem::within(&mut arena, &inode, "i_rwsem.", stat)?;
        let mut place = |path| arena.opaque(&inode, path);
        let looked_at = [
            place("i_size")?,
            place("i_mtime_sec")?,
            place("i_data.i_pages")?,
        ];
        Ok(Rc::new(PageCacheFile {
            i_rwsem,
            looked_at,
            pages: arena.pool("page", &["flags", "_refcount"])?,
            bytes: PageBytes::new(&mut arena, "page_bytes", bytes.div_ceil(PAGE_BYTES).max(1)),
        }))
    }

    /// The fixed costs of the two system calls for a block of `count` bytes: their accesses all hit
    /// the L1.
    pub(crate) fn copy_costs(&self, count: u64) -> CopyCosts {
        let machine = self.engine.machine();
        let (load, locked) = (machine.caches.l1.latency, machine.core.locked_hit);
        let times = |one: Cycles, count: u64| Cycles(one.0 * count);
        let calls = times(self.costs.machine.get(MachineCost::Syscall), 2) + self.costs.function;
        CopyCosts {
            // Reading: size, root, flags at the exit twice; two counts of a reference, the lock's.
            outside: calls + times(load, 4) + times(locked, 3),
            // Size twice, times, root; reference and page lock each twice, the lock's own; a cycle for
            // each line of the block.
            under_lock: times(load, 4) + times(locked, 5) + load + Cycles(count / LINE_SIZE),
        }
    }

    async fn get_page(&self, site: Site, file: &PageCacheFile, offset_bytes: u64) {
        self.engine.touch(site, file.looked_at[2]).await;
        let refcount = file.page(offset_bytes, REFCOUNT);
        self.engine.fetch_add(site, refcount, 1).await;
    }

    async fn put_page(&self, site: Site, file: &PageCacheFile, offset_bytes: u64) {
        let refcount = file.page(offset_bytes, REFCOUNT);
        self.engine.fetch_add(site, refcount, -1).await;
    }

    async fn generic_perform_write(&self, task: &Rc<Task>, file: &PageCacheFile, block: BlockCopy) {
        let (engine, site) = (&self.engine, f::GENERIC_PERFORM_WRITE);
        let [size, times, _] = file.looked_at;
        engine.touch(site, size).await;
        engine.touch(site, times).await;
        self.get_page(site, file, block.offset_bytes).await;
        let flags = file.page(block.offset_bytes, FLAGS);
        // Writers of one inode exclude each other: nobody else has the page locked.
        engine.rmw(site, flags, Rmw::Or(LOCKED)).await;
        let lines = file.bytes.lines(block.offset_bytes, block.count_bytes);
        engine.overwrite_all(site, &lines).await;
        self.run_in_kernel(task, site, block.work).await;
        engine.touch(site, size).await;
        engine.rmw(site, flags, Rmw::And(!LOCKED)).await;
        self.put_page(site, file, block.offset_bytes).await;
    }
}

impl Thread {
    /// `read` of a block.
    pub async fn read_block(&self, file: &PageCacheFile, block: BlockCopy) {
        self.enter();
        let (kernel, site) = (&self.kernel, f::FILEMAP_READ);
        kernel.engine.touch(site, file.looked_at[0]).await;
        kernel.get_page(site, file, block.offset_bytes).await;
        kernel.run_in_kernel(&self.task, site, block.work).await;
        kernel.put_page(site, file, block.offset_bytes).await;
        self.leave().await;
    }

    /// `write` of a block over what is there.
    pub async fn write_block(&self, file: &PageCacheFile, block: BlockCopy) {
        self.enter();
        let kernel = &self.kernel;
        kernel.down(&self.task, &file.i_rwsem, Hold::Write).await;
        kernel.generic_perform_write(&self.task, file, block).await;
        kernel.up(&self.task, &file.i_rwsem, Hold::Write).await;
        self.leave().await;
    }
}
