//! The columns of the two tables, in perf's order.

use hitm_perf::c2c::{Counts, Display};

use super::{Cell, LineItem, RowItem};

/// Head of a column.
pub(super) struct Head {
    /// The key in JSON; empty for a column that repeats another.
    pub(super) id: &'static str,
    /// The upper line: a title of this column or of a group that begins here, `None` inside a group.
    pub(super) above: Option<&'static str>,
    /// The lower line.
    pub(super) title: &'static str,
    /// Width, 0 for as wide as the names are.
    pub(super) width: usize,
    /// True if the column holds names, which are left-aligned.
    pub(super) is_name: bool,
}

const fn head(
    id: &'static str,
    above: Option<&'static str>,
    title: &'static str,
    width: usize,
) -> Head {
    Head {
        id,
        above,
        title,
        width,
        is_name: false,
    }
}

const fn name(id: &'static str, above: &'static str, title: &'static str) -> Head {
    Head {
        id,
        above: Some(above),
        title,
        width: 0,
        is_name: true,
    }
}

/// A column of the table of lines.
pub(super) type LineColumn = (Head, fn(&LineItem<'_>) -> Cell);
/// A column of a line's rows.
pub(super) type RowColumn = (Head, fn(&RowItem<'_>) -> Cell);

fn percent(part: u64, whole: u64) -> Cell {
    Cell::Percent(match whole {
        0 => 0.0,
        _ => part as f64 * 100.0 / whole as f64,
    })
}

fn line_share(item: &LineItem<'_>) -> Cell {
    // As perf does: the quotient first.
    let metric = |counts: &Counts| item.tables.display.metric(counts);
    Cell::Percent(match metric(&item.tables.all) {
        0 => 0.0,
        whole => metric(&item.line.counts) as f64 / whole as f64 * 100.0,
    })
}

/// The columns of the table of lines.
pub(super) fn line_columns(display: Display) -> Vec<LineColumn> {
    let (share_above, share_title) = match display {
        Display::TotalHitm => ("Tot", "Hitm"),
        Display::RemoteHitm => ("Rmt", "Hitm"),
        Display::LocalHitm => ("Lcl", "Hitm"),
        Display::Peer => ("Peer", "Snoop"),
    };
    let mut columns: Vec<LineColumn> = vec![
        (head("index", Some(""), "Index", 5), |item| {
            Cell::Count(item.index as u64)
        }),
        (
            head(
                "address",
                Some("----------- Cacheline ----------"),
                "Address",
                18,
            ),
            |item| Cell::Address(item.line.address),
        ),
        (head("memory_nodes", None, "Node", 4), |item| {
            Cell::Nodes(item.memory_nodes.clone())
        }),
        (
            head("physical_address_change_count", None, "PA cnt", 6),
            |item| Cell::Count(item.line.physical.change_count),
        ),
        (
            head("share_percent", Some(share_above), share_title, 7),
            line_share,
        ),
    ];
    columns.extend(match display {
        Display::Peer => peer_columns(),
        _ => hitm_columns(),
    });
    columns.extend(common_columns());
    columns
}

fn hitm_columns() -> [LineColumn; 3] {
    [
        (
            head("hitm_count", Some("------- Load Hitm -------"), "Total", 7),
            |item| Cell::Count(item.line.counts.hitm()),
        ),
        (head("local_hitm_count", None, "LclHitm", 7), |item| {
            Cell::Count(item.line.counts.local_hitm)
        }),
        (head("remote_hitm_count", None, "RmtHitm", 7), |item| {
            Cell::Count(item.line.counts.remote_hitm)
        }),
    ]
}

fn peer_columns() -> [LineColumn; 3] {
    [
        (
            head("peer_count", Some("------- Load Peer -------"), "Total", 7),
            |item| Cell::Count(item.line.counts.peer()),
        ),
        (head("local_peer_count", None, "Local", 7), |item| {
            Cell::Count(item.line.counts.local_peer)
        }),
        (head("remote_peer_count", None, "Remote", 7), |item| {
            Cell::Count(item.line.counts.remote_peer)
        }),
    ]
}

fn common_columns() -> Vec<LineColumn> {
    vec![
        (head("record_count", Some("Total"), "records", 7), |item| {
            Cell::Count(item.line.counts.records())
        }),
        (head("load_count", Some("Total"), "Loads", 7), |item| {
            Cell::Count(item.line.counts.classified_loads())
        }),
        (head("store_count", Some("Total"), "Stores", 7), |item| {
            Cell::Count(item.line.counts.stores)
        }),
        (
            head(
                "store_l1_hit_count",
                Some("--------- Stores --------"),
                "L1Hit",
                7,
            ),
            |item| Cell::Count(item.line.counts.store_l1_hit),
        ),
        (head("store_l1_miss_count", None, "L1Miss", 7), |item| {
            Cell::Count(item.line.counts.store_l1_miss)
        }),
        (head("store_unknown_count", None, "N/A", 7), |item| {
            Cell::Count(item.line.counts.store_unknown)
        }),
        (
            head(
                "load_fill_buffer_count",
                Some("----- Core Load Hit -----"),
                "FB",
                7,
            ),
            |item| Cell::Count(item.line.counts.fill_buffer),
        ),
        (head("load_l1_count", None, "L1", 7), |item| {
            Cell::Count(item.line.counts.load_l1)
        }),
        (head("load_l2_count", None, "L2", 7), |item| {
            Cell::Count(item.line.counts.load_l2)
        }),
        (
            head("load_llc_count", Some("- LLC Load Hit --"), "LclHit", 8),
            |item| Cell::Count(item.line.counts.load_llc),
        ),
        (head("", None, "LclHitm", 7), |item| {
            Cell::Count(item.line.counts.local_hitm)
        }),
        (
            head("remote_hit_count", Some("- RMT Load Hit --"), "RmtHit", 8),
            |item| Cell::Count(item.line.counts.remote_hit),
        ),
        (head("", None, "RmtHitm", 7), |item| {
            Cell::Count(item.line.counts.remote_hitm)
        }),
        (
            head("local_dram_count", Some("--- Load Dram ----"), "Lcl", 8),
            |item| Cell::Count(item.line.counts.local_dram),
        ),
        (head("remote_dram_count", None, "Rmt", 8), |item| {
            Cell::Count(item.line.counts.remote_dram)
        }),
    ]
}

/// The columns of a line's rows.
pub(super) fn row_columns(display: Display) -> Vec<RowColumn> {
    let mut columns: Vec<RowColumn> = vec![(head("", Some(""), "Num", 5), |_| Cell::Nothing)];
    columns.extend(match display {
        Display::Peer => peer_shares(),
        _ => hitm_shares(),
    });
    columns.extend(places());
    columns.extend(match display {
        Display::Peer => peer_means(),
        _ => hitm_means(),
    });
    columns.extend(rest());
    columns
}

fn hitm_shares() -> [RowColumn; 2] {
    [
        (
            head(
                "remote_hitm_percent",
                Some("----- HITM -----"),
                "RmtHitm",
                7,
            ),
            |item| percent(item.row.counts.remote_hitm, item.line.counts.remote_hitm),
        ),
        (head("local_hitm_percent", None, "LclHitm", 7), |item| {
            percent(item.row.counts.local_hitm, item.line.counts.local_hitm)
        }),
    ]
}

fn peer_shares() -> [RowColumn; 2] {
    [
        (
            head("remote_peer_percent", Some("-- Peer Snoop --"), "Rmt", 7),
            |item| percent(item.row.counts.remote_peer, item.line.counts.remote_peer),
        ),
        (head("local_peer_percent", None, "Lcl", 7), |item| {
            percent(item.row.counts.local_peer, item.line.counts.local_peer)
        }),
    ]
}

fn places() -> [RowColumn; 7] {
    [
        (
            head(
                "store_l1_hit_percent",
                Some("------- Store Refs ------"),
                "L1 Hit",
                7,
            ),
            |item| percent(item.row.counts.store_l1_hit, item.line.counts.store_l1_hit),
        ),
        (head("store_l1_miss_percent", None, "L1 Miss", 7), |item| {
            percent(
                item.row.counts.store_l1_miss,
                item.line.counts.store_l1_miss,
            )
        }),
        (head("store_unknown_percent", None, "N/A", 7), |item| {
            percent(
                item.row.counts.store_unknown,
                item.line.counts.store_unknown,
            )
        }),
        (
            head(
                "offset",
                Some("--------- Data address ---------"),
                "Offset",
                18,
            ),
            |item| Cell::Address(item.row.offset.into()),
        ),
        (head("memory_nodes", None, "Node", 4), |item| {
            Cell::Nodes(item.memory_nodes.clone())
        }),
        (
            head("physical_address_change_count", None, "PA cnt", 6),
            |item| Cell::Count(item.row.physical.change_count),
        ),
        (head("code_address", Some(""), "Code address", 18), |item| {
            Cell::Address(item.row.ip)
        }),
    ]
}

fn hitm_means() -> [RowColumn; 2] {
    [
        (
            head(
                "remote_hitm_cycles_mean",
                Some("---------- cycles ----------"),
                "rmt hitm",
                8,
            ),
            |item| Cell::Mean(item.row.means.remote_hitm.mean),
        ),
        (
            head("local_hitm_cycles_mean", None, "lcl hitm", 8),
            |item| Cell::Mean(item.row.means.local_hitm.mean),
        ),
    ]
}

fn peer_means() -> [RowColumn; 2] {
    [
        (
            head(
                "remote_peer_cycles_mean",
                Some("---------- cycles ----------"),
                "rmt peer",
                8,
            ),
            |item| Cell::Mean(item.row.means.remote_peer.mean),
        ),
        (
            head("local_peer_cycles_mean", None, "lcl peer", 8),
            |item| Cell::Mean(item.row.means.local_peer.mean),
        ),
    ]
}

fn rest() -> Vec<RowColumn> {
    vec![
        (head("load_cycles_mean", None, "load", 8), |item| {
            Cell::Mean(item.row.means.load.mean)
        }),
        (head("record_count", Some("Total"), "records", 7), |item| {
            Cell::Count(item.row.counts.records())
        }),
        (head("cpu_count", Some("cpu"), "cnt", 8), |item| {
            Cell::Count(item.row.cpus.count() as u64)
        }),
        (name("symbol", "", "Symbol"), |item| {
            Cell::Name(item.symbol.clone())
        }),
        (name("object", "Shared", "Object"), |item| {
            Cell::Name(item.object.clone())
        }),
        (name("source", "", "Source:Line"), |item| {
            Cell::Name(item.source.clone())
        }),
        (
            Head {
                is_name: true,
                ..head("nodes", Some(""), "Node", 4)
            },
            |item| Cell::Numbers(item.nodes.clone()),
        ),
    ]
}
