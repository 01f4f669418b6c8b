//! On which CPUs of the modelled machine the threads of a program run.

use std::fmt;
use std::str::FromStr;

use hitm_base::{CpuId, Topology};
use thiserror::Error;

/// Layout of threads over the machine, in order of their creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// As far apart as the machine allows: one package after the other, then one last-level cache
    /// after the other, second hardware threads last.
    Spread,
    /// As close together as the machine allows, second hardware threads last.
    Compact,
    /// The CPUs named, in this order, again from the front when there are more threads.
    List(Vec<CpuId>),
}

/// Reason for which a text is no placement.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("found '{found}', expected 'spread', 'compact' or CPU numbers like '0,2,8-11'")]
pub struct PlacementError {
    found: String,
}

impl FromStr for Placement {
    type Err = PlacementError;

    fn from_str(text: &str) -> Result<Placement, PlacementError> {
        match text {
            "spread" => Ok(Placement::Spread),
            "compact" => Ok(Placement::Compact),
            _ => {
                let error = || PlacementError {
                    found: text.to_string(),
                };
                let mut cpus = Vec::new();
                for part in text.split(',') {
                    let (first, last) = part.split_once('-').unwrap_or((part, part));
                    let first: u16 = first.trim().parse().map_err(|_| error())?;
                    let last: u16 = last.trim().parse().map_err(|_| error())?;
                    if first > last {
                        return Err(error());
                    }
                    cpus.extend((first..=last).map(CpuId));
                }
                Ok(Placement::List(cpus))
            }
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Spread => f.write_str("spread"),
            Placement::Compact => f.write_str("compact"),
            Placement::List(cpus) => {
                let numbers: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
                f.write_str(&numbers.join(","))
            }
        }
    }
}

impl Placement {
    /// The CPUs in the order in which threads get them. A list may name CPUs that the machine does
    /// not have: the first of those comes back as the error.
    pub fn order(&self, topology: &Topology) -> Result<Vec<CpuId>, CpuId> {
        let mut cpus: Vec<CpuId> = topology.cpus().collect();
        match self {
            Placement::Spread => cpus.sort_by_key(|cpu| {
                let place = topology.place(*cpu);
                // Inner positions first: all packages are visited before a second core of any.
                let inner = (
                    place.thread,
                    place.core,
                    place.cluster,
                    place.llc,
                    place.node,
                );
                (inner, place.die, place.package, place.half)
            }),
            Placement::Compact => cpus.sort_by_key(|cpu| {
                let place = topology.place(*cpu);
                (topology.package_of(*cpu), place.thread, place)
            }),
            Placement::List(list) => {
                if let Some(cpu) = list.iter().find(|cpu| cpu.index() >= topology.cpu_count()) {
                    return Err(*cpu);
                }
                cpus.clone_from(list);
            }
        }
        Ok(cpus)
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::{Numbering, TopologyShape};

    use super::*;

    fn first_four(placement: &str) -> Vec<u16> {
        let topology = Topology::from_shape(TopologyShape {
            halves: 1,
            packages: 2,
            dies: 1,
            nodes: 1,
            llcs: 1,
            clusters: 1,
            cores: 2,
            threads: 2,
            numbering: Numbering::CoresFirst,
        })
        .unwrap();
        let order = placement
            .parse::<Placement>()
            .unwrap()
            .order(&topology)
            .unwrap();
        order.into_iter().take(5).map(|cpu| cpu.0).collect()
    }

    #[test]
    fn orders() {
        // CPUs 0, 1 in package 0, 2, 3 in package 1, their second threads 4, 5, 6, 7.
        assert_eq!(first_four("spread"), [0, 2, 1, 3, 4]);
        assert_eq!(first_four("compact"), [0, 1, 4, 5, 2]);
        assert_eq!(first_four("3,0-2"), [3, 0, 1, 2]);
    }

    #[test]
    fn what_is_no_placement_says_what_is() {
        let error = "0,x".parse::<Placement>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "found '0,x', expected 'spread', 'compact' or CPU numbers like '0,2,8-11'"
        );
        assert!("5-2".parse::<Placement>().is_err());
        assert_eq!("4-6".parse::<Placement>().unwrap().to_string(), "4,5,6");
    }
}
