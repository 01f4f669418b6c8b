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

/// Source of a sum.
pub(super) enum Value {
    Count(fn(&Tables) -> u64),
    /// As a part of the loads that missed the last-level cache.
    OfLlcMisses(fn(&Counts) -> u64),
}

impl Total {
    /// The part of the misses, in per cent; none when there are no misses.
    pub(super) fn percent(&self, tables: &Tables) -> Option<f64> {
        match self.value {
            Value::Count(_) => None,
            Value::OfLlcMisses(part) => {
                let whole = tables.all.llc_misses();
                (whole > 0).then(|| part(&tables.all) as f64 / whole as f64 * 100.0)
            }
        }
    }

    pub(super) fn text(&self, tables: &Tables) -> String {
        match (&self.value, self.percent(tables)) {
            (Value::Count(count), _) => count(tables).to_string(),
            (_, Some(percent)) => format!("{percent:.1}%"),
            (_, None) => "n/a".to_owned(),
        }
    }
}

const fn count(id: &'static str, title: &'static str, value: fn(&Tables) -> u64) -> Total {
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
    count("record_count", "Total records", |t| t.all.samples),
    count("locked_count", "Locked Load/Store Operations", |t| {
        t.all.locks
    }),
    count("load_count", "Load Operations", |t| t.all.loads),
    count("load_uncached_count", "Loads - uncacheable", |t| {
        t.all.load_uncached
    }),
    count("load_io_count", "Loads - IO", |t| t.all.load_io),
    count("load_miss_count", "Loads - Miss", |t| t.all.load_miss),
    count("load_no_address_count", "Loads - no mapping", |t| {
        t.all.load_no_address
    }),
    count("load_fill_buffer_count", "Load Fill Buffer Hit", |t| {
        t.all.fill_buffer
    }),
    count("load_l1_count", "Load L1D hit", |t| t.all.load_l1),
    count("load_l2_count", "Load L2D hit", |t| t.all.load_l2),
    count("load_llc_count", "Load LLC hit", |t| {
        t.all.load_llc + t.all.local_hitm
    }),
    count("local_hitm_count", "Load Local HITM", |t| t.all.local_hitm),
    count("remote_hitm_count", "Load Remote HITM", |t| {
        t.all.remote_hitm
    }),
    count("remote_hit_count", "Load Remote HIT", |t| t.all.remote_hit),
    count("local_dram_count", "Load Local DRAM", |t| t.all.local_dram),
    count("remote_dram_count", "Load Remote DRAM", |t| {
        t.all.remote_dram
    }),
    count("load_exclusive_count", "Load MESI State Exclusive", |t| {
        t.all.load_exclusive
    }),
    count("load_shared_count", "Load MESI State Shared", |t| {
        t.all.load_shared
    }),
    count("llc_miss_count", "Load LLC Misses", |t| t.all.llc_misses()),
    count("blocked_data_count", "Load access blocked by data", |t| {
        t.all.blocked_data
    }),
    count(
        "blocked_address_count",
        "Load access blocked by address",
        |t| t.all.blocked_address,
    ),
    count("local_peer_count", "Load HIT Local Peer", |t| {
        t.all.local_peer
    }),
    count("remote_peer_count", "Load HIT Remote Peer", |t| {
        t.all.remote_peer
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
    count("store_count", "Store Operations", |t| t.all.stores),
    count("store_uncached_count", "Store - uncacheable", |t| {
        t.all.store_uncached
    }),
    count("store_no_address_count", "Store - no mapping", |t| {
        t.all.store_no_address
    }),
    count("store_l1_hit_count", "Store L1D Hit", |t| {
        t.all.store_l1_hit
    }),
    count("store_l1_miss_count", "Store L1D Miss", |t| {
        t.all.store_l1_miss
    }),
    count(
        "store_unknown_count",
        "Store No available memory level",
        |t| t.all.store_unknown,
    ),
    count("no_mapping_count", "No Page Map Rejects", |t| {
        t.all.no_mapping
    }),
    count("unparsed_count", "Unable to parse data source", |t| {
        t.all.unparsed
    }),
];

pub(super) const SHARED_TOTALS: &[Total] = &[
    count("line_count", "Total Shared Cache Lines", |t| {
        t.shared_line_count
    }),
    count("load_count", "Load HITs on shared lines", |t| {
        t.shared.loads
    }),
    count(
        "load_fill_buffer_count",
        "Fill Buffer Hits on shared lines",
        |t| t.shared.fill_buffer,
    ),
    count("load_l1_count", "L1D hits on shared lines", |t| {
        t.shared.load_l1
    }),
    count("load_l2_count", "L2D hits on shared lines", |t| {
        t.shared.load_l2
    }),
    count("load_llc_count", "LLC hits on shared lines", |t| {
        t.shared.load_llc + t.shared.local_hitm
    }),
    count("peer_count", "Load hits on peer cache or nodes", |t| {
        t.shared.peer()
    }),
    count("locked_count", "Locked Access on shared lines", |t| {
        t.shared.locks
    }),
    count("blocked_count", "Blocked Access on shared lines", |t| {
        t.shared.blocked_data + t.shared.blocked_address
    }),
    count("store_count", "Store HITs on shared lines", |t| {
        t.shared.stores
    }),
    count(
        "store_l1_hit_count",
        "Store L1D hits on shared lines",
        |t| t.shared.store_l1_hit,
    ),
    count(
        "store_unknown_count",
        "Store No available memory level",
        |t| t.shared.store_unknown,
    ),
    count("merged_count", "Total Merged records", |t| {
        t.shared.hitm() + t.shared.stores
    }),
];
