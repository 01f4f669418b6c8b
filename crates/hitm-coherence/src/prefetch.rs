//! Asking the host's memory for what will be needed soon.
//!
//! The tables of a replay and of a large simulation do not fit the host's caches, and both often know
//! early what they will look at. Nothing
//! is read and no result depends on it: on hosts other than x86-64 nothing happens.

/// Brings the item with this index into the host's cache; an index behind the end does nothing.
#[inline]
pub fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let item = items.as_ptr().wrapping_add(index);
        // SAFETY: a prefetch reads no value and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(item.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}
