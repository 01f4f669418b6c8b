//! Prefetches of the host's memory that will be needed soon.
//!
//! The tables of a replay or of a simulation do not fit the host's caches, and both know early what
//! they will look at. Nothing is read and no result depends on it: on hosts other than x86-64
//! nothing happens.

/// Bytes of a cache line of the hosts that this is written for.
pub const HOST_LINE_BYTES: usize = 64;

/// Prefetches the first cache line of the item with this index; an index behind the end does
/// nothing.
#[inline]
pub fn prefetch<T>(items: &[T], index: usize) {
    prefetch_at(items.as_ptr().wrapping_add(index).cast());
}

/// Prefetches a whole item, or the items of a slice.
#[inline]
pub fn prefetch_value<T: ?Sized>(item: &T) {
    prefetch_bytes((&raw const *item).cast(), size_of_val(item));
}

/// Prefetches so many bytes from an address on; any address will do.
#[inline]
pub fn prefetch_bytes(first: *const u8, len: usize) {
    let begin = first.addr() - first.addr() % HOST_LINE_BYTES;
    let end = first.addr() + len;
    // Four lines at once, some of them the last one again. A loop over their number would be
    // mispredicted, and that costs more than asking twice.
    let mut at = begin;
    while at < end {
        for line in 0..4 {
            let line = (at + line * HOST_LINE_BYTES).min(end - 1);
            prefetch_at(first.with_addr(line));
        }
        at += 4 * HOST_LINE_BYTES;
    }
}

/// Prefetches the cache line at an address; any address will do.
#[inline]
pub fn prefetch_at(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads no value and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
