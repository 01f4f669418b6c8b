//! CPUs of the modelled machine that a program sees and runs on.

use std::fmt;
use std::str::FromStr;

use hitm_base::{CpuId, Topology};
use thiserror::Error;

use crate::Placement;

/// CPUs that a program sees unless the user says how many. Programs start a thread for each, and a recording
/// costs as much as its threads do. Assumed 16 (2 to all of the machine's): it changes how many threads such a
/// program starts.
const SEEN_BY_DEFAULT: usize = 16;

/// CPUs that the user gives to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuChoice {
    /// The first so many of the placement.
    First(u16),
    /// These.
    List(Vec<CpuId>),
}

impl FromStr for CpuChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuChoice, String> {
        let error = || format!("found '{text}', expected a number of CPUs or a list like 0,2,8-11");
        if let Ok(count) = text.parse::<u16>() {
            return (count > 0)
                .then_some(CpuChoice::First(count))
                .ok_or(error());
        }
        match text.parse() {
            Ok(Placement::List(cpus)) => Ok(CpuChoice::List(distinct(cpus))),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for CpuChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuChoice::First(count) => write!(f, "{count}"),
            CpuChoice::List(cpus) => Placement::List(cpus.clone()).fmt(f),
        }
    }
}

/// Errors of choosing a program's CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CpuError {
    /// The machine has no such CPU.
    #[error("--{option} names CPU {}, but the machine has CPUs 0 to {last}", cpu.0)]
    NoSuchCpu {
        /// The option that names it.
        option: &'static str,
        /// The CPU.
        cpu: CpuId,
        /// The machine's highest CPU.
        last: usize,
    },
    /// There are fewer.
    #[error("--cpus {asked}: found {present} CPUs to place threads on")]
    TooMany {
        /// CPUs that were asked for.
        asked: u16,
        /// CPUs of the placement.
        present: usize,
    },
    /// Threads would start on a CPU that the program does not have.
    #[error("--threads-to names CPU {}, which is none of --cpus", .0.0)]
    Outside(CpuId),
}

/// CPUs of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramCpus {
    /// In the order in which threads get them, again from the front when there are more threads.
    order: Vec<CpuId>,
    /// Those that the program sees, ascending.
    online: Vec<CpuId>,
    /// Those to which it may move its threads, ascending.
    allowed: Vec<CpuId>,
}

impl ProgramCpus {
    /// Chooses CPUs of a machine.
    ///
    /// Without a choice the program sees the first 16 of the placement. Further threads still get CPUs of their
    /// own: threads that share a CPU do not take turns in the model. For the same reason the program may
    /// move its threads to any CPU then.
    pub fn choose(
        topology: &Topology,
        placement: &Placement,
        choice: Option<&CpuChoice>,
    ) -> Result<ProgramCpus, CpuError> {
        let no_such = |option| {
            let last = topology.cpu_count() - 1;
            move |cpu| CpuError::NoSuchCpu { option, cpu, last }
        };
        let order = placement.order(topology).map_err(no_such("threads-to"))?;
        let placed = distinct(order.clone());
        let Some(choice) = choice else {
            let mut online = placed;
            online.truncate(SEEN_BY_DEFAULT);
            online.sort_unstable();
            return Ok(ProgramCpus {
                order,
                online,
                allowed: topology.cpus().collect(),
            });
        };
        let mut online = match choice {
            CpuChoice::First(count) => {
                let present = placed.len();
                let chosen = placed.get(..usize::from(*count));
                let asked = *count;
                chosen.ok_or(CpuError::TooMany { asked, present })?.to_vec()
            }
            CpuChoice::List(cpus) => {
                let unknown = cpus.iter().find(|cpu| cpu.index() >= topology.cpu_count());
                match unknown {
                    Some(cpu) => return Err(no_such("cpus")(*cpu)),
                    None => cpus.clone(),
                }
            }
        };
        online.sort_unstable();
        if let (Placement::List(_), CpuChoice::List(_)) = (placement, choice)
            && let Some(outside) = order.iter().find(|cpu| !online.contains(cpu))
        {
            return Err(CpuError::Outside(*outside));
        }
        Ok(ProgramCpus {
            order: order
                .into_iter()
                .filter(|cpu| online.contains(cpu))
                .collect(),
            allowed: online.clone(),
            online,
        })
    }

    /// All CPUs of an order, each of them seen.
    pub fn all(order: Vec<CpuId>) -> ProgramCpus {
        let mut online = distinct(order.clone());
        online.sort_unstable();
        ProgramCpus {
            order,
            allowed: online.clone(),
            online,
        }
    }

    /// CPUs that the program sees, ascending.
    pub fn online(&self) -> &[CpuId] {
        &self.online
    }

