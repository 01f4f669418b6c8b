//! Locks, condition variables and counts of references of a program or a kernel, by their types.

use hitm_kernel::PAGE_DESCRIPTORS;
use hitm_layout::{StructLayout, TypeId, TypeKind, TypeStore, structs};

use super::AddressNames;
use super::typed::TypedPlace;

/// Kind of object by which threads agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncKind {
    /// A mutex, a spin lock, a semaphore, a barrier.
    Lock,
    /// A lock that readers hold together: they count themselves in it.
    ReadWriteLock,
    /// A condition variable: threads wait on it for something to come true.
    ConditionVariable,
    /// A channel of Go: threads hand values over in it, under a lock of its own.
    Channel,
    /// A count of references or the like: whoever changes it excludes nobody.
    Count,
}

/// An object by which threads agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncObject {
    /// Its name: the variable with the way to the member.
    pub name: String,
    /// Address of its first byte.
    pub addr: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its kind.
    pub kind: SyncKind,
}

/// Types by their kind, without their namespaces and what they are generic over: those of POSIX (of which C++'s
/// are made), C11, glibc itself, Rust (where `Mutex` and `RwLock` without parameters are those of `std::sys`),
/// Go, abseil, folly and oneTBB, and those of Linux.
const TYPES: &[(SyncKind, &[&str])] = &[
    (
        SyncKind::Lock,
        &[
            "pthread_mutex_t",
            "pthread_spinlock_t",
            "pthread_barrier_t",
            "sem_t",
            "mtx_t",
            "__libc_lock_t",
            "__libc_lock_recursive_t",
            "__rtld_lock_recursive_t",
            "_IO_lock_t",
            "sync.Mutex",
            "runtime.mutex",
            "RawMutex",
            "WordLock",
            "Mutex",
            "SpinLock",
            "MicroLock",
            "MicroLockCore",
            "MicroSpinLock",
            "DistributedMutex",
            "spin_mutex",
            "queuing_mutex",
            "mutex",
            "rt_mutex",
            "rt_mutex_base",
            "semaphore",
            "spinlock",
            "spinlock_t",
            "raw_spinlock",
            "raw_spinlock_t",
            "arch_spinlock_t",
            "qspinlock",
            "optimistic_spin_queue",
            "seqcount",
            "seqcount_t",
        ],
    ),
    (
        SyncKind::ReadWriteLock,
        &[
            "pthread_rwlock_t",
            "sync.RWMutex",
            "RawRwLock",
            "RwLock",
            "SharedMutexImpl",
            "RWSpinLock",
            "spin_rw_mutex",
            "queuing_rw_mutex",
            "rw_semaphore",
            "rwlock_t",
            "qrwlock",
            "percpu_rw_semaphore",
        ],
    ),
    (
        SyncKind::ConditionVariable,
        &["pthread_cond_t", "cnd_t", "Condvar"],
    ),
    (SyncKind::Channel, &["runtime.hchan"]),
    (
        SyncKind::Count,
        &[
            "_Atomic_word",
            "atomic_t",
            "atomic64_t",
            "atomic_long_t",
            "refcount_struct",
            "refcount_t",
            "rcuref_t",
            "kref",
            "percpu_ref",
            "percpu_ref_data",
        ],
    ),
];

/// Members that are counts, or flags of many bits, by the type that they are in (empty: any) and their name.
const COUNTS: &[(&str, &str)] = &[
    ("ArcInner", "strong"),
    ("ArcInner", "weak"),
    ("page", "flags"),
    ("folio", "flags"),
    ("lockref", "count"),
    ("", "refcount"),
    ("", "ref_count"),
    ("", "refcnt"),
    ("", "ob_refcnt"),
    ("", "use_count_"),
    ("", "refs"),
];

/// Deepest nesting of types that is looked through.
const DEPTH_MAX: usize = 64;

