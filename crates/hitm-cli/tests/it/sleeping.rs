//! Recordings of threads that sleep for millions of records, run again in little memory.

use std::fs;
use std::path::Path;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, Cycles, DataSource, Outcome, ThreadId};
use hitm_trace::{
    BlockEncoder, EncodeError, Header, Record, Step, Stretch, ThreadStart, TraceWriter, Turn, Work,
};

use crate::limited::run;

/// Writes records in blocks as large as a recorder's.
struct Writer {
    writer: TraceWriter<Vec<u8>>,
    encoder: BlockEncoder<Vec<u8>>,
}

impl Writer {
    /// A recording of this many threads.
    fn new(thread_count: u32) -> Writer {
        let machine = hitm_base::machine::preset("broadwell-4s").expect("a preset");
        let header = Header {
            machine_toml: machine.to_owned(),
            ..hitm_test::recording::header()
        };
        let mut writer = Writer {
            writer: TraceWriter::new(Vec::new(), &header).expect("memory takes it"),
            encoder: BlockEncoder::new(vec![0; 256 << 10]),
        };
        for thread in 0..thread_count {
            writer.push(&Record::ThreadStart(ThreadStart {
                thread: ThreadId(thread),
                tid: thread + 1,
                cpu: CpuId(thread as u16),
                time: Cycles(0),
                name: "a thread".to_owned(),
                seat: thread,
                process: 0,
            }));
        }
        writer
    }

    fn push(&mut self, record: &Record) {
        if self.encoder.push(record) == Err(EncodeError::Full) {
            self.end_block();
            self.encoder.push(record).expect("a block holds a record");
        }
    }

    fn end_block(&mut self) {
        let (meta, bytes) = (self.encoder.meta(), self.encoder.bytes());
        self.writer
            .write_block(meta, bytes)
            .expect("memory takes it");
        self.encoder.clear();
    }

    /// A thread's next `count` accesses, 10 instructions apart.
    fn work(&mut self, thread: u32, count: usize) {
        let step = Step {
            since: Stretch {
                insns: 10,
                stores: 0,
            },
            is_fence: false,
        };
        self.push(&Record::Work(Work {
            thread: ThreadId(thread),
            adoptions: Vec::new(),
            steps: std::iter::repeat_n(step, count).collect(),
            ahead: Stretch::default(),
        }));
    }

    /// The accesses of such a work: loads of two lines that all threads use.
    fn accesses(&mut self, thread: u32, count: usize) {
        for number in 0..count as u64 {
            let access = Access {
                thread: ThreadId(thread),
                cpu: CpuId(thread as u16),
                time: Cycles(0),
                addr: 0x10_0000 + number % 16 * 8,
                size: 8,
                op: AccessOp::Load,
                code: CodeAddr(0x40_1000),
            };
            let outcome = Outcome::by_source(DataSource::L1, Cycles(4), Cycles(0), Cycles(0));
            self.push(&Record::Access { access, outcome });
        }
    }

    fn turn(&mut self, turn: Turn) {
        self.push(&Record::Turn(turn));
    }

    fn leave(&mut self, thread: u32) {
        self.turn(Turn::Left {
            thread: ThreadId(thread),
        });
    }

    /// Thread 0 runs for so many accesses.
    fn run(&mut self, count: usize) {
        for _ in 0..count / 1000 {
            self.work(0, 1000);
            self.turn(Turn::Priced);
            self.accesses(0, 1000);
        }
    }

    fn finish(mut self, directory: &Path) {
        self.end_block();
        let file = self.writer.finish().expect("memory takes it");
        fs::write(directory.join("x.hitm"), file).expect("a temporary file");
    }
}

/// Exit code, errors and the answer of `hitm whatif`, which gets 300 MiB.
fn whatif(write: impl FnOnce(&mut Writer)) -> (i32, String, String) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut writer = Writer::new(3);
    write(&mut writer);
    writer.finish(directory.path());
    let ended = run(
        directory.path(),
        &[
            "whatif",
            "-i",
            "x.hitm",
            "--machine",
            "milan-2s",
            "--format",
            "json",
        ],
    );
    (ended.code, ended.error, ended.output)
}

/// Accesses of thread 0 while the others sleep: 114 MiB if they wait in memory, and refused at 48 MiB.
const AWAKE: usize = 5_000_000;

/// Threads 1 and 2 sleep with `counts` accesses under way, which come when they wake.
fn check_sleep(counts: [usize; 2]) {
    let sleep = |are_late: bool| {
        whatif(|writer| {
            for (thread, count) in [1, 2].into_iter().zip(counts) {
                for part in 0..count.div_ceil(1000) {
                    writer.work(thread, 1000.min(count - part * 1000));
                }
                writer.leave(thread);
                if !are_late {
                    writer.accesses(thread, count);
                }
            }
            writer.run(AWAKE);
            for (thread, count) in [1, 2].into_iter().zip(counts) {
                if are_late {
                    writer.accesses(thread, count);
                }
                writer.turn(Turn::Returned {
                    thread: ThreadId(thread),
                    waker: None,
                });
            }
        })
    };
    let (code, error, late) = sleep(true);
    assert_eq!(code, 0, "{error}");
    let (code, error, soon) = sleep(false);
    assert_eq!(code, 0, "{error}");
    let accesses = AWAKE + counts[0] + counts[1];
    let after = format!("\"access_count\": {accesses},");
    assert_eq!(late.matches(&after).count(), 2, "{late}");
    assert_eq!(late, soon);
}

#[test]
fn a_sleeping_thread_takes_no_memory() {
    check_sleep([4, 7]);
}

/// No core has so much under way: the file is read ahead several times.
#[test]
fn sleeping_threads_with_many_accesses_take_little_memory() {
    check_sleep([300_000, 250_000]);
}

/// The program was killed while threads slept.
#[test]
fn threads_that_never_wake_take_no_memory() {
    let (code, error, answer) = whatif(|writer| {
        for thread in [1, 2] {
            writer.work(thread, 4);
            writer.leave(thread);
        }
        writer.run(AWAKE);
    });
    assert_eq!(code, 0, "{error}");
    let note = "8 accesses were under way when the recording was cut short";
    assert!(answer.contains(note), "{answer}");
}

/// Refuses a recording that no recorder writes.
#[test]
fn accesses_that_no_work_takes_are_refused() {
    let (code, error, _) = whatif(|writer| {
        writer.accesses(1, 4_000_000);
        writer.run(1000);
    });
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("expected at most 48 MiB of them"), "{error}");
}
