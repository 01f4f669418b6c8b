//! The tasks that a program observes.

use aya::maps::{HashMap, Map};

use crate::Error;
use crate::object::{Constant, Object};

/// Entries of the programs' table of processes.
const PROCESSES_MAX: usize = 4096;

/// The tasks that a program observes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Filter {
    /// Every task.
    #[default]
    All,
    /// The threads of these processes.
    Processes(Vec<u32>),
    /// The tasks of a cgroup and its descendants, by the inode number of its folder in the
    /// hierarchy with the cpu controller or in the unified one.
    Cgroup(u64),
}

impl Filter {
    /// Constants that the programs compare with.
    pub(crate) fn constants(&self) -> Vec<Constant> {
        let (kind, cgroup) = match self {
            Filter::All => (0_u32, 0_u64),
            Filter::Processes(_) => (1, 0),
            Filter::Cgroup(id) => (2, *id),
        };
        vec![
            ("filter_kind", kind.to_ne_bytes().to_vec()),
            ("filter_cgroup", cgroup.to_ne_bytes().to_vec()),
        ]
    }

    /// Writes the table of processes, before a program runs.
    pub(crate) fn fill(&self, object: &mut Object) -> Result<(), Error> {
        let Filter::Processes(pids) = self else {
            return Ok(());
        };
        if pids.len() > PROCESSES_MAX {
            return Err(Error::ManyProcesses {
                count: pids.len(),
                limit: PROCESSES_MAX,
            });
        }
        let map: &mut Map = object.map_mut("processes")?;
        let mut map: HashMap<_, u32, u8> = HashMap::try_from(map)?;
        for pid in pids {
            map.insert(pid, 1, 0)?;
        }
        Ok(())
    }
}
