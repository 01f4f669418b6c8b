//! The ring between two threads, and between two processes of which one is killed.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hitm_trace::ring::{
    Block, Consumer, Producer, ProducerState, PushError, RingConfig, RingError, RingSnapshot,
    SlotState,
};
use hitm_trace::{BlockDecoder, Record};
use proptest::prelude::*;

use crate::samples::{numbered, record};

const CONFIG: RingConfig = RingConfig {
    slot_count: 3,
    slot_len: 4096,
};

/// Shared memory, zeroed, that a forked child shares too.
struct SharedMemory {
    base: NonNull<u8>,
    len: usize,
}

impl SharedMemory {
    fn new(len: usize) -> SharedMemory {
        // SAFETY: a new anonymous mapping; the result is checked.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED);
        let base = NonNull::new(base.cast()).unwrap();
        SharedMemory { base, len }
    }

    fn consumer(&self, config: RingConfig) -> Consumer {
        // SAFETY: the tests keep the mapping for as long as the consumer.
        unsafe { Consumer::create(self.base, self.len, config, 1) }.unwrap()
    }

    fn producer(&self) -> Result<Producer, RingError> {
        // SAFETY: as above.
        unsafe { Producer::attach(self.base, self.len, 2) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn records_of(block: Block<'_>) -> Vec<Record> {
    let records: Vec<Record> = BlockDecoder::new(block.bytes).map(Result::unwrap).collect();
    assert_eq!(block.meta.record_count as usize, records.len());
    for time in records.iter().filter_map(Record::time) {
        assert!(block.meta.first_time <= time && time <= block.meta.last_time);
    }
    records
}

fn drain(consumer: &mut Consumer, into: &mut Vec<Record>) {
    while let Some(block) = consumer.try_take() {
        into.extend(records_of(block));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Push(Record),
    Commit,
    Take,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Any mixture of steps, then the producer dies: what was committed is there, in order, once.
    #[test]
    fn what_was_committed_survives(
        steps in prop::collection::vec(
            prop_oneof![
                20 => record().prop_map(Step::Push),
                2 => Just(Step::Commit),
                1 => Just(Step::Take),
            ],
            0..2000,
        ),
        ends_cleanly: bool,
    ) {
        let memory = SharedMemory::new(CONFIG.memory_len());
        let mut consumer = memory.consumer(CONFIG);
        let mut producer = memory.producer().unwrap();
        let (mut pushed, mut committed, mut taken) = (Vec::new(), 0, Vec::new());
        for step in steps {
            match step {
                Step::Push(record) => match producer.push(&record) {
                    Ok(()) => pushed.push(record),
                    Err(error) => prop_assert_eq!(error, PushError::RingFull),
                },
                Step::Commit => {
                    producer.commit();
                    committed = pushed.len();
                }
                Step::Take => drain(&mut consumer, &mut taken),
            }
        }
        if ends_cleanly {
            producer.finish();
            committed = pushed.len();
            prop_assert_eq!(consumer.producer_state(), ProducerState::Finished);
        }
        drain(&mut consumer, &mut taken);
        if let Some(block) = consumer.take_partial() {
            prop_assert!(!ends_cleanly);
            taken.extend(records_of(block));
        }
        prop_assert!(taken.len() >= committed);
        prop_assert_eq!(&taken[..], &pushed[..taken.len()]);
    }
}

#[test]
fn two_threads_hand_over_every_record_in_order() {
    const COUNT: u64 = 300_000;
    let memory = SharedMemory::new(CONFIG.memory_len());
    let mut consumer = memory.consumer(CONFIG);
    let mut producer = memory.producer().unwrap();
    let mut next = 0;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..COUNT {
                let record = numbered(number);
                while let Err(error) = producer.push(&record) {
                    assert_eq!(error, PushError::RingFull);
                    std::thread::yield_now();
                }
                if number % 64 == 0 {
                    producer.commit();
                }
            }
            producer.finish();
        });
        loop {
            let state = consumer.producer_state();
            let mut has_taken = false;
            while let Some(block) = consumer.try_take() {
                for record in records_of(block) {
                    assert_eq!(record, numbered(next));
                    next += 1;
                }
                has_taken = true;
            }
            if state == ProducerState::Finished && !has_taken {
                break;
            }
            std::thread::yield_now();
        }
    });
    assert_eq!(next, COUNT);
    assert_eq!(consumer.take_partial(), None);
}

