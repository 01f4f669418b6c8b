//! The CPU of the host on which recorded threads stay while they wait for one another all the time
//! ([`hitm_weave::board::Port::home`]).

use std::cell::Cell;
use std::sync::OnceLock;

/// A mask of sched_setaffinity(2): one bit a CPU.
type Mask = [u64; 128];

/// The CPUs on which this process may run, from before the first of its threads stayed on one.
static ALL: OnceLock<Mask> = OnceLock::new();

thread_local! {
    /// Host CPU on which the thread stays; none if it roams.
    static STAYS: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Begins a thread, which has the CPUs of the one that created it.
pub(crate) fn begin(home: Option<u32>) {
    if ALL.get().is_some() {
        move_to(home);
    }
}

/// The thread stays on this CPU from here on, or roams.
#[inline(always)]
pub(crate) fn go(home: Option<u32>) {
    if STAYS.get() != home {
        move_to(home);
    }
}

/// Moves the thread; where it cannot be, it roams.
#[cold]
fn move_to(home: Option<u32>) {
    STAYS.set(home);
    let all = ALL.get_or_init(own_mask);
    let one = home.map(|cpu| {
        let mut mask = [0; 128];
        mask[cpu as usize / 64 % 128] = 1 << (cpu % 64);
        mask
    });
    set_mask(0, one.as_ref().unwrap_or(all));
}

/// All threads of the process roam: nobody lets them go on any more, or tells them where to be.
pub(crate) fn leave() {
    let Some(all) = ALL.get() else { return };
    STAYS.set(None);
    set_mask(0, all);
    let tasks = std::fs::read_dir("/proc/self/task").into_iter();
    let tids = tasks
        .flatten()
        .flatten()
        .filter_map(|task| task.file_name().to_str()?.parse().ok());
    tids.for_each(|tid| set_mask(tid, all));
}

/// Of a thread; 0 is the calling one.
fn set_mask(tid: libc::pid_t, mask: &Mask) {
    // SAFETY: the kernel reads as many bytes.
    unsafe { libc::sched_setaffinity(tid, size_of::<Mask>(), mask.as_ptr().cast()) };
}

fn own_mask() -> Mask {
    let mut mask = [0; 128];
    // SAFETY: the kernel writes at most so many bytes, and any are a mask.
    unsafe { libc::sched_getaffinity(0, size_of::<Mask>(), mask.as_mut_ptr().cast()) };
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_and_roams_again_and_so_does_one_that_it_creates() {
        let all = own_mask();
        let word = all.iter().position(|word| *word != 0).expect("a CPU");
        let cpu = word as u32 * 64 + all[word].trailing_zeros();
        let count = |mask: Mask| mask.iter().map(|word| word.count_ones()).sum::<u32>();
        go(Some(cpu));
        assert_eq!(count(own_mask()), 1);
        let created = std::thread::spawn(|| {
            begin(None);
            own_mask()
        });
        assert_eq!(created.join().expect("it ends"), all);
        go(None);
        assert_eq!(own_mask(), all);
        let (stay, stays) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            go(Some(cpu));
            stay.send(()).expect("it is waited for");
            let _ = ends.recv();
            own_mask()
        });
        stays.recv().expect("it stays");
        leave();
        drop(end);
        assert_eq!(other.join().expect("it ends"), all);
    }
}
