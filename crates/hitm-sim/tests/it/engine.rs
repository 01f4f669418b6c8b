//! The engine: order, values, spinning, interrupts.

use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Distance};
use hitm_sim::engine::{Engine, Mode, SimError, Vector};

use crate::toy::{Log, TEST, Toy, icelake};

const IPI: Vector = Vector(1);
const TIMER: Vector = Vector(0);

#[test]
fn each_increment_is_seen_by_the_next() {
    let mut toy = Toy::new(icelake());
    let counter = toy.word(0);
    for cpu in 0..16 {
        toy.task(cpu * 4, |engine| async move {
            for _ in 0..100 {
                engine.fetch_add(TEST, counter, 1).await;
            }
        });
    }
    toy.run().unwrap();
    assert_eq!(toy.engine.value(counter), 1600);
}

#[test]
fn own_stores_are_seen_before_they_are_committed() {
    let mut toy = Toy::new(icelake());
    let (mine, other) = (toy.word(0), toy.word(64));
    let log = Log::default();
    let seen = log.clone();
    toy.task(0, |engine| async move {
        engine.store(TEST, mine, 7).await;
        let value = engine.load(TEST, mine).await;
        seen.add(&engine, format!("own {value}"));
        let value = engine.load(TEST, other).await;
        seen.add(&engine, format!("other {value}"));
    });
    let seen = log.clone();
    toy.task(32, |engine| async move {
        engine.store(TEST, other, 9).await;
        let value = engine.load(TEST, mine).await;
        // Both loads are done before either store is there: what total store order allows.
        seen.add(&engine, format!("mine {value}"));
    });
    toy.run().unwrap();
    let mut words = log.words();
    words.sort();
    assert_eq!(words[2], "own 7");
}

#[test]
fn a_spinner_costs_no_events_and_sees_the_write() {
    let mut toy = Toy::new(icelake());
    let flag = toy.word(0);
    let log = Log::default();
    let seen = log.clone();
    toy.task(0, |engine| async move {
        while engine.load(TEST, flag).await == 0 {
            engine.wait_for_write(flag, 0).await;
        }
        seen.add(&engine, "seen");
    });
    toy.task(32, |engine| async move {
        engine.work(TEST, Cycles(500_000));
        engine.store(TEST, flag, 1).await;
    });
    let totals = toy.run().unwrap();
    let at = log.take()[0].0;
    let remote = icelake().transfers[Distance::Remote.index()].dirty.0;
    assert!(
        (500_000 + remote..500_000 + 3 * remote).contains(&at),
        "{at} after two hand-overs of up to {remote}"
    );
    assert!(totals.events < 20, "{} events", totals.events);
}

#[test]
fn a_write_next_to_the_flag_wakes_a_spinner_for_nothing() {
    let mut toy = Toy::new(icelake());
    let (flag, neighbour) = (toy.word(0), toy.word(8));
    toy.task(0, |engine| async move {
        while engine.load(TEST, flag).await == 0 {
            engine.wait_for_write(flag, 0).await;
        }
    });
    toy.task(32, |engine| async move {
        for _ in 0..10 {
            engine.work(TEST, Cycles(10_000));
            engine.fetch_add(TEST, neighbour, 1).await;
        }
        engine.store(TEST, flag, 1).await;
    });
    let totals = toy.run().unwrap();
    let loads = totals.profile.total(|entry| entry.member.offset_bytes == 0);
    // One at the start, one after each of the writes to the neighbour. The store follows the last
    // of them before the spinner has looked; then the spinner sees it.
    assert_eq!(loads.count, 12);
}