impl AddressNames<'_> {
    /// The object by which threads agree that an access of `size` bytes at `addr` touches, when the type of the
    /// variable there says so.
    pub fn sync_object(&self, addr: u64, size: u8) -> Option<SyncObject> {
        if let Some(place) = self.typed_place(addr, size) {
            return self.in_typed(&place, addr);
        }
        if let Some(region) = self.kernel_region(addr) {
            let label = self.kernel_label(&region, addr, size);
            let kernel = self.kernel.as_ref()?;
            return kernel.in_object(&region, addr, |store, of, offset| {
                let found = find(store, of, offset)?;
                Some(found.named(&label.object, addr - offset))
            });
        }
        if self.is_without_type(addr) {
            return None;
        }
        if let Some(kernel) = &self.kernel
            && let content = self.page_content(addr)
            && let Some(variable) = kernel.variable(addr, size, content)
        {
            return kernel.in_variable(addr, content, |store, of, offset| {
                let found = find(store, of, offset)?;
                // Of a page table's descriptor, the lock alone has been asked about.
                let is_table = found.path.is_empty() && PAGE_DESCRIPTORS.contains(&addr);
                let member = if is_table { &*variable.member } else { "" };
                Some(found.named(&format!("{}{member}", variable.object), addr - offset))
            });
        }
        let name = self.variable(addr, size);
        let mut symbolizer = self.symbolizer.borrow_mut();
        let location = name.location?;
        let of = location.object.type_id?;
        let store = symbolizer.file(&name.path?)?.types();
        let found = find(store, of, location.offset)?;
        Some(found.named(&location.object.name, location.object.start))
    }

    /// The same in an object of a known type: a lock in shells, as `Arc`'s, has the name that members have.
    fn in_typed(&self, place: &TypedPlace, addr: u64) -> Option<SyncObject> {
        let index = place.element.map(|(index, _, _)| format!("[{index}]"));
        let index = index.unwrap_or_default();
        let content = self.content(place, addr);
        let whole = (place.of.clone(), place.base);
        let mut objects = content.into_iter().chain([whole]);
        objects.find_map(|(of, base)| {
            let found =
                self.with_file_types(&of.path, |store| find(store, of.id, addr - base))??;
            let start = place.element.map_or(base, |(_, start, _)| start);
            let object = self.object_name(&of, start);
            Some(found.named(&format!("{object}{index}"), base))
        })
    }

    /// Returns true if the object at `addr` has a known type.
    pub fn has_type(&self, addr: u64, size: u8) -> bool {
        if let Some(kernel) = &self.kernel
            && addr >> 63 == 1
        {
            let known = |_: &TypeStore, _: TypeId, _: u64| Some(());
            let found = match self.kernel_region(addr) {
                Some(region) => kernel.in_object(&region, addr, known),
                None => kernel.in_variable(addr, self.page_content(addr), known),
            };
            return found.is_some();
        }
        let is_typed = || {
            let name = self.variable(addr, size);
            let location = name.location?;
            location.object.type_id
        };
        self.typed_place(addr, size).is_some()
            || (!self.is_without_type(addr) && is_typed().is_some())
    }

    /// Returns true if what is at `addr` is no variable of a program.
    fn is_without_type(&self, addr: u64) -> bool {
        self.objects.heap_at(addr).is_some() || self.kernel_region(addr).is_some()
    }
}

/// An object in another one.
struct Found {
    path: String,
    offset: u64,
    size_bytes: u64,
    kind: SyncKind,
}

impl Found {
    fn named(self, object: &str, base: u64) -> SyncObject {
        SyncObject {
            name: format!("{object}{}", self.path),
            addr: base + self.offset,
            size_bytes: self.size_bytes,
            kind: self.kind,
        }
    }
}

/// The object that holds the byte at `offset` of one of type `of`, the outermost one.
fn find(store: &TypeStore, of: TypeId, offset: u64) -> Option<Found> {
    let path = Path {
        text: String::new(),
        whole: String::new(),
        base: 0,
        depth: 0,
    };
    path.find(store, of, offset)
}

/// The way to a part of an object.
#[derive(Debug, Clone)]
struct Path {
    text: String,
    /// The innermost type with a name that holds it.
    whole: String,
    base: u64,
    depth: usize,
}

impl Path {
    fn find(self, store: &TypeStore, of: TypeId, offset: u64) -> Option<Found> {
        let id = store.resolve(of);
        if let Some(kind) = kind_of_type(store, of) {
            return self.found(store, id, kind);
        }
        let inner = offset.checked_sub(self.base)?;
        match &store.get(id).kind {
            TypeKind::Aggregate(layout) if self.depth < DEPTH_MAX => {
                // What has no name of its own is a part of what it lies in.
                let own = bare(&store.get(id).name);
                let is_anonymous = own.is_empty() || own.starts_with('(');
                let whole = if is_anonymous { &*self.whole } else { own };
                self.find_in_members(store, whole, layout, offset)
            }
            TypeKind::Array { element, .. } if self.depth < DEPTH_MAX => {
                let size = store.get(store.resolve(*element)).size;
                let size = size.filter(|size| *size > 0)?;
                let path = Path {
                    text: format!("{}[{}]", self.text, inner / size),
                    whole: self.whole.clone(),
                    base: self.base + inner / size * size,
                    depth: self.depth + 1,
                };
                path.find(store, *element, offset)
            }
            _ => None,
        }
    }

