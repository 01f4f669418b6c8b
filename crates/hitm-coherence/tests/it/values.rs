//! Random traffic with real values. Each core's copy of a line holds what it was given, and memory
//! holds what was written back. Nothing but the engine's answers says which of them is read. A load
//! must see the latest store in the order of service.

use std::collections::BTreeMap;

use hitm_base::{CpuId, Machine};
use hitm_coherence::directory::Capacity;
use proptest::prelude::*;

use crate::engine::{Answer, Engine, Real, drive};
use crate::machines::{self, LINES, Step};

/// Bytes of a line that are told apart.
const BYTES: usize = 4;

type Data = [u32; BYTES];

#[derive(Default)]
struct Values {
    /// By line and core.
    copies: BTreeMap<(u64, u16), Data>,
    memory: BTreeMap<u64, Data>,
    /// Data of the latest stores, whichever copy has it.
    latest: BTreeMap<u64, Data>,
    dirty_owner: BTreeMap<u64, CpuId>,
}

impl Values {
    /// One access has its line. `owner_before` had it dirty when it was asked.
    fn access(&mut self, machine: &Machine, answer: &Answer) {
        let core = machine.topology.core_of(answer.cpu);
        let line = answer.line;
        let has_it = answer.is_hit || answer.source <= hitm_base::DataSource::L2;
        let upgrades = matches!(
            answer.source,
            hitm_base::DataSource::LocalUpgrade | hitm_base::DataSource::RemoteUpgrade
        );
        let mut data = if has_it || upgrades {
            self.copies[&(line, core)]
        } else if answer.source.is_hitm() {
            let owner = machine.topology.core_of(self.dirty_owner[&line]);
            self.copies[&(line, owner)]
        } else {
            self.memory.get(&line).copied().unwrap_or_default()
        };
        let latest = self.latest.entry(line).or_default();
        assert_eq!(data, *latest, "{answer:?} sees an old value");
        if answer.exclusive {
            data[answer.step % BYTES] = answer.step as u32 + 1;
            *latest = data;
        }
        self.copies.insert((line, core), data);
    }

    /// Dirty copies that are not dirty any more have been written back.
    fn write_back(&mut self, machine: &Machine, engine: &mut Real) {
        for line in 0..LINES {
            let owner = engine.dirty_owner(line);
            if let (Some(before), None) = (self.dirty_owner.get(&line), owner) {
                let core = machine.topology.core_of(*before);
                self.memory.insert(line, self.copies[&(line, core)]);
            }
            match owner {
                Some(owner) => self.dirty_owner.insert(line, owner),
                None => self.dirty_owner.remove(&line),
            };
        }
    }
}

fn check(machine: &Machine, capacity: Capacity, steps: &[Step]) {
    let mut values = Values::default();
    let mut real = Real::new(machine.clone(), capacity);
    drive(
        &mut real,
        steps,
        machine.topology.cpu_count(),
        &mut |engine, answer| {
            values.access(machine, &answer);
            values.write_back(machine, engine);
        },
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_load_sees_the_latest_store(
        machine in machines::machine(), steps in machines::steps(),
    ) {
        check(&machine, Capacity::Finite, &steps);
        check(&machine, Capacity::Infinite, &steps);
    }
}