#[test]
fn a_thread_of_the_same_core_wakes_a_spinner_too() {
    let mut toy = Toy::new(icelake());
    let flag = toy.word(0);
    let log = Log::default();
    let seen = log.clone();
    toy.task(0, |engine| async move {
        while engine.load(TEST, flag).await == 0 {
            engine.wait_for_write(flag, 0).await;
        }
        seen.add(&engine, "seen");
    });
    let sibling = icelake().topology.cpus().find(|cpu| {
        *cpu != CpuId(0) && icelake().topology.distance(*cpu, CpuId(0)) == Distance::Smt
    });
    let Some(sibling) = sibling else {
        panic!("the machine has two threads a core");
    };
    toy.task(sibling.0, |engine| async move {
        engine.work(TEST, Cycles(1000));
        engine.load(TEST, flag).await;
        engine.store(TEST, flag, 1).await;
    });
    toy.run().unwrap();
    assert_eq!(log.words(), ["seen"]);
}

/// Handles interrupts for ever: notes each and works for 100 cycles.
async fn handle(engine: Rc<Engine>, log: Log) {
    loop {
        let vector = engine.next_interrupt().await;
        log.add(&engine, format!("vector {}", vector.0));
        engine.work(TEST, Cycles(100));
    }
}

#[test]
fn an_interrupt_stops_work_and_the_rest_follows() {
    let mut toy = Toy::new(icelake());
    let log = Log::default();
    let (task_log, irq_log) = (log.clone(), log.clone());
    toy.task_with_handler(
        0,
        |engine| async move {
            let mut left = Cycles(10_000);
            while left > Cycles::ZERO {
                left = engine.run(left).await;
                task_log.add(&engine, format!("left {left}"));
            }
        },
        |engine| handle(engine, irq_log),
    );
    toy.task(1, |engine| async move {
        engine.work(TEST, Cycles(2000));
        engine.send_ipi(CpuId(0), IPI, Cycles(1000));
        engine.work(TEST, Cycles(1));
    });
    toy.run().unwrap();
    assert_eq!(
        log.take(),
        [
            (3000, "vector 1".to_owned()),
            (3100, "left 7000".to_owned()),
            (10_100, "left 0".to_owned()),
        ]
    );
}

/// Time at which 10,000 cycles of work and a miss are done, if an interrupt comes at `at`.
fn work_ends(at: Cycles) -> u64 {
    let mut toy = Toy::new(icelake());
    let log = Log::default();
    let (task_log, irq_log) = (log.clone(), log.clone());
    let word = toy.word(0);
    toy.task_with_handler(
        0,
        |engine| async move {
            engine.work(TEST, Cycles(10_000));
            engine.load(TEST, word).await;
            task_log.add(&engine, "done");
        },
        |engine| handle(engine, irq_log),
    );
    toy.task(1, move |engine| async move {
        engine.send_ipi(CpuId(0), IPI, at);
    });
    toy.run().unwrap();
    let log = log.take();
    let (end, _) = log.iter().find(|(_, what)| what == "done").unwrap();
    *end
}

#[test]
fn work_in_one_piece_ends_as_much_later_as_its_interrupt_took() {
    let undisturbed = work_ends(Cycles(1_000_000));
    assert_eq!(work_ends(Cycles(3000)), undisturbed + 100);
    assert_eq!(work_ends(Cycles(9990)), undisturbed + 100);
}

#[test]
fn interrupts_wait_while_they_are_off_and_the_lowest_vector_goes_first() {
    let mut toy = Toy::new(icelake());
    let log = Log::default();
    let (task_log, irq_log) = (log.clone(), log.clone());
    toy.task_with_handler(
        0,
        |engine| async move {
            engine.set_timer(TIMER, Cycles(3000));
            engine.set_irqs(false);
            engine.run(Cycles(5000)).await;
            engine.set_irqs(true);
            engine.run(Cycles(100)).await;
            task_log.add(&engine, "returned early");
        },
        |engine| handle(engine, irq_log),
    );
    toy.task(1, |engine| async move {
        engine.send_ipi(CpuId(0), IPI, Cycles(1000));
    });
    let totals = toy.run().unwrap();
    assert_eq!(
        log.take(),
        [
            (5000, "vector 0".to_owned()),
            (5100, "vector 1".to_owned()),
            (5200, "returned early".to_owned()),
        ]
    );
    assert_eq!(totals.cpus[0].irqs_off_max, Cycles(5000));
}

