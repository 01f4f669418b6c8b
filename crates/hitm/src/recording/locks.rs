//! Lock objects of a program, by their types.

use hitm_layout::{StructLayout, TypeId, TypeKind, TypeStore};

use super::AddressNames;

/// A mutex, a condition variable or the like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockLabel {
    /// Its name: the variable with the way to the member.
    pub name: String,
    /// Address of its first byte.
    pub addr: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// True if threads wait on it for something to come true.
    pub is_condition_variable: bool,
}

/// Types that are locks, without their namespaces. C++'s mutexes and Rust's of before 2022 are made of
/// those of POSIX; Rust's own are one word.
const LOCK_TYPES: &[&str] = &[
    "pthread_mutex_t",
    "pthread_rwlock_t",
    "pthread_spinlock_t",
    "pthread_barrier_t",
    "sem_t",
    "mtx_t",
    "sync.Mutex",
    "sync.RWMutex",
    "RawMutex",
    "RawRwLock",
];

/// Types that are condition variables.
const CONDITION_TYPES: &[&str] = &["pthread_cond_t", "cnd_t"];

/// Deepest nesting of types that is looked through.
const DEPTH_MAX: usize = 64;

impl AddressNames<'_> {
    /// The lock or condition variable that an access of `size` bytes at `addr` touches, when the type of
    /// the variable there says so.
    pub fn lock(&self, addr: u64, size: u8) -> Option<LockLabel> {
        if let Some(place) = self.typed_place(addr, size) {
            let mut symbolizer = self.symbolizer.borrow_mut();
            let store = symbolizer.file(&place.of.path)?.types();
            let found = lock_at(store, place.of.id, addr - place.base)?;
            let index = place.element.map(|(index, _, _)| format!("[{index}]"));
            return Some(LockLabel {
                name: format!(
                    "{}{}{}",
                    place.of.name,
                    index.unwrap_or_default(),
                    found.path
                ),
                addr: place.base + found.offset,
                size_bytes: found.size_bytes,
                is_condition_variable: found.is_condition_variable,
            });
        }
        if self.is_without_type(addr) {
            return None;
        }
        let mut symbolizer = self.symbolizer.borrow_mut();
        let name = symbolizer.data(addr, size.into());
        let location = name.location?;
        let of = location.object.type_id?;
        let store = symbolizer.file(&name.path?)?.types();
        let found = lock_at(store, of, location.offset)?;
        Some(LockLabel {
            name: location.object.name + &found.path,
            addr: location.object.start + found.offset,
            size_bytes: found.size_bytes,
            is_condition_variable: found.is_condition_variable,
        })
    }

    /// Returns true if the object at `addr` has a known type.
    pub fn has_type(&self, addr: u64, size: u8) -> bool {
        let is_typed = || {
            let name = self.symbolizer.borrow_mut().data(addr, size.into());
            let location = name.location?;
            location.object.type_id
        };
        self.typed_place(addr, size).is_some()
            || (!self.is_without_type(addr) && is_typed().is_some())
    }

    /// Returns true if what is at `addr` is no variable of a program.
    fn is_without_type(&self, addr: u64) -> bool {
        self.objects.heap_at(addr).is_some() || self.kernel_regions.at(addr).is_some()
    }
}

struct FoundLock {
    path: String,
    offset: u64,
    size_bytes: u64,
    is_condition_variable: bool,
}

/// The lock that holds the byte at `offset` of an object, the outermost one.
fn lock_at(store: &TypeStore, of: TypeId, offset: u64) -> Option<FoundLock> {
    let (mut of, mut base, mut path) = (of, 0, String::new());
    for _ in 0..DEPTH_MAX {
        let id = store.resolve(of);
        if let Some(is_condition_variable) = lock_type(store, of) {
            return Some(FoundLock {
                path,
                offset: base,
                size_bytes: store.get(id).size?,
                is_condition_variable,
            });
        }
        let inner = offset - base;
        match &store.get(id).kind {
            TypeKind::Aggregate(layout) => {
                let member = member_at(layout, inner)?;
                if let Some(name) = &member.name {
                    path = format!("{path}.{name}");
                }
                base += member.byte_offset();
                of = member.type_id;
            }
            TypeKind::Array { element, .. } => {
                let size = store.get(store.resolve(*element)).size;
                let size = size.filter(|size| *size > 0)?;
                path = format!("{path}[{}]", inner / size);
                base += inner / size * size;
                of = *element;
            }
            _ => return None,
        }
    }
    None
}

fn member_at(layout: &StructLayout, offset: u64) -> Option<&hitm_layout::Member> {
    let holds =
        |member: &&hitm_layout::Member| (member.byte_offset()..member.byte_end()).contains(&offset);
    layout.members.iter().find(holds)
}

/// Returns true if a type, or one that it stands for, is a lock (`false`) or a condition variable (`true`).
fn lock_type(store: &TypeStore, mut id: TypeId) -> Option<bool> {
    loop {
        let one = store.get(id);
        let bare = one.name.rsplit("::").next().unwrap_or(&one.name);
        if CONDITION_TYPES.contains(&bare) {
            return Some(true);
        }
        if LOCK_TYPES.contains(&bare) {
            return Some(false);
        }
        match one.kind {
            TypeKind::Alias(target) => id = target,
            _ => return None,
        }
    }
}
