//! `taskgroup`: the cgroup of a task, by its path. rt-app makes those that are not there, without a
//! quota; here too.

use std::collections::BTreeMap;

use crate::engine::SimError;
use crate::kernel::{GroupId, GroupSpec, Kernel};

/// The most groups of one file: each has a queue on each CPU.
const GROUPS_MAX: usize = 256;

/// Groups by their path, such as `/pod/app`.
#[derive(Debug, Clone, Default)]
pub struct GroupPaths(BTreeMap<String, GroupId>);

impl GroupPaths {
    /// Groups that are there already.
    pub fn new(groups: impl IntoIterator<Item = (String, GroupId)>) -> GroupPaths {
        GroupPaths(groups.into_iter().collect())
    }

    /// The group at a path; those of it that are not there are made.
    pub(super) fn at(&mut self, kernel: &Kernel, path: &str) -> Result<GroupId, SimError> {
        let (mut group, mut whole) = (GroupId::ROOT, String::new());
        for name in path.split('/').filter(|name| !name.is_empty()) {
            whole = format!("{whole}/{name}");
            group = match self.0.get(&whole) {
                Some(known) => *known,
                None if self.0.len() >= GROUPS_MAX => {
                    let text = format!("more than {GROUPS_MAX} task groups, with {path:?}");
                    return Err(SimError::Workload(text));
                }
                None => kernel.create_group(&GroupSpec::within(group))?,
            };
            self.0.insert(whole.clone(), group);
        }
        Ok(group)
    }
}
