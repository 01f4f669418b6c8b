//! `pi_stress` (rt-tests): groups of three threads that provoke a priority inversion over and over.
//!
//! In each round the low thread locks a mutex with priority inheritance. Then the high thread waits
//! for it while the medium one wants the CPU. The inversion is over when the low thread, boosted,
//! has unlocked. All three run on one CPU, so that none of them is ever pushed or pulled.
//!
//! Source: rt-tests, src/pi_tests/pi_stress.c of 2020 (commit 07445ec). Not modelled: the reporter
//! thread, the watchdog, and the two mutexes around the loop's end. One of these is shared by all
//! groups and taken once a round.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::{CpuId, Nanos};

use super::WorkloadKind;
use super::figures::{Add, Figures, Window, figures};
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::metric::WorkloadResult;
use crate::engine::SimError;
use crate::kernel::{Barrier, Kernel, PiMutex, Policy, TaskSpec, Thread};
use crate::scenario::ScenarioError;
use crate::scenario::products::Product;
use crate::scenario::start::Start;
use hitm_base::Topology;

/// The groups of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PiStressConfig {
    /// Priority of the low threads; medium and high are the next two.
    pub base_prio: u8,
    /// Work of the low thread with the mutex; nothing in the program itself.
    pub hold: Nanos,
}

#[derive(Debug)]
struct Group {
    mutex: Rc<PiMutex>,
    next_round: Rc<Barrier>,
    start: Rc<Barrier>,
    locked: Rc<Barrier>,
    elevate: Rc<Barrier>,
    finish: Rc<Barrier>,
}

/// Groups that run.
#[derive(Debug)]
pub struct PiStress {
    hold: Nanos,
    inversions: Cell<u64>,
}

impl PiStress {
    /// Makes a group for each CPU, which it is bound to.
    pub fn spawn(
        kernel: &Rc<Kernel>,
        groups: &[CpuId],
        config: PiStressConfig,
    ) -> Result<Rc<PiStress>, SimError> {
        let stress = Rc::new(PiStress {
            hold: config.hold,
            inversions: Cell::new(0),
        });
        for (number, cpu) in groups.iter().copied().enumerate() {
            let barrier = |name: &str, count| kernel.barrier(&format!("pi_stress.{name}"), count);
            let group = Rc::new(Group {
                mutex: kernel.pi_mutex("pi_stress.mutex")?,
                next_round: barrier("loop_barr", 3)?,
                start: barrier("start", 3)?,
                locked: barrier("locked", 2)?,
                elevate: barrier("elevate", 2)?,
                finish: barrier("finish", 3)?,
            });
            let mut random = kernel.engine().random(&format!("pi_stress {number}"));
            for role in 0..3u8 {
                let name = format!("pi_stress{number}/{role}");
                let start = kernel.cycles(Nanos(random.below(1_000_000) as f64));
                let spec = TaskSpec {
                    policy: Policy::Fifo(config.base_prio + role),
                    ..TaskSpec::bound(kernel, name, cpu, start)
                };
                let (stress, group) = (Rc::clone(&stress), Rc::clone(&group));
                kernel.spawn(&spec, move |thread| async move {
                    loop {
                        stress.round(&thread, &group, role).await;
                    }
                })?;
            }
        }
        Ok(stress)
    }

    async fn round(&self, thread: &Thread, group: &Group, role: u8) {
        thread.barrier_wait(&group.next_round).await;
        thread.barrier_wait(&group.start).await;
        match role {
            0 => {
                thread.pi_lock(&group.mutex).await;
                thread.barrier_wait(&group.locked).await;
                thread.barrier_wait(&group.elevate).await;
                thread.run(thread.kernel().cycles(self.hold)).await;
                thread.pi_unlock(&group.mutex).await;
            }
            1 => thread.barrier_wait(&group.elevate).await,
            _ => {
                thread.barrier_wait(&group.locked).await;
                thread.pi_lock(&group.mutex).await;
                thread.pi_unlock(&group.mutex).await;
                self.inversions.set(self.inversions.get() + 1);
            }
        }
        thread.barrier_wait(&group.finish).await;
    }

    /// Rounds done so far, over all groups.
    pub fn inversions(&self) -> u64 {
        self.inversions.get()
    }
}

figures! {
    FIGURES {
        INVERSIONS_PER_SECOND: "inversions_per_second", "1/s", "Priority inversions of all groups a second";
    }
}

impl Figures for PiStress {
    fn operations(&self) -> u64 {
        self.inversions()
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        add(INVERSIONS_PER_SECOND, window.per_second);
        WorkloadResult::default()
    }
}

/// The test with its options, as a scenario states them.
#[derive(Debug, Clone, PartialEq)]
pub struct PiStressSpec {
    /// Groups (`-g`); absent for as many as the program has by itself.
    pub groups: Option<usize>,
    /// Its options.
    pub config: PiStressConfig,
}

impl PiStressSpec {
    /// Groups on a machine of so many CPUs: by itself the program leaves one CPU to its reporter.
    fn group_count(&self, cpu_count: usize) -> usize {
        self.groups.unwrap_or((cpu_count - 1).max(1))
    }
}

pub(super) const KIND: Kind = Kind {
    name: "pi-stress",
    default_name: "pi_stress",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: "",
    optional: r#"
groups = 2 | 1
hold = "1us"
base_prio = 1 | 97
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let hold = keys::span(table, "hold", keys::ANY, Nanos(0.0))?;
    let groups = keys::count(table, "groups", 4096)?;
    let base_prio = table.number("base_prio", 1, 97)?.unwrap_or(1) as u8;
    let config = PiStressConfig { base_prio, hold };
    Ok(WorkloadKind::PiStress(PiStressSpec { groups, config }))
}

impl Program for PiStressSpec {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let cpus = start.cpu_count();
        let groups = self.group_count(cpus);
        // As the program does: from the second CPU on, in turn.
        let places = (1..=groups).map(|group| CpuId((group % cpus) as u16));
        let places: Vec<CpuId> = places.collect();
        Ok(PiStress::spawn(start.kernel, &places, self.config)?)
    }

    fn tasks(&self, topology: &Topology) -> Product {
        let groups = self.group_count(topology.cpu_count()) as u64;
        Product::new("groups", &[("", 3), ("groups", groups)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As pi_stress of rt-tests 2.4 counts them. The limit on tasks is of those that are started.
    #[test]
    fn without_a_number_one_cpu_is_left_to_the_reporter() {
        let config = PiStressConfig {
            base_prio: 1,
            hold: Nanos(0.0),
        };
        let groups = None;
        let spec = PiStressSpec { groups, config };
        let counts = [1, 2, 3, 8].map(|cpus| spec.group_count(cpus));
        assert_eq!(counts, [1, 1, 2, 7]);
        let groups = Some(5);
        assert_eq!(PiStressSpec { groups, ..spec }.group_count(2), 5);
    }
}
