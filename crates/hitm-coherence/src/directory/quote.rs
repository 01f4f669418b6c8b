//! Quotes: the price of a request in the line's present state, and the source of the data.

use hitm_base::machine::Protocol;
use hitm_base::{CpuId, DataSource, Distance};

use super::{Directory, LineId, State};
use crate::price::{Fetch, Quote, peer, upgrade};

impl Directory {
    /// Returns the price of a request in the line's present state, and the source of the data. The
    /// core's own caches cannot answer it.
    #[inline]
    pub(super) fn quote(&self, cpu: CpuId, line: LineId, exclusive: bool) -> Quote {
        let entry = &self.lines[line.index()];
        if entry.is_alone() {
            let is_dirty = entry.state == State::Modified;
            return self.prices.owned(Fetch {
                cpu,
                owner: entry.owner,
                home: entry.home(),
                is_dirty,
                exclusive,
            });
        }
        self.quote_shared(cpu, line, exclusive)
    }

    /// The same for a line that no core has alone.
    fn quote_shared(&self, cpu: CpuId, line: LineId, exclusive: bool) -> Quote {
        // A copy that the core has already is not writable, or nobody would ask.
        let has_copy = self.has_copy(line, self.core(cpu));
        let data = (!has_copy).then(|| self.quote_data(cpu, line));
        let others = if exclusive {
            self.farthest_other(cpu, line, has_copy)
        } else {
            None
        };
        match (data, others) {
            (Some(data), None) => data,
            (None, None) => Quote {
                price: self.prices.llc_hit(self.lines[line.index()].service),
                source: DataSource::LocalUpgrade,
            },
            (None, Some(distance)) => Quote {
                price: self.prices.invalidate(distance),
                source: upgrade(distance),
            },
            (Some(data), Some(distance)) => {
                data.with_invalidation(self.prices.invalidate(distance), distance)
            }
        }
    }

    /// Price and source of the data for a core without a copy.
    fn quote_data(&self, cpu: CpuId, line: LineId) -> Quote {
        let entry = &self.lines[line.index()];
        if entry.state == State::Owned {
            self.prices.owned(Fetch {
                cpu,
                owner: entry.owner,
                home: entry.home(),
                is_dirty: true,
                exclusive: false,
            })
        } else {
            self.quote_clean(cpu, line)
        }
    }

    /// The nearest last-level cache with a clean copy, else memory.
    fn quote_clean(&self, cpu: CpuId, line: LineId) -> Quote {
        let own = self.prices.parts(cpu).llc;
        let nearest = self.prices.distances(own, self.llcs(line)).nearest();
        match nearest {
            Some(Distance::Llc) => Quote {
                price: self.prices.llc_hit(self.lines[line.index()].service),
                source: DataSource::Llc,
            },
            // Without a forwarding copy, memory answers for another package's clean lines.
            Some(distance) if distance.is_remote() && !self.forwards_clean() => {
                self.quote_dram(cpu, line)
            }
            Some(distance) => Quote {
                price: self
                    .prices
                    .shared_read(distance, self.lines[line.index()].service),
                source: peer(distance),
            },
            None => self.quote_dram(cpu, line),
        }
    }

    fn quote_dram(&self, cpu: CpuId, line: LineId) -> Quote {
        let entry = &self.lines[line.index()];
        let (price, local) = self.prices.dram(cpu, entry.home(), entry.service);
        let source = if local {
            DataSource::LocalDram
        } else {
            DataSource::RemoteDram
        };
        Quote { price, source }
    }

    fn forwards_clean(&self) -> bool {
        self.prices.machine().protocol != Protocol::Mesi
    }

    /// Distance of the farthest other core with a copy, if there is one. `has_copy` is true if the
    /// CPU's own core has one.
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
