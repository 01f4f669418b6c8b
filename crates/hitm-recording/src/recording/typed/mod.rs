//! Types of memory that has none of its own: heap blocks, and whatever no allocator was seen to give.
//!
//! Each access votes for the type and the place of the object that its instruction accesses
//! ([`hitm_layout::ObjectFile::accessed_type`]), once for each time that it was made. A heap block
//! is an object or an array of the type that most votes agree with. Where they do not agree on one
//! for the whole block, each line is judged by its own votes. A wrong name is worse than none: see
//! [`votes::AGREEING`].

mod code;
mod names;
mod votes;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use hitm_base::{AddrRange, CodeAddr, LINE_SIZE, LineAddr};
use hitm_coherence::stats::Statistics;
use hitm_layout::{AccessedType, ResultUse, TypeStore};
use hitm_trace::{Region, RegionKind};

pub(super) use self::code::{Code, FileType, file_type};
pub use self::names::TypedBlock;
use self::votes::{Instance, Vote, Votes, Whole};
use super::objects::HeapBlock;

/// Instructions and lines that are kept: of each kind some 10 MiB.
const KEPT_MAX: usize = 1 << 17;

/// Types by which glibc's allocator sees memory that is somebody else's object.
const ALLOCATORS_VIEWS: [&str; 2] = ["malloc_chunk", "tcache_entry"];

/// Numbers of votes, and of those that agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// Accesses whose instructions say what they access.
    pub(super) votes: u64,
    /// Those of them that agree.
    pub(super) agreeing: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.votes {
            0 => f.write_str("type by the allocation"),
            votes => write!(f, "type by {} of {votes} accesses", self.agreeing),
        }
    }
}

/// An object of a known type that holds a byte.
#[derive(Debug, Clone)]
pub(super) struct TypedPlace {
    /// Its type; of an array that of the elements.
    pub(super) of: FileType,
    /// Address of the object, or of the element.
    pub(super) base: u64,
    /// Of an array: the element's number, and the address and size of the array.
    pub(super) element: Option<(u64, u64, u64)>,
    /// Votes on that type.
    pub(super) tally: Tally,
}

impl TypedPlace {
    /// The object, or the element, as memory of a kernel with a name.
    pub(super) fn region(&self) -> Option<Region> {
        let index = self.element.map(|(index, _, _)| format!("[{index}]"));
        Some(Region {
            range: AddrRange::with_len(self.base, self.of.size)?,
            kind: RegionKind::Object {
                name: format!("{}{}", self.of.name, index.unwrap_or_default()),
                type_name: self.of.name.to_string(),
            },
        })
    }
}

/// Types of all memory of a recording, found when first asked for.
#[derive(Debug, Default)]
pub(super) struct MemoryTypes {
    /// Types that instructions access.
    accessed: RefCell<BTreeMap<CodeAddr, Option<(FileType, AccessedType)>>>,
    /// By the address of the block.
    blocks: RefCell<BTreeMap<u64, Option<Rc<Whole>>>>,
    lines: RefCell<BTreeMap<LineAddr, Rc<[Instance]>>>,
    /// Types that the results of allocations are used as, by their stacks.
    sites: RefCell<BTreeMap<Arc<[CodeAddr]>, Option<FileType>>>,
    /// Types that allocators were told, by the addresses of their descriptions.
    told: RefCell<BTreeMap<u64, Option<FileType>>>,
}

/// Inputs of the search for types.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) statistics: &'a Statistics,
    pub(super) code: Code<'a>,
    /// Set when accesses are samples, which do not say how many bytes they are of.
    pub(super) are_samples: bool,
}

impl Source<'_> {
    /// Vote of an access to `part_bytes` bytes at `addr`, by what its instruction accesses.
    fn vote(self, addr: u64, part_bytes: u8, accessed: &AccessedType) -> Option<Vote> {
        let base = addr.checked_sub(accessed.offset)?;
        Some(match self.are_samples {
            // A sample is of a whole access.
            true => Vote {
                base,
                addr,
                part_bytes: accessed.bytes,
                part_count: 1,
            },
            false => Vote {
                base,
                addr,
                part_bytes: part_bytes.into(),
                part_count: parts(accessed.bytes, part_bytes),
            },
        })
    }
}

impl MemoryTypes {
    /// The object in a heap block that holds the byte at `addr`.
    pub(super) fn in_block(
        &self,
        source: Source<'_>,
        block: &HeapBlock,
        addr: u64,
    ) -> Option<TypedPlace> {
        self.in_range(source, block.range, addr, || {
            let told = block.told_type.and_then(|at| self.told(source, at));
            told.or_else(|| self.allocated(source, &block.stack))
        })
    }

