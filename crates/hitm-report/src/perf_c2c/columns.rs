//! The columns of the two tables, in perf's order.

use hitm_perf::c2c::{Counts, Display, Means, RunningMean};

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

/// A column of a table of items.
pub(super) struct Column<I> {
    pub(super) head: Head,
    content: Content<I>,
}

/// Source of a column's cells.
enum Content<I> {
    Own(fn(&I) -> Cell),
    Count(fn(&Counts) -> u64),
    /// A count as a part of the line's.
    Part(fn(&Counts) -> u64),
    Mean(fn(&Means) -> RunningMean),
}

/// Whatever has a row in a table.
pub(super) trait Item {
    /// Its counts, and those of its line.
    fn counts(&self) -> [&Counts; 2];

    /// Its means.
    fn means(&self) -> Option<&Means> {
        None
    }
}

impl Item for LineItem<'_> {
    fn counts(&self) -> [&Counts; 2] {
        [&self.line.counts; 2]
    }
}

impl Item for RowItem<'_> {
    fn counts(&self) -> [&Counts; 2] {
        [&self.row.counts, &self.line.counts]
    }

    fn means(&self) -> Option<&Means> {
        Some(&self.row.means)
    }
}

impl<I: Item> Column<I> {
    /// The cell of an item.
    pub(super) fn cell(&self, item: &I) -> Cell {
        let [own, of_line] = item.counts();
        match self.content {
            Content::Own(cell) => cell(item),
            Content::Count(count) => Cell::Count(count(own)),
            Content::Part(count) => Cell::Percent(match count(of_line) {
                0 => 0.0,
                whole => count(own) as f64 * 100.0 / whole as f64,
            }),
            Content::Mean(mean) => item
                .means()
                .map_or(Cell::Nothing, |means| Cell::Mean(mean(means).mean)),
        }
    }

    fn new(id: &'static str, title: &'static str, content: Content<I>) -> Column<I> {
        Column {
            head: Head {
                id,
                above: None,
                title,
                width: 7,
                is_name: false,
            },
            content,
        }
    }

    /// The same below a title of its own, or of a group that begins with it.
    fn under(mut self, above: &'static str) -> Column<I> {
        self.head.above = Some(above);
        self
    }

    /// The same in another width.
    fn wide(mut self, width: usize) -> Column<I> {
        self.head.width = width;
        self
    }

    /// The same for names.
    fn named(mut self) -> Column<I> {
        self.head.is_name = true;
        self
    }
}

fn of_line<'a>(
    id: &'static str,
    title: &'static str,
    cell: fn(&LineItem<'a>) -> Cell,
) -> Column<LineItem<'a>> {
    Column::new(id, title, Content::Own(cell))
}

fn of_row<'a>(
    id: &'static str,
    title: &'static str,
    cell: fn(&RowItem<'a>) -> Cell,
) -> Column<RowItem<'a>> {
    Column::new(id, title, Content::Own(cell))
}

fn count<I: Item>(id: &'static str, title: &'static str, of: fn(&Counts) -> u64) -> Column<I> {
    Column::new(id, title, Content::Count(of))
}

fn part<I: Item>(id: &'static str, title: &'static str, of: fn(&Counts) -> u64) -> Column<I> {
    Column::new(id, title, Content::Part(of))
}

