//! Readers without a lock see what other CPUs have committed, and no more.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::machine::preset;
use hitm_base::{CpuId, Cycles, Machine, Topology};
use hitm_coherence::directory::Capacity;

use super::LoadBalancing;
use crate::engine::{Engine, EngineConfig, Executor, MemberKey, Place};
use crate::kernel::functions as f;
use crate::kernel::process::Thread;
use crate::kernel::{Balancing, CpuMask, Kernel, KernelConfig, Policy, TaskSpec, functions};
use crate::layout::Layouts;

/// Runnable tasks that the writer says it has.
const MANY: u64 = 7;
/// Lines before that in its store buffer, all of which another CPU has: few enough for the buffer.
const LINES: u64 = 30;
const WRITER: CpuId = CpuId(0);
const BALANCER: CpuId = CpuId(1);
const OWNER: CpuId = CpuId(2);
/// Start of what happens after the lines have their owner.
const START: Cycles = Cycles(100_000);

/// The four CPUs of a cluster.
fn kernel() -> (Rc<Kernel>, Executor) {
    let name = "kunpeng920-96";
    let mut machine = Machine::from_toml(preset(name).unwrap(), name).unwrap();
    let places = (0..4).map(|cpu| machine.topology.place(CpuId(cpu)));
    machine.topology = Topology::from_places(places.collect()).unwrap();
    let engine = Engine::new(&EngineConfig {
        machine,
        capacity: Capacity::Infinite,
        seed: 1,
        scenario_hash: 0,
        end: Cycles(1_000_000),
        events_max: 1_000_000,
        sites: functions::NAMES,
    });
    let config = KernelConfig {
        load_balancing: LoadBalancing::Domains,
        ..KernelConfig::new(Balancing::PushIpi)
    };
    let kernel = Kernel::new(&engine, Layouts::linux_6_12(), config).unwrap();
    (kernel, Executor::new(engine))
}

fn spawn<F: Future<Output = ()> + 'static>(
    kernel: &Rc<Kernel>,
    cpu: CpuId,
    start: Cycles,
    body: impl FnOnce(Thread) -> F + 'static,
) {
    let spec = TaskSpec {
        name: format!("on {}", cpu.0),
        policy: Policy::Normal(0),
        allowed: Some(CpuMask::of(4, [cpu])),
        cpu,
        start,
    };
    kernel.spawn(&spec, body).unwrap();
}

/// The writer's CPU says in its run queue that it has many tasks. The word is behind all of the lines in its
/// store buffer.
async fn say_many(thread: Thread, lines: Vec<Place>) {
    let kernel = thread.kernel();
    let rq = kernel.rq(WRITER);
    for line in lines {
        kernel.engine.store(f::SCHEDULE, line, 2).await;
    }
    kernel
        .engine
        .store(f::SCHEDULE, rq.p.nr_running, MANY)
        .await;
    rq.inner.borrow_mut().nr_running = MANY;
    thread.run(Cycles(50_000)).await;
    rq.inner.borrow_mut().nr_running = 1;
    kernel.engine.store(f::SCHEDULE, rq.p.nr_running, 1).await;
}

/// Tasks of the writer's CPU that the balancer counts.
async fn counted(kernel: &Kernel) -> u64 {
    let domain = &kernel.balancer_of().cpus[BALANCER.index()].domains[0];
    let stats = kernel.domain_stats(kernel.rq(BALANCER), domain).await;
    let mut stats = stats.iter().flatten();
    stats.find(|of| of.cpu == WRITER).unwrap().nr_running
}

#[test]
fn a_balancer_does_not_see_what_is_still_in_a_store_buffer() {
    let (kernel, mut executor) = kernel();
    let place = |line: u64| {
        let key = MemberKey::new("test", "line", 0);
        kernel.engine.place((1 << 44) + line * 64, OWNER, key)
    };
    let lines: Vec<Place> = (0..LINES).map(place).collect();
    let owned = lines.clone();
    spawn(&kernel, OWNER, Cycles::ZERO, |thread| async move {
        for line in owned {
            thread.kernel().engine.fetch_add(f::SCHEDULE, line, 1).await;
        }
    });
    spawn(&kernel, WRITER, START, |thread| say_many(thread, lines));
    let seen = Rc::new(Cell::new([0; 2]));
    let found = Rc::clone(&seen);
    spawn(&kernel, BALANCER, START, |thread| async move {
        let kernel = thread.kernel();
        while kernel.rq(WRITER).inner.borrow().nr_running != MANY {
            thread.run(Cycles(10)).await;
        }
        let early = counted(kernel).await;
        thread.run(Cycles(20_000)).await;
        found.set([early, counted(kernel).await]);
    });
    executor.run().unwrap();
    assert_eq!(seen.get(), [1, MANY]);
}
