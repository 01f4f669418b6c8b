//! Loops of known instructions, and cache flushes: the parts in assembly.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::time::Instant;

/// Samples of the core's frequency in GHz, from a chain of additions of one cycle each; `None` on
/// processors for which no chain is written.
///
/// Register to register: additions of a constant cost nothing on cores from Golden Cove on.
#[cfg(target_arch = "x86_64")]
pub(super) fn clock_ghz(sample_count: usize) -> Option<Vec<f64>> {
    const ROUNDS: u64 = 100_000;
    const ADDITIONS: u64 = 16;
    let sample = |_| {
        let start = Instant::now();
        // SAFETY: only the named registers are written; no memory and no stack is touched.
        unsafe {
            asm!(
                "2:",
                "add {a}, {b}", "add {a}, {b}", "add {a}, {b}", "add {a}, {b}",
                "add {a}, {b}", "add {a}, {b}", "add {a}, {b}", "add {a}, {b}",
                "add {a}, {b}", "add {a}, {b}", "add {a}, {b}", "add {a}, {b}",
                "add {a}, {b}", "add {a}, {b}", "add {a}, {b}", "add {a}, {b}",
                "sub {n}, 1",
                "jnz 2b",
                a = inout(reg) 1u64 => _,
                b = in(reg) 3u64,
                n = inout(reg) ROUNDS => _,
                options(nomem, nostack),
            );
        }
        (ROUNDS * ADDITIONS) as f64 / start.elapsed().as_nanos().max(1) as f64
    };
    Some((0..sample_count).map(sample).collect())
}

/// Evicts the line at `address` from every cache of the machine, and writes it back when modified.
/// Takes effect before [`fence`] returns. Returns false where user code may not.
#[cfg(target_arch = "x86_64")]
pub(super) fn flush(address: *const u8) -> bool {
    // SAFETY: clflush changes no memory content, and the callers pass addresses of live buffers.
    unsafe { std::arch::x86_64::_mm_clflush(address) };
    true
}

/// Waits for all loads, stores and flushes before it.
#[cfg(target_arch = "x86_64")]
pub(super) fn fence() {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { std::arch::x86_64::_mm_mfence() };
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use elsewhere::{clock_ghz, fence, flush};

/// Other processors: numbers that need assembly stay assumed.
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    pub(crate) fn clock_ghz(_: usize) -> Option<Vec<f64>> {
        None
    }

    pub(crate) fn flush(_: *const u8) -> bool {
        false
    }

    pub(crate) fn fence() {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}