    /// A union has several members at one offset.
    fn find_in_members(
        &self,
        store: &TypeStore,
        whole: &str,
        layout: &StructLayout,
        offset: u64,
    ) -> Option<Found> {
        let inner = offset - self.base;
        let members = layout.members.iter();
        let mut holding =
            members.filter(|member| (member.byte_offset()..member.byte_end()).contains(&inner));
        holding.find_map(|member| {
            let name = member.name.as_deref().unwrap_or_default();
            let path = Path {
                text: match name {
                    "" => self.text.clone(),
                    name => format!("{}.{name}", self.text),
                },
                whole: whole.to_owned(),
                base: self.base + member.byte_offset(),
                depth: self.depth + 1,
            };
            let is_count =
                |(of, count): &(&str, &str)| *count == name && (of.is_empty() || *of == whole);
            let found = path.clone().find(store, member.type_id, offset);
            found.or_else(|| {
                let id = store.resolve(member.type_id);
                let count = COUNTS.iter().any(is_count).then_some(SyncKind::Count)?;
                path.found(store, id, count)
            })
        })
    }

    fn found(self, store: &TypeStore, id: TypeId, kind: SyncKind) -> Option<Found> {
        Some(Found {
            path: self.text,
            offset: self.base,
            size_bytes: store.get(id).size?,
            kind,
        })
    }
}

/// A type's name without its namespaces and parameters. A generic lock (`Mutex<T>`, `RwLock<T>` of Rust) holds
/// the data that it guards: it is looked into, and has no name here.
fn bare(name: &str) -> &str {
    let name = structs::bare(name);
    let name = name.split_once('<').map_or(name, |(before, _)| before);
    name.rsplit("::").next().unwrap_or(name)
}

/// Returns true if a type is that of an object by which threads agree.
pub fn is_sync_type(store: &TypeStore, id: TypeId) -> bool {
    kind_of_type(store, id).is_some()
}

fn kind_of_type(store: &TypeStore, mut id: TypeId) -> Option<SyncKind> {
    const HOLDING_DATA: &[&str] = &["Mutex", "RwLock"];
    loop {
        let one = store.get(id);
        let name = bare(&one.name);
        let holds_data = one.name.contains('<') && HOLDING_DATA.contains(&name);
        let mut kinds = TYPES.iter().filter(|_| !holds_data);
        if let Some((kind, _)) = kinds.find(|(_, names)| names.contains(&name)) {
            return Some(*kind);
        }
        match one.kind {
            TypeKind::Alias(target) => id = target,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use hitm_layout::BtfFile;
    use hitm_test::btf::{Assembler, Info, kind};

    use super::*;

    #[test]
    fn a_lockref_is_a_lock_with_a_count_behind_it() {
        let mut btf = Assembler::new(false);
        let int = btf.int("int", 4);
        let word = btf.int("long", 8);
        let spinlock = btf.structure("spinlock", 4, &[("locked", int, 0)]);
        let both = btf.structure("", 8, &[("lock", spinlock, 0), ("count", int, 32)]);
        let members = [("lock_count", word, 0), ("", both, 0)];
        let one = btf.aggregate("", Info::of(kind::UNION), 8, &members);
        let lockref = btf.structure("lockref", 8, &[("", one, 0)]);
        btf.structure(
            "dentry",
            24,
            &[("d_lockref", lockref, 64), ("count", int, 128)],
        );
        let mut btf = BtfFile::parse(btf.finish().into(), None, "the kernel").unwrap();
        let dentry = btf.type_by_name("dentry").unwrap();
        let found = |offset| {
            let found = find(btf.types(), dentry, offset)?;
            Some((found.path, found.kind, found.offset, found.size_bytes))
        };
        let lock = (".d_lockref.lock".to_owned(), SyncKind::Lock, 8, 4);
        assert_eq!(found(8), Some(lock));
        let count = (".d_lockref.count".to_owned(), SyncKind::Count, 12, 4);
        assert_eq!(found(12), Some(count));
        assert_eq!(found(16), None);
    }
}