/// Pushes numbered records until it is killed; `committed` says how many have been committed.
fn produce_for_ever(mut producer: Producer, committed: &AtomicU64, batch: u64) -> ! {
    let mut number = 0;
    loop {
        while producer.push(&numbered(number)).is_err() {
            std::thread::yield_now();
        }
        number += 1;
        if number % batch == 0 {
            producer.commit();
            committed.store(number, Ordering::Release);
        }
    }
}

#[test]
fn a_producer_killed_at_any_moment_loses_nothing_that_it_committed() {
    for round in 0..50u64 {
        let ring_len = CONFIG.memory_len();
        let memory = SharedMemory::new(ring_len + 64);
        let mut consumer = memory.consumer(CONFIG);
        // SAFETY: the last 64 bytes, behind the ring; aligned, zeroed, atomic.
        let committed = unsafe { memory.base.add(ring_len).cast::<AtomicU64>().as_ref() };
        // SAFETY: the child runs only this function, which allocates (the C library's allocator
        // survives a fork) and takes no lock of the test harness.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            produce_for_ever(memory.producer().unwrap(), committed, 1 + round % 13);
        }
        let mut taken = Vec::new();
        // At least one record, then between nothing and two milliseconds more, draining or not.
        while committed.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        for _ in 0..round * 7 % 20 {
            std::thread::sleep(Duration::from_micros(100));
            if round % 3 != 0 {
                drain(&mut consumer, &mut taken);
            }
        }
        // SAFETY: the child of this round, which has not been waited for.
        let waited = unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0)
        };
        assert_eq!(waited, pid);
        drain(&mut consumer, &mut taken);
        if let Some(block) = consumer.take_partial() {
            taken.extend(records_of(block));
        }
        assert!(taken.len() as u64 >= committed.load(Ordering::Acquire));
        for (number, record) in taken.into_iter().enumerate() {
            assert_eq!(record, numbered(number as u64));
        }
    }
}

#[test]
fn a_full_ring_is_the_callers_to_wait_on() {
    let memory = SharedMemory::new(CONFIG.memory_len());
    let mut consumer = memory.consumer(CONFIG);
    let mut producer = memory.producer().unwrap();
    let mut count = 0;
    while producer.push(&numbered(count)) == Ok(()) {
        count += 1;
    }
    assert_eq!(producer.push(&numbered(count)), Err(PushError::RingFull));
    let first = records_of(consumer.try_take().unwrap()).len() as u64;
    assert_eq!(producer.push(&numbered(count)), Ok(()));
    producer.finish();
    let mut rest = Vec::new();
    drain(&mut consumer, &mut rest);
    assert_eq!(rest.first(), Some(&numbered(first)));
    assert_eq!(rest.last(), Some(&numbered(count)));
}

#[test]
fn words_pass_in_both_directions() {
    let memory = SharedMemory::new(CONFIG.memory_len());
    let consumer = memory.consumer(CONFIG);
    assert_eq!(consumer.producer_state(), ProducerState::NotAttached);
    let producer = memory.producer().unwrap();
    assert_eq!(consumer.producer_state(), ProducerState::Running);
    assert_eq!(producer.consumer_pid(), 1);
    assert!(!producer.stop_requested());
    consumer.request_stop();
    assert!(producer.stop_requested());
    assert!(!producer.is_consumer_gone());
    drop(consumer);
    assert!(producer.is_consumer_gone());
}