#[test]
fn a_cpu_that_spins_takes_interrupts() {
    let mut toy = Toy::new(icelake());
    let flag = toy.word(0);
    let log = Log::default();
    let (task_log, irq_log) = (log.clone(), log.clone());
    toy.task_with_handler(
        0,
        |engine| async move {
            engine.load(TEST, flag).await;
            engine.wait_for_write(flag, 0).await;
            task_log.add(&engine, "looks again");
        },
        |engine| handle(engine, irq_log),
    );
    toy.task(1, |engine| async move {
        engine.send_ipi(CpuId(0), IPI, Cycles(1000));
    });
    toy.run().unwrap();
    assert_eq!(
        log.take(),
        [
            (1000, "vector 1".to_owned()),
            (1100, "looks again".to_owned())
        ]
    );
}

#[test]
fn a_switch_leaves_the_cpu_to_another_stack_and_comes_back() {
    let mut toy = Toy::new(icelake());
    let log = Log::default();
    let stacks: Rc<std::cell::RefCell<Vec<hitm_sim::engine::StackId>>> = Rc::default();
    let make = |name: &'static str, own: usize| {
        let (engine, log, stacks) = (Rc::clone(&toy.engine), log.clone(), Rc::clone(&stacks));
        toy.engine.spawn(async move {
            for round in 0..2 {
                log.add(&engine, format!("{name} {round}"));
                engine.work(TEST, Cycles(10));
                let next = stacks.borrow()[1 - own];
                engine.switch_to(next).await;
            }
        })
    };
    let (first, second) = (make("first", 0), make("second", 1));
    stacks.borrow_mut().extend([first, second]);
    toy.engine.boot(CpuId(0), first, None);
    toy.run().unwrap();
    assert_eq!(log.words(), ["first 0", "second 0", "first 1", "second 1"]);
}

#[test]
fn time_is_accounted_by_mode() {
    let mut toy = Toy::with(icelake(), Cycles(1000), 1000);
    toy.task(0, |engine| async move {
        engine.set_mode(Mode::Kernel);
        engine.work(TEST, Cycles(100));
        engine.set_mode(Mode::User);
        engine.run(Cycles(300)).await;
        engine.set_mode(Mode::Idle);
    });
    let totals = toy.run().unwrap();
    let cpu = totals.cpus[0];
    assert_eq!(
        (cpu.kernel, cpu.user, cpu.idle),
        (Cycles(100), Cycles(300), Cycles(600))
    );
}

#[test]
fn a_run_in_circles_ends_with_an_error() {
    let mut toy = Toy::with(icelake(), Cycles::MAX, 1000);
    let counter = toy.word(0);
    for cpu in [0, 1] {
        toy.task(cpu, |engine| async move {
            loop {
                engine.fetch_add(TEST, counter, 1).await;
            }
        });
    }
    let error = toy.run().unwrap_err();
    assert!(
        matches!(error, SimError::TooManyEvents { max: 1000, .. }),
        "{error}"
    );
}

#[test]
fn equal_runs_have_equal_hashes_and_others_do_not() {
    let hash = |increments: u64| {
        let mut toy = Toy::new(icelake());
        let counter = toy.word(0);
        for cpu in 0..8 {
            toy.task(cpu * 8, |engine| async move {
                let mut random = engine.random(&format!("cpu {cpu}"));
                for _ in 0..increments {
                    engine.work(TEST, Cycles(random.below(1000)));
                    engine.fetch_add(TEST, counter, 1).await;
                }
            });
        }
        toy.run().unwrap().event_hash
    };
    assert_eq!(hash(100), hash(100));
    assert_ne!(hash(100), hash(101));
}
