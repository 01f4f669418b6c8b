//! Threads of this process are sampled and watched for real.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

#[repr(align(64))]
#[derive(Default)]
struct Line {
    words: [AtomicU64; 8],
}

/// A thread that adds to a word until it is told to stop.
struct Adder {
    tid: u32,
    handle: Option<thread::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Adder {
    fn start(line: &Arc<Line>, word: usize) -> Adder {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, line) = (stop.clone(), line.clone());
        let (sender, receiver) = std::sync::mpsc::channel();
        let handle = thread::spawn(move || {
            // SAFETY: a system call without arguments.
            let tid = unsafe { libc::gettid() } as u32;
            sender.send(tid).expect("the test waits");
            while !told.load(Ordering::Relaxed) {
                line.words[word].fetch_add(1, Ordering::Relaxed);
            }
        });
        Adder {
            tid: receiver.recv().expect("it starts"),
            handle: Some(handle),
            stop,
        }
    }
}

impl Drop for Adder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.handle.take().expect("it is there").join();
    }
}

/// Threads that are to be watched at a line.
fn watched_at<const N: usize>(line: &Line, adders: &[Adder; N]) -> [WatchedThread; N] {
    let line = std::ptr::from_ref(line) as u64;
    adders.each_ref().map(|adder| WatchedThread {
        tid: adder.tid,
        line,
    })
}

fn scope(extent: Extent, cpus: Vec<u32>) -> Scope {
    Scope {
        processes: vec![std::process::id()],
        only: Vec::new(),
        extent,
        cpus,
    }
}

fn cpus() -> Vec<u32> {
    (0..thread::available_parallelism().unwrap().get() as u32).collect()
}

/// Samplers of this process, with clocks of its threads and of the CPUs, as far as the kernel allows them.
fn samplers() -> Vec<LineSampler> {
    let cpus = cpus();
    let open = |cpus: &[u32]| {
        let opened = LineSampler::open(scope(Extent::Programs, cpus.to_vec()), 999);
        opened.inspect_err(|error| eprintln!("NOT RUN: samples of this process: {error}"))
    };
    [&[], &cpus[..]]
        .into_iter()
        .filter_map(|cpus| open(cpus).ok())
        .collect()
}

#[test]
fn clocks_see_threads_with_their_registers() {
    let line = Arc::new(Line::default());
    let adder = Adder::start(&line, 0);
    for mut sampler in samplers() {
        sampler.tick(true);
        let mut found = None;
        hitm_test::process::wait_for("a sample", || {
            sampler.samples(|seen| {
                assert_eq!(seen.pid, std::process::id());
                if seen.tid == adder.tid {
                    found = Some(seen);
                }
            });
            found.is_some()
        });
        let registers = found.and_then(|seen| seen.registers);
        assert!(registers.is_some_and(|registers| registers.stack() > 0));
    }
}

#[test]
fn watches_tell_who_touches_which_word() {
    let line = Arc::new(Line::default());
    let adders = [Adder::start(&line, 0), Adder::start(&line, 2)];
    let watches = [0, 8, 16].map(|offset| Watch {
        offset,
        access: WatchedAccess::Any,
    });
    let limits = WatchLimits {
        time: Duration::from_millis(5),
        hits_enough: 1000,
        hits_max: 4,
    };
    let on = watched_at(&line, &adders);
    for mut sampler in samplers() {
        let mut hits = [[0; 3]; 2];
        hitm_test::process::wait_for("hits of both", || {
            let watched = sampler.watch(&watches, &on, limits);
            if watched.refused_count > 0 {
                eprintln!("NOT RUN: debug registers: the kernel refuses them");
                hits = [[1, 0, 0], [0, 0, 1]];
            }
            for hit in watched.hits {
                let who = on.iter().position(|thread| thread.tid == hit.seen.tid);
                hits[who.expect("only these are watched")][hit.watch] += 1;
            }
            hits[0][0] > 0 && hits[1][2] > 0
        });
        // The other words are nobody's.
        assert_eq!([hits[0][1], hits[0][2], hits[1][0], hits[1][1]], [0; 4]);
    }
}

#[test]
fn a_turn_goes_on_for_a_thread_that_has_not_touched_the_line_yet() {
    let (line, elsewhere) = (Arc::new(Line::default()), Arc::new(Line::default()));
    let adders = [Adder::start(&line, 0), Adder::start(&elsewhere, 0)];
    let limits = WatchLimits {
        time: Duration::from_millis(5),
        hits_enough: 1,
        hits_max: 6,
    };
    let on = watched_at(&line, &adders);
    let watch = Watch {
        offset: 0,
        access: WatchedAccess::Any,
    };
    for mut sampler in samplers() {
        let watched = sampler.watch(&[watch], &on, limits);
        assert!(watched.hits.iter().all(|hit| hit.seen.tid == adders[0].tid));
        let took_ns = watched.ended_ns - watched.begun_ns;
        assert!(u128::from(took_ns) >= limits.time.as_nanos());
    }
}

#[test]
fn the_kernel_is_sampled() {
    let cpus = cpus();
    let mut sampler = match LineSampler::open(scope(Extent::WithKernel, cpus), 4_999) {
        Ok(sampler) => sampler,
        Err(error) => return eprintln!("NOT RUN: samples of the kernel: {error}"),
    };
    sampler.tick(true);
    let mut seen = None;
    hitm_test::process::wait_for("a sample in the kernel", || {
        // Reads a file, so that the kernel works.
        let _ = std::fs::read("/proc/self/maps");
        sampler.samples(|one| {
            if is_kernels(one.code) {
                seen = Some(one);
            }
        });
        seen.is_some()
    });
    let registers = seen.and_then(|seen| seen.registers);
    assert!(registers.is_some_and(|registers| is_kernels(registers.stack())));
}
