//! `pi_stress` (rt-tests): groups of three threads that provoke a priority inversion over and over.
//!
//! In each round the low thread locks a mutex with priority inheritance; then the high thread waits
//! for it while the medium one wants the CPU. The inversion is over when the low thread, boosted, has
//! unlocked.
//!
//! Source: rt-tests, src/pi_tests/pi_stress.c. Not modelled: the reporter thread, the watchdog and the
//! admin thread's own priority.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::{CpuId, Nanos};

use crate::engine::SimError;
use crate::kernel::{Barrier, CpuMask, Kernel, PiMutex, Policy, TaskSpec, Thread};

/// The groups of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PiStressConfig {
    /// Where each group may run; `None` for everywhere.
    pub groups: Vec<Option<CpuMask>>,
    /// Priority of the low threads; medium and high are the next two.
    pub base_prio: u8,
    /// What the low thread does with the mutex. Assumed 1 us where a scenario does not say (0.2 to
    /// 10 us): the test itself does next to nothing.
    pub hold: Nanos,
}

#[derive(Debug)]
struct Group {
    mutex: Rc<PiMutex>,
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
    /// Makes the threads.
    pub fn spawn(kernel: &Rc<Kernel>, config: &PiStressConfig) -> Result<Rc<PiStress>, SimError> {
        let stress = Rc::new(PiStress {
            hold: config.hold,
            inversions: Cell::new(0),
        });
        for (number, allowed) in config.groups.iter().enumerate() {
            let barrier = |name: &str, count| kernel.barrier(&format!("pi_stress.{name}"), count);
            let group = Rc::new(Group {
                mutex: kernel.pi_mutex("pi_stress.mutex")?,
                start: barrier("start", 3)?,
                locked: barrier("locked", 3)?,
                elevate: barrier("elevate", 2)?,
                finish: barrier("finish", 3)?,
            });
            let mut random = kernel.engine().random(&format!("pi_stress {number}"));
            for role in 0..3u8 {
                let cpu = match allowed {
                    Some(allowed) => super::cyclic::any_of(allowed, usize::from(role))?,
                    None => CpuId(random.below(kernel.cpu_count() as u64) as u16),
                };
                let spec = TaskSpec {
                    name: format!("pi_stress{number}/{role}"),
                    policy: Policy::Fifo(config.base_prio + role),
                    allowed: allowed.clone(),
                    cpu,
                    start: kernel.cycles(Nanos(random.below(1_000_000) as f64)),
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
        thread.barrier_wait(&group.start).await;
        if role == 0 {
            thread.pi_lock(&group.mutex).await;
        }
        thread.barrier_wait(&group.locked).await;
        match role {
            0 => {
                thread.barrier_wait(&group.elevate).await;
                thread.run(thread.kernel().cycles(self.hold)).await;
                thread.pi_unlock(&group.mutex).await;
            }
            1 => thread.barrier_wait(&group.elevate).await,
            _ => {
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
