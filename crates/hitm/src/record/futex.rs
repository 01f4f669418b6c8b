//! Waiting for words in shared memory (futex(2)).

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use hitm_weave::board::Futex;

pub(super) const FUTEX: Futex = Futex { wait, wake };

fn wait(word: &AtomicU32, value: u32, time: Duration) -> bool {
    let timeout = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: the word lives as long as the call; the kernel reads the span.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &timeout,
        )
    };
    result != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT)
}

fn wake(word: &AtomicU32) {
    // SAFETY: as in `wait`.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            libc::c_int::MAX,
        );
    }
}