    /// The object that holds the byte at `addr`, in a range that was given out as a whole. `allocated` is the type that
    /// it was given out for.
    pub(super) fn in_range(
        &self,
        source: Source<'_>,
        range: AddrRange,
        addr: u64,
        allocated: impl FnOnce() -> Option<FileType>,
    ) -> Option<TypedPlace> {
        let whole = self.whole(source, range, allocated);
        let place = whole.as_ref().and_then(|whole| whole.place(range, addr));
        let Some(place) = place else {
            return self.on_line(source, addr, Some(range));
        };
        // What lies in an object as bytes, the code around may know.
        let into = addr - place.base;
        let is_storage = |types: &TypeStore| types.is_storage(place.of.id, into);
        let is_storage = source.code.with_types(&place.of.path, is_storage)?;
        let inner = is_storage.then(|| self.on_line(source, addr, Some(range)));
        let is_inside = |inner: &TypedPlace| inner.of.size < place.of.size;
        Some(inner.flatten().filter(is_inside).unwrap_or(place))
    }

    /// The object that holds the byte at `addr`, by the accesses to its line. It lies in `range`, if that is
    /// given.
    pub(super) fn on_line(
        &self,
        source: Source<'_>,
        addr: u64,
        range: Option<AddrRange>,
    ) -> Option<TypedPlace> {
        let line = LineAddr(addr / LINE_SIZE);
        let known = self.lines.borrow().get(&line).cloned();
        let instances = known.unwrap_or_else(|| {
            let votes = self.votes(source, line, line, |_| true);
            let found: Rc<[Instance]> = votes.instances(source.code).into();
            keep(&mut self.lines.borrow_mut(), line, found.clone());
            found
        });
        let mut here = instances.iter();
        let found = here.find(|instance| instance.holds(addr) && instance.lies_in(range))?;
        Some(found.place())
    }

    /// The type of a whole block.
    fn whole(
        &self,
        source: Source<'_>,
        range: AddrRange,
        allocated: impl FnOnce() -> Option<FileType>,
    ) -> Option<Rc<Whole>> {
        let start = range.start();
        if let Some(known) = self.blocks.borrow().get(&start) {
            return known.clone();
        }
        let (first, last) = range.lines();
        let votes = self.votes(source, first, last, |addr| range.contains(addr));
        let found = votes.whole(source.code, range, allocated()).map(Rc::new);
        self.blocks.borrow_mut().insert(start, found.clone());
        found
    }

    /// The votes of the accesses to the lines from `first` to `last`.
    fn votes(
        &self,
        source: Source<'_>,
        first: LineAddr,
        last: LineAddr,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Votes {
        let mut votes = Votes::default();
        for (line, stats) in source.statistics.lines.range(first..=last) {
            for (key, row) in &stats.rows {
                let addr = line.first_byte() + u64::from(key.offset);
                if !is_wanted(addr) {
                    continue;
                }
                votes.see(addr, row.sources.total());
                if let Some((of, accessed)) = self.accessed(source, key.code)
                    && !ALLOCATORS_VIEWS.contains(&&*of.name)
                    && let Some(vote) = source.vote(addr, key.size, &accessed)
                {
                    votes.add(source.code, of, vote, row.sources.total());
                }
            }
        }
        votes
    }

    /// Returns the type that an instruction accesses.
    fn accessed(&self, source: Source<'_>, code: CodeAddr) -> Option<(FileType, AccessedType)> {
        if let Some(known) = self.accessed.borrow().get(&code) {
            return known.clone();
        }
        let found = source.code.accessed(code);
        keep(&mut self.accessed.borrow_mut(), code, found.clone());
        found
    }

    /// The type that an allocator was told, of the elements of an array.
    fn told(&self, source: Source<'_>, at: u64) -> Option<FileType> {
        if let Some(known) = self.told.borrow().get(&at) {
            return known.clone();
        }
        let found = source.code.symbolizer().and_then(|mut symbolizer| {
            let (path, id) = symbolizer.described_type(at)?;
            file_type(&mut symbolizer, &path, id)
        });
        keep(&mut self.told.borrow_mut(), at, found.clone());
        found
    }

    /// The type that the pointer from an allocation is used as, by the innermost caller that says.
    fn allocated(&self, source: Source<'_>, stack: &Arc<[CodeAddr]>) -> Option<FileType> {
        if let Some(known) = self.sites.borrow().get(stack) {
            return known.clone();
        }
        let mut found = None;
        for frame in stack.iter() {
            let Some(mut symbolizer) = source.code.symbolizer() else {
                break;
            };
            match symbolizer.result_use(frame.0) {
                Some((path, ResultUse::PointsAt(to))) => {
                    found = file_type(&mut symbolizer, &path, to);
                    break;
                }
                // Its caller knows more; so may the caller of an allocator without debug information.
                Some((_, ResultUse::Returned)) | None => {}
                Some((path, ResultUse::Unknown)) => {
                    if symbolizer
                        .file(&path)
                        .is_some_and(|file| file.has_debug_info())
                    {
                        break;
                    }
                }
            }
        }
        self.sites
            .borrow_mut()
            .insert(Arc::clone(stack), found.clone());
        found
    }
}

/// The parts in which an access is recorded.
fn parts(whole_bytes: u64, part_bytes: u8) -> u64 {
    match part_bytes {
        0 => 1,
        part => (whole_bytes / u64::from(part)).max(1),
    }
}

/// Keeps an entry; what was kept before is forgotten when it becomes too much.
fn keep<K: Ord, V>(kept: &mut BTreeMap<K, V>, key: K, value: V) {
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
    kept.insert(key, value);
}
