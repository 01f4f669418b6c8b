//! The sums over all samples and over the shared lines.

use hitm_perf::c2c::{Counts, Tables};

/// One line of a table of sums.
pub(super) struct Total {
    /// The key in JSON.
    pub(super) id: &'static str,
    /// perf's words.
    pub(super) title: &'static str,
    pub(super) value: Value,
}

/// Source of a sum over some samples.
pub(super) enum Value {
    Count(fn(&Counts) -> u64),
    /// As a part of the loads that missed the last-level cache.
    OfLlcMisses(fn(&Counts) -> u64),
    SharedLines,
}

impl Total {
    /// The count; none of a part.
    pub(super) fn count(&self, tables: &Tables, of: &Counts) -> Option<u64> {
        match self.value {
            Value::Count(count) => Some(count(of)),
            Value::OfLlcMisses(_) => None,
            Value::SharedLines => Some(tables.shared_line_count),
        }
    }

    /// The part of the misses, in per cent; none when there are no misses.
    pub(super) fn percent(&self, of: &Counts) -> Option<f64> {
        let Value::OfLlcMisses(part) = self.value else {
            return None;
        };
        let whole = of.llc_misses();
        (whole > 0).then(|| part(of) as f64 / whole as f64 * 100.0)
    }

    pub(super) fn text(&self, tables: &Tables, of: &Counts) -> String {
        match (self.count(tables, of), self.percent(of)) {
            (Some(count), _) => count.to_string(),
            (None, Some(percent)) => format!("{percent:.1}%"),
            (None, None) => "n/a".to_owned(),
        }
    }
}

const fn count(id: &'static str, title: &'static str, value: fn(&Counts) -> u64) -> Total {
    Total {
        id,
        title,
        value: Value::Count(value),
    }
}

const fn percent(id: &'static str, title: &'static str, part: fn(&Counts) -> u64) -> Total {
    Total {
        id,
        title,
        value: Value::OfLlcMisses(part),
    }
}

pub(super) const EVENT_TOTALS: &[Total] = &[
    count("record_count", "Total records", |c| c.samples),
    count("locked_count", "Locked Load/Store Operations", |c| c.locks),
    count("load_count", "Load Operations", |c| c.loads),
    count("load_uncached_count", "Loads - uncacheable", |c| {
        c.load_uncached
    }),
    count("load_io_count", "Loads - IO", |c| c.load_io),
    count("load_miss_count", "Loads - Miss", |c| c.load_miss),
    count("load_no_address_count", "Loads - no mapping", |c| {
        c.load_no_address
    }),
    count("load_fill_buffer_count", "Load Fill Buffer Hit", |c| {
        c.fill_buffer
    }),
    count("load_l1_count", "Load L1D hit", |c| c.load_l1),
    count("load_l2_count", "Load L2D hit", |c| c.load_l2),
    count("load_llc_count", "Load LLC hit", |c| {
        c.load_llc + c.local_hitm
    }),
    count("local_hitm_count", "Load Local HITM", |c| c.local_hitm),
    count("remote_hitm_count", "Load Remote HITM", |c| c.remote_hitm),
    count("remote_hit_count", "Load Remote HIT", |c| c.remote_hit),
    count("local_dram_count", "Load Local DRAM", |c| c.local_dram),
    count("remote_dram_count", "Load Remote DRAM", |c| c.remote_dram),
    count("load_exclusive_count", "Load MESI State Exclusive", |c| {
        c.load_exclusive
    }),
    count("load_shared_count", "Load MESI State Shared", |c| {
        c.load_shared
    }),
    count("llc_miss_count", "Load LLC Misses", |c| c.llc_misses()),
    count("blocked_data_count", "Load access blocked by data", |c| {
        c.blocked_data
    }),
    count(
        "blocked_address_count",
        "Load access blocked by address",
        |c| c.blocked_address,
    ),
    count("local_peer_count", "Load HIT Local Peer", |c| c.local_peer),
    count("remote_peer_count", "Load HIT Remote Peer", |c| {
        c.remote_peer
    }),
    percent("local_dram_percent", "LLC Misses to Local DRAM", |c| {
        c.local_dram
    }),
    percent("remote_dram_percent", "LLC Misses to Remote DRAM", |c| {
        c.remote_dram
    }),
    percent(
        "remote_hit_percent",
        "LLC Misses to Remote cache (HIT)",
        |c| c.remote_hit,
    ),
    percent(
        "remote_hitm_percent",
        "LLC Misses to Remote cache (HITM)",
        |c| c.remote_hitm,
    ),
    count("store_count", "Store Operations", |c| c.stores),
    count("store_uncached_count", "Store - uncacheable", |c| {
        c.store_uncached
    }),
    count("store_no_address_count", "Store - no mapping", |c| {
        c.store_no_address
    }),
    count("store_l1_hit_count", "Store L1D Hit", |c| c.store_l1_hit),
    count("store_l1_miss_count", "Store L1D Miss", |c| c.store_l1_miss),
    count(
        "store_unknown_count",
        "Store No available memory level",
        |c| c.store_unknown,
    ),
    count("no_mapping_count", "No Page Map Rejects", |c| c.no_mapping),
    count("unparsed_count", "Unable to parse data source", |c| {
        c.unparsed
    }),
];

pub(super) const SHARED_TOTALS: &[Total] = &[
    Total {
        id: "line_count",
        title: "Total Shared Cache Lines",
        value: Value::SharedLines,
    },
    count("load_count", "Load HITs on shared lines", |c| c.loads),
    count(
        "load_fill_buffer_count",
        "Fill Buffer Hits on shared lines",
        |c| c.fill_buffer,
    ),
    count("load_l1_count", "L1D hits on shared lines", |c| c.load_l1),
    count("load_l2_count", "L2D hits on shared lines", |c| c.load_l2),
    count("load_llc_count", "LLC hits on shared lines", |c| {
        c.load_llc + c.local_hitm
    }),
    count("peer_count", "Load hits on peer cache or nodes", |c| {
        c.peer()
    }),
    count("locked_count", "Locked Access on shared lines", |c| c.locks),
    count("blocked_count", "Blocked Access on shared lines", |c| {
        c.blocked_data + c.blocked_address
    }),
    count("store_count", "Store HITs on shared lines", |c| c.stores),
    count(
        "store_l1_hit_count",
        "Store L1D hits on shared lines",
        |c| c.store_l1_hit,
    ),
    count(
        "store_unknown_count",
        "Store No available memory level",
        |c| c.store_unknown,
    ),
    count("merged_count", "Total Merged records", |c| {
        c.hitm() + c.stores
    }),
];