#[test]
fn memory_that_is_no_ring_is_refused() {
    let memory = SharedMemory::new(CONFIG.memory_len());
    assert_eq!(
        memory.producer().unwrap_err(),
        RingError::BadMagic { found: 0 }
    );
    let _consumer = memory.consumer(CONFIG);
    let _producer = memory.producer().unwrap();
    assert_eq!(memory.producer().unwrap_err(), RingError::Taken { pid: 2 });
    // SAFETY: both calls only look at their arguments before they refuse.
    unsafe {
        let small = Producer::attach(memory.base, 5000, 2).unwrap_err();
        assert_eq!(
            small,
            RingError::TooSmall {
                needed: CONFIG.memory_len(),
                found: 5000
            }
        );
        let odd = Producer::attach(memory.base.add(8), memory.len - 8, 2).unwrap_err();
        assert_eq!(odd, RingError::Misaligned);
    }
    let config = RingConfig {
        slot_count: 1,
        slot_len: 4096,
    };
    // SAFETY: as above.
    let bad = unsafe { Consumer::create(memory.base, memory.len, config, 1) };
    assert_eq!(bad.unwrap_err(), RingError::BadConfig(config));
}

/// A recorded program may write anywhere. The consumer must neither crash nor read astray.
#[test]
fn a_ring_that_was_overwritten_does_no_harm() {
    for pattern in [0x00u8, 0x01, 0x02, 0xff] {
        let memory = SharedMemory::new(CONFIG.memory_len());
        let mut consumer = memory.consumer(CONFIG);
        let mut producer = memory.producer().unwrap();
        for number in 0..500 {
            producer.push(&numbered(number)).unwrap();
        }
        producer.finish();
        // SAFETY: within the mapping; the ring consists of atomics and bytes, and one thread runs.
        unsafe { memory.base.as_ptr().write_bytes(pattern, memory.len) };
        for _ in 0..10 {
            let block_len = consumer.try_take().map_or(0, |block| block.bytes.len());
            assert!(block_len <= CONFIG.slot_len as usize);
        }
        consumer.take_partial();
    }
}

/// A slot's contents are seen before it is taken and after.
#[test]
fn a_snapshot_shows_what_the_ring_holds() {
    let memory = SharedMemory::new(CONFIG.memory_len());
    let mut consumer = memory.consumer(CONFIG);
    let mut producer = memory.producer().unwrap();
    // SAFETY: the mapping has this length, and nobody writes while this copies.
    let copy = || unsafe { std::slice::from_raw_parts(memory.base.as_ptr(), memory.len) }.to_vec();
    let mut pushed = 0;
    while producer.push(&numbered(pushed)) != Err(PushError::RingFull) {
        pushed += 1;
    }
    let taken = consumer.try_take().map(records_of).unwrap();
    let bytes = copy();
    let ring = RingSnapshot::parse(&bytes).unwrap();
    assert_eq!(ring.config(), CONFIG);
    let slots = [0, 1, 2].map(|block| ring.slot(block));
    assert_eq!(
        slots.map(|slot| slot.state),
        [SlotState::Free, SlotState::Full, SlotState::Full]
    );
    let [first, second, third] = slots.map(|slot| {
        let (meta, bytes) = (slot.meta, slot.bytes);
        records_of(Block { meta, bytes })
    });
    assert_eq!(first, taken);
    assert_eq!(first.len() + second.len() + third.len(), pushed as usize);
    // The next block goes into the slot that was taken.
    producer.push(&numbered(pushed)).unwrap();
    producer.commit();
    let bytes = copy();
    let filling = RingSnapshot::parse(&bytes).unwrap().slot(3);
    assert_eq!(filling.state, SlotState::Filling);
    assert_eq!(filling.meta.record_count, 1);
    let headers = RingSnapshot::parse(&bytes[..CONFIG.headers_len()]).unwrap();
    assert_eq!(headers.slot(3).meta, filling.meta);
    assert!(headers.slot(3).bytes.is_empty());
    let cut = RingSnapshot::parse(&bytes[..CONFIG.headers_len() - 1]);
    assert!(matches!(cut, Err(RingError::TooSmall { .. })));
    let zeros = RingSnapshot::parse(&[0; 4096]).map(drop);
    assert_eq!(zeros, Err(RingError::BadMagic { found: 0 }));
}