fn mean<I: Item>(
    id: &'static str,
    title: &'static str,
    of: fn(&Means) -> RunningMean,
) -> Column<I> {
    Column::new(id, title, Content::Mean(of)).wide(8)
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
pub(super) fn line_columns<'a>(display: Display) -> Vec<Column<LineItem<'a>>> {
    let (share_above, share_title) = match display {
        Display::TotalHitm => ("Tot", "Hitm"),
        Display::RemoteHitm => ("Rmt", "Hitm"),
        Display::LocalHitm => ("Lcl", "Hitm"),
        Display::Peer => ("Peer", "Snoop"),
    };
    let mut columns = vec![
        of_line("index", "Index", |item| Cell::Count(item.index as u64))
            .under("")
            .wide(5),
        of_line("address", "Address", |item| {
            Cell::Address(item.line.address)
        })
        .under("----------- Cacheline ----------")
        .wide(18),
        of_line("memory_nodes", "Node", |item| {
            Cell::Nodes(item.memory_nodes.clone())
        })
        .wide(4),
        of_line("physical_address_change_count", "PA cnt", |item| {
            Cell::Count(item.line.physical.change_count)
        })
        .wide(6),
        of_line("share_percent", share_title, line_share).under(share_above),
    ];
    columns.extend(match display {
        Display::Peer => [
            count("peer_count", "Total", Counts::peer).under("------- Load Peer -------"),
            count("local_peer_count", "Local", |c| c.local_peer),
            count("remote_peer_count", "Remote", |c| c.remote_peer),
        ],
        _ => [
            count("hitm_count", "Total", Counts::hitm).under("------- Load Hitm -------"),
            count("local_hitm_count", "LclHitm", |c| c.local_hitm),
            count("remote_hitm_count", "RmtHitm", |c| c.remote_hitm),
        ],
    });
    columns.extend([
        count("record_count", "records", Counts::records).under("Total"),
        count("load_count", "Loads", Counts::classified_loads).under("Total"),
        count("store_count", "Stores", |c| c.stores).under("Total"),
        count("store_l1_hit_count", "L1Hit", |c| c.store_l1_hit).under("--------- Stores --------"),
        count("store_l1_miss_count", "L1Miss", |c| c.store_l1_miss),
        count("store_unknown_count", "N/A", |c| c.store_unknown),
        count("load_fill_buffer_count", "FB", |c| c.fill_buffer).under("----- Core Load Hit -----"),
        count("load_l1_count", "L1", |c| c.load_l1),
        count("load_l2_count", "L2", |c| c.load_l2),
        count("load_llc_count", "LclHit", |c| c.load_llc)
            .under("- LLC Load Hit --")
            .wide(8),
        count("", "LclHitm", |c| c.local_hitm),
        count("remote_hit_count", "RmtHit", |c| c.remote_hit)
            .under("- RMT Load Hit --")
            .wide(8),
        count("", "RmtHitm", |c| c.remote_hitm),
        count("local_dram_count", "Lcl", |c| c.local_dram)
            .under("--- Load Dram ----")
            .wide(8),
        count("remote_dram_count", "Rmt", |c| c.remote_dram).wide(8),
    ]);
    columns
}

/// The columns of a line's rows.
pub(super) fn row_columns<'a>(display: Display) -> Vec<Column<RowItem<'a>>> {
    let (shares, means) = match display {
        Display::Peer => (
            [
                part("remote_peer_percent", "Rmt", |c| c.remote_peer).under("-- Peer Snoop --"),
                part("local_peer_percent", "Lcl", |c| c.local_peer),
            ],
            [
                mean("remote_peer_cycles_mean", "rmt peer", |m| m.remote_peer),
                mean("local_peer_cycles_mean", "lcl peer", |m| m.local_peer),
            ],
        ),
        _ => (
            [
                part("remote_hitm_percent", "RmtHitm", |c| c.remote_hitm).under("----- HITM -----"),
                part("local_hitm_percent", "LclHitm", |c| c.local_hitm),
            ],
            [
                mean("remote_hitm_cycles_mean", "rmt hitm", |m| m.remote_hitm),
                mean("local_hitm_cycles_mean", "lcl hitm", |m| m.local_hitm),
            ],
        ),
    };
    let [remote_mean, local_mean] = means;
    let mut columns = vec![of_row("", "Num", |_| Cell::Nothing).under("").wide(5)];
    columns.extend(shares);
    columns.extend([
        part("store_l1_hit_percent", "L1 Hit", |c| c.store_l1_hit)
            .under("------- Store Refs ------"),
        part("store_l1_miss_percent", "L1 Miss", |c| c.store_l1_miss),
        part("store_unknown_percent", "N/A", |c| c.store_unknown),
        of_row("offset", "Offset", |item| {
            Cell::Address(item.row.offset.into())
        })
        .under("--------- Data address ---------")
        .wide(18),
        of_row("memory_nodes", "Node", |item| {
            Cell::Nodes(item.memory_nodes.clone())
        })
        .wide(4),
        of_row("physical_address_change_count", "PA cnt", |item| {
            Cell::Count(item.row.physical.change_count)
        })
        .wide(6),
        of_row("code_address", "Code address", |item| {
            Cell::Address(item.row.ip)
        })
        .under("")
        .wide(18),
        remote_mean.under("---------- cycles ----------"),
        local_mean,
        mean("load_cycles_mean", "load", |m| m.load),
        count("record_count", "records", Counts::records).under("Total"),
        of_row("cpu_count", "cnt", |item| {
            Cell::Count(item.row.cpus.count() as u64)
        })
        .under("cpu")
        .wide(8),
    ]);
    columns.extend(names_of_row());
    columns
}

/// The columns of names behind the figures of a row.
fn names_of_row<'a>() -> [Column<RowItem<'a>>; 4] {
    [
        of_row("symbol", "Symbol", |item| Cell::Name(item.symbol.clone()))
            .under("")
            .wide(0)
            .named(),
        of_row("object", "Object", |item| Cell::Name(item.object.clone()))
            .under("Shared")
            .wide(0)
            .named(),
        of_row("source", "Source:Line", |item| {
            Cell::Name(item.source.clone())
        })
        .under("")
        .wide(0)
        .named(),
        of_row("nodes", "Node", |item| Cell::Numbers(item.nodes.clone()))
            .under("")
            .wide(4)
            .named(),
    ]
}
