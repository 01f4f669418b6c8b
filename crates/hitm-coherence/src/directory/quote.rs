//! What a request costs in the line's present state, and where the data is.

use hitm_base::machine::Protocol;
use hitm_base::{CpuId, DataSource, Distance};

use super::{Directory, LineId, State};
use crate::price::Price;

impl Directory {
    /// What the request costs in the line's present state, and where the data is.
    pub(super) fn quote(&self, cpu: CpuId, line: LineId, exclusive: bool) -> (Price, DataSource) {
        let core = self.core(cpu);
        // A copy that the core has already is not writable, or nobody would ask.
        let has_copy = self.is_sharer(line, core);
        let data = (!has_copy).then(|| self.quote_data(cpu, line));
        let others = if exclusive {
            self.farthest_other(cpu, line, has_copy)
        } else {
            None
        };
        match (data, others) {
            (Some(data), None) => data,
            (None, None) => (self.prices.llc_hit(), DataSource::LocalUpgrade),
            (None, Some(distance)) => (self.prices.invalidate(distance), upgrade(distance)),
            (Some((price, source)), Some(distance)) => {
                let invalidation = self.prices.invalidate(distance);
                let slower = invalidation.latency > price.latency;
                let price = if slower { invalidation } else { price };
                // Taking a shared line away from others is contention, wherever the data was.
                let source = if source.is_hitm() {
                    source
                } else {
                    peer(distance)
                };
                (price, source)
            }
        }
    }

    /// Where a core without a copy gets the data from.
    #[inline]
    fn quote_data(&self, cpu: CpuId, line: LineId) -> (Price, DataSource) {
        let entry = &self.lines[line.index()];
        let topology = &self.prices.machine().topology;
        let distance = topology.distance(cpu, entry.owner);
        match entry.state {
            State::Modified | State::Owned => (
                self.prices.dirty(cpu, entry.owner, entry.home),
                hitm(distance),
            ),
            State::Exclusive => (
                self.prices.clean(cpu, entry.owner, entry.home),
                peer(distance),
            ),
            State::Shared | State::Invalid => self.quote_clean(cpu, line),
        }
    }

    /// The nearest last-level cache with a clean copy, else memory.
    fn quote_clean(&self, cpu: CpuId, line: LineId) -> (Price, DataSource) {
        let own = self.prices.parts(cpu).llc;
        let nearest = self.prices.distances(own, self.llcs(line)).nearest();
        match nearest {
            Some(Distance::Llc) => (self.prices.llc_hit(), DataSource::Llc),
            // Without a forwarding copy, memory answers for another package's clean lines.
            Some(distance) if distance.is_remote() && !self.forwards_clean() => {
                self.quote_dram(cpu, line)
            }
            Some(distance) => (self.prices.shared_read(distance), peer(distance)),
            None => self.quote_dram(cpu, line),
        }
    }

    fn quote_dram(&self, cpu: CpuId, line: LineId) -> (Price, DataSource) {
        let entry = &self.lines[line.index()];
        let (price, local) = self.prices.dram(cpu, entry.home);
        (
            price,
            if local {
                DataSource::LocalDram
            } else {
                DataSource::RemoteDram
            },
        )
    }

    fn forwards_clean(&self) -> bool {
        self.prices.machine().protocol != Protocol::Mesi
    }

    /// How far the farthest core with a copy is for a core that has one itself or not, if there is
    /// another one.
    #[inline]
    fn farthest_other(&self, cpu: CpuId, line: LineId, has_copy: bool) -> Option<Distance> {
        if self.lines[line.index()].sharer_count == u16::from(has_copy) {
            return None;
        }
        let own = self.prices.parts(cpu).llc;
        self.prices.distances(own, self.llcs(line)).farthest()
    }

    /// Last-level caches that have a copy of their own or above one that had, as bits.
    #[inline]
    pub(super) fn llcs(&self, line: LineId) -> u64 {
        let entry = &self.lines[line.index()];
        if entry.is_alone() {
            1 << self.prices.parts(entry.owner).llc
        } else {
            self.copies[line.index() * self.words]
        }
    }
}

fn hitm(distance: Distance) -> DataSource {
    if distance.is_remote() {
        DataSource::RemoteHitm
    } else {
        DataSource::LocalHitm
    }
}

fn peer(distance: Distance) -> DataSource {
    if distance.is_remote() {
        DataSource::RemotePeer
    } else {
        DataSource::LocalPeer
    }
}

fn upgrade(distance: Distance) -> DataSource {
    if distance.is_remote() {
        DataSource::RemoteUpgrade
    } else {
        DataSource::LocalUpgrade
    }
}