    /// The CPUs of a mask to which the program may move a thread, ascending.
    pub(crate) fn usable(&self, mask: &[CpuId]) -> Vec<CpuId> {
        let allowed = self.allowed.iter().copied();
        allowed.filter(|cpu| mask.contains(cpu)).collect()
    }

    /// The CPU of the thread with number `seat`, when it may run on the CPUs of `mask` only.
    pub(crate) fn of_seat(&self, seat: u32, mask: Option<&[CpuId]>) -> CpuId {
        let natural = self.order[seat as usize % self.order.len()];
        match mask {
            Some(mask) if !mask.contains(&natural) => {
                let mut cpus = distinct(self.order.clone());
                cpus.retain(|cpu| mask.contains(cpu));
                if cpus.is_empty() {
                    cpus.extend_from_slice(mask);
                }
                cpus[seat as usize % cpus.len()]
            }
            _ => natural,
        }
    }
}

/// Keeps the first of equal CPUs.
fn distinct(cpus: Vec<CpuId>) -> Vec<CpuId> {
    let mut seen = std::collections::BTreeSet::new();
    let mut cpus = cpus;
    cpus.retain(|cpu| seen.insert(*cpu));
    cpus
}

#[cfg(test)]
mod tests {
    use hitm_base::{Numbering, TopologyShape};

    use super::*;

    /// CPUs 0 to 19 in package 0, 20 to 39 in package 1.
    fn topology() -> Topology {
        Topology::from_shape(TopologyShape {
            halves: 1,
            packages: 2,
            dies: 1,
            nodes: 1,
            llcs: 1,
            clusters: 1,
            cores: 20,
            threads: 1,
            numbering: Numbering::CoresFirst,
        })
        .unwrap()
    }

    fn choose(placement: &str, choice: Option<&str>) -> Result<ProgramCpus, CpuError> {
        let choice = choice.map(|text| text.parse().unwrap());
        ProgramCpus::choose(&topology(), &placement.parse().unwrap(), choice.as_ref())
    }

    fn cpus(numbers: impl IntoIterator<Item = u16>) -> Vec<CpuId> {
        numbers.into_iter().map(CpuId).collect()
    }

    #[test]
    fn a_program_sees_sixteen_cpus_and_its_threads_have_the_machine() {
        let chosen = choose("spread", None).unwrap();
        assert_eq!(chosen.online(), cpus((0..8).chain(20..28)));
        assert_eq!(chosen.of_seat(16, None), CpuId(8), "a CPU of its own");
        assert_eq!(chosen.usable(&cpus([39])), cpus([39]));
        assert_eq!(choose("3,1,3", None).unwrap().online(), cpus([1, 3]));
    }

    #[test]
    fn a_number_is_the_first_of_the_placement_and_a_list_is_itself() {
        let four = choose("spread", Some("4")).unwrap();
        assert_eq!(four.online(), cpus([0, 1, 20, 21]));
        assert_eq!(four.of_seat(4, None), CpuId(0), "again from the front");
        assert!(four.usable(&cpus([2])).is_empty());
        let listed = choose("spread", Some("5,21-22")).unwrap();
        assert_eq!(listed.online(), cpus([5, 21, 22]));
        assert_eq!(listed.of_seat(0, None), CpuId(21));
        assert_eq!(
            listed.of_seat(2, None),
            CpuId(5),
            "cores of package 0 come later"
        );
    }

    #[test]
    fn a_mask_moves_a_thread_that_is_outside() {
        let eight = choose("spread", Some("8")).unwrap();
        let mask = cpus([1, 2]);
        assert_eq!(eight.of_seat(2, Some(&mask)), CpuId(1), "it stays");
        assert_eq!(eight.of_seat(0, Some(&mask)), CpuId(1));
        assert_eq!(eight.of_seat(1, Some(&mask)), CpuId(2));
        let all = choose("spread", None).unwrap();
        assert_eq!(all.of_seat(0, Some(&cpus([39]))), CpuId(39));
    }

    #[test]
    fn what_cannot_be_chosen_is_said() {
        let error = |placement, choice| choose(placement, Some(choice)).unwrap_err().to_string();
        assert_eq!(
            error("spread", "41"),
            "--cpus 41: found 40 CPUs to place threads on"
        );
        assert_eq!(
            error("spread", "1,40"),
            "--cpus names CPU 40, but the machine has CPUs 0 to 39"
        );
        assert_eq!(
            error("0,3", "0,2"),
            "--threads-to names CPU 3, which is none of --cpus"
        );
        assert!("0".parse::<CpuChoice>().is_err());
        assert!(
            "spread"
                .parse::<CpuChoice>()
                .unwrap_err()
                .contains("expected a number")
        );
    }
}
