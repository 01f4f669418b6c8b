//! Sleeping locks under more tasks than CPUs.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};
use hitm_sim::kernel::{Balancing, Held, Hold, KernelConfig, Policy, TaskSpec};
use proptest::prelude::*;

use crate::rt::{boot, machine};

/// Threads that are inside at one time.
#[derive(Debug, Default)]
struct Inside {
    readers: Cell<u32>,
    writers: Cell<u32>,
    done: Cell<u32>,
}

impl Inside {
    fn enter(&self, hold: Hold) {
        let count = if hold == Hold::Read {
            &self.readers
        } else {
            &self.writers
        };
        count.set(count.get() + 1);
        let is_alone = self.readers.get() == 0 && self.writers.get() == 1;
        assert!(is_alone || self.writers.get() == 0, "{self:?}");
    }

    fn leave(&self, hold: Hold) {
        let count = if hold == Hold::Read {
            &self.readers
        } else {
            &self.writers
        };
        count.set(count.get() - 1);
        self.done.set(self.done.get() + 1);
    }
}

fn task(number: usize, cpus: usize) -> TaskSpec {
    TaskSpec {
        name: format!("task/{number}"),
        policy: Policy::Normal(0),
        allowed: None,
        cpu: CpuId((number % cpus) as u16),
        start: Cycles(number as u64 * 50),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Writers are alone, and every task gets its turns: nobody is forgotten in a queue.
    #[test]
    fn writers_are_alone_and_everybody_gets_a_turn(
        seed in 0u64..1000,
        cpus in 1usize..6,
        tasks in prop::collection::vec((any::<bool>(), 0u64..4, 0u64..3), 1..14),
    ) {
        let config = KernelConfig::new(Balancing::PushIpi);
        let (kernel, mut executor) = boot(machine("kunpeng920-96", cpus), seed, Nanos(400e6), config);
        let sem = kernel.rw_sem("test").unwrap();
        let inside = Rc::new(Inside::default());
        for (number, (is_writer, work, sleep)) in tasks.iter().copied().enumerate() {
            let hold = if is_writer { Hold::Write } else { Hold::Read };
            let (sem, inside) = (Rc::clone(&sem), Rc::clone(&inside));
            let held = Held {
                hold,
                work: kernel.cycles(Nanos(work as f64 * 2e3)),
                sleep: kernel.cycles(Nanos(sleep as f64 * 20e3)),
            };
            let program = move |thread: hitm_sim::kernel::Thread| async move {
                for _ in 0..20 {
                    let (enter, leave) = (|| inside.enter(hold), || inside.leave(hold));
                    thread.with_sem(&sem, held, enter, leave).await;
                    thread.run(held.work).await;
                }
            };
            kernel.spawn(&task(number, cpus), program).unwrap();
        }
        executor.run().unwrap();
        prop_assert_eq!(inside.done.get(), tasks.len() as u32 * 20);
    }

    /// The same of a mutex.
    #[test]
    fn owners_of_a_mutex_are_alone_and_everybody_gets_a_turn(
        seed in 0u64..1000,
        cpus in 1usize..6,
        tasks in prop::collection::vec((0u64..20, 0u64..20), 1..14),
    ) {
        let config = KernelConfig::new(Balancing::PushIpi);
        let (kernel, mut executor) = boot(machine("kunpeng920-96", cpus), seed, Nanos(400e6), config);
        let mutex = kernel.mutex("test").unwrap();
        let inside = Rc::new(Inside::default());
        for (number, (held, between)) in tasks.iter().copied().enumerate() {
            let (mutex, inside) = (Rc::clone(&mutex), Rc::clone(&inside));
            let [held, between] = [held, between].map(|span| kernel.cycles(Nanos(span as f64 * 1e3)));
            let program = move |thread: hitm_sim::kernel::Thread| async move {
                for _ in 0..50 {
                    let (enter, leave) = (|| inside.enter(Hold::Write), || inside.leave(Hold::Write));
                    thread.with_mutex(&mutex, held, enter, leave).await;
                    thread.run(between).await;
                }
            };
            kernel.spawn(&task(number, cpus), program).unwrap();
        }
        executor.run().unwrap();
        prop_assert_eq!(inside.done.get(), tasks.len() as u32 * 50);
        let totals = mutex.stat().totals();
        prop_assert_eq!(totals.writes, tasks.len() as u64 * 50);
    }
}
