//! All benchmarks, in the order in which they run.

use super::{
    Bench, Measure, Sample, layout, perf_data, recording, replay, sim, statistics, whatif,
};

const fn median(name: &'static str, unit: &'static str, run_count: usize, sample: Sample) -> Bench {
    Bench {
        name,
        unit,
        run_count,
        measure: Measure::Median(sample),
    }
}

const fn ratio(
    name: &'static str,
    unit: &'static str,
    run_count: usize,
    first: Sample,
    second: Sample,
) -> Bench {
    Bench {
        name,
        unit,
        run_count,
        measure: Measure::Ratio(first, second),
    }
}

pub(super) const BENCHES: &[Bench] = &[
    // First, while this process is small: Linux counts a parent's peak memory as its child's.
    ratio(
        "recording-slowdown",
        "x native CPU time",
        5,
        recording::recorded_cpu,
        recording::native_cpu,
    ),
    median(
        "recording-memory",
        "MiB over native",
        3,
        recording::extra_memory,
    ),
    median("layout-show", "CPU ms", 11, layout::show),
    median("layout-show-by-pahole", "CPU ms", 11, layout::pahole_show),
    median("layout-show-memory", "MiB", 3, layout::show_memory),
    median(
        "layout-show-memory-by-pahole",
        "MiB",
        3,
        layout::pahole_show_memory,
    ),
    ratio(
        "layout-show-pahole",
        "x pahole",
        11,
        layout::show,
        layout::pahole_show,
    ),
    median("layout-list", "CPU ms", 11, layout::list),
    median("layout-list-by-pahole", "CPU ms", 11, layout::pahole_list),
    ratio(
        "layout-list-pahole",
        "x pahole --sizes",
        11,
        layout::list,
        layout::pahole_list,
    ),
    median("layout-list-memory", "MiB", 3, layout::list_memory),
    median(
        "layout-list-memory-by-pahole",
        "MiB",
        3,
        layout::pahole_list_memory,
    ),
    ratio(
        "layout-show-memory-pahole",
        "x pahole's memory",
        3,
        layout::show_memory,
        layout::pahole_show_memory,
    ),
    ratio(
        "layout-list-memory-pahole",
        "x pahole's memory",
        3,
        layout::list_memory,
        layout::pahole_list_memory,
    ),
    median("layout-dwarf-show", "CPU ms", 11, layout::dwarf_show),
    median(
        "layout-dwarf-show-by-pahole",
        "CPU ms",
        11,
        layout::pahole_dwarf_show,
    ),
    median(
        "layout-dwarf-show-memory",
        "MiB",
        3,
        layout::dwarf_show_memory,
    ),
    median(
        "layout-dwarf-show-memory-by-pahole",
        "MiB",
        3,
        layout::pahole_dwarf_show_memory,
    ),
    ratio(
        "layout-dwarf-show-pahole",
        "x pahole",
        11,
        layout::dwarf_show,
        layout::pahole_dwarf_show,
    ),
    median("layout-dwarf-list", "CPU ms", 11, layout::dwarf_list),
    median(
        "layout-dwarf-list-by-pahole",
        "CPU ms",
        11,
        layout::pahole_dwarf_list,
    ),
    median(
        "layout-dwarf-list-memory",
        "MiB",
        3,
        layout::dwarf_list_memory,
    ),
    median(
        "layout-dwarf-list-memory-by-pahole",
        "MiB",
        3,
        layout::pahole_dwarf_list_memory,
    ),
    ratio(
        "layout-dwarf-list-pahole",
        "x pahole --sizes",
        11,
        layout::dwarf_list,
        layout::pahole_dwarf_list,
    ),
    ratio(
        "layout-dwarf-list-memory-pahole",
        "x pahole's memory",
        3,
        layout::dwarf_list_memory,
        layout::pahole_dwarf_list_memory,
    ),
    ratio(
        "whatif",
        "x report",
        3,
        whatif::whatif_cpu,
        whatif::report_cpu,
    ),
    ratio(
        "perf-data-report",
        "x faster than perf",
        5,
        perf_data::perf_seconds,
        perf_data::hitm_seconds,
    ),
    ratio(
        "perf-data-tables",
        "x faster than perf",
        3,
        perf_data::perf_seconds,
        perf_data::hitm_tables_seconds,
    ),
    ratio(
        "perf-data-memory",
        "x perf's memory",
        3,
        perf_data::hitm_mebibytes,
        perf_data::perf_mebibytes,
    ),
    median("statistics-add", "ns/access", 5, statistics::add_many_lines),
    ratio(
        "statistics-many-lines",
        "x one line",
        5,
        statistics::add_many_lines,
        statistics::add_one_line,
    ),
    median("replay-one-core", "M accesses/CPU s", 5, replay::one_core),
    median(
        "replay-contended",
        "M accesses/s",
        5,
        replay::contended_one_core,
    ),
    ratio(
        "replay-two-cores",
        "x one thread",
        5,
        replay::two_threads,
        replay::one_thread,
    ),
    median("replay-from-cold", "M accesses/CPU s", 3, replay::from_cold),
    median(
        "replay-worst-case",
        "M accesses/CPU s",
        3,
        replay::worst_case,
    ),
    median(
        "sim-64-accesses",
        "M accesses/CPU s",
        3,
        sim::accesses::<64>,
    ),
    median(
        "sim-64-time",
        "virtual ms/CPU s",
        1,
        sim::virtual_time::<64>,
    ),
    median("sim-64-memory", "MiB", 1, sim::memory::<64>),
    median(
        "sim-128-accesses",
        "M accesses/CPU s",
        3,
        sim::accesses::<128>,
    ),
    median(
        "sim-128-time",
        "virtual ms/CPU s",
        1,
        sim::virtual_time::<128>,
    ),
    median("sim-128-memory", "MiB", 1, sim::memory::<128>),
    median(
        "sim-480-accesses",
        "M accesses/CPU s",
        3,
        sim::accesses::<480>,
    ),
    median(
        "sim-480-time",
        "virtual ms/CPU s",
        1,
        sim::virtual_time::<480>,
    ),
    median("sim-480-memory", "MiB", 1, sim::memory::<480>),
    median(
        "sim-1024-accesses",
        "M accesses/CPU s",
        3,
        sim::accesses::<1024>,
    ),
    median(
        "sim-1024-time",
        "virtual ms/CPU s",
        1,
        sim::virtual_time::<1024>,
    ),
    median("sim-1024-memory", "MiB", 1, sim::memory::<1024>),
    median(
        "sim-4096-accesses",
        "M accesses/CPU s",
        3,
        sim::accesses::<4096>,
    ),
    median(
        "sim-4096-time",
        "virtual ms/CPU s",
        1,
        sim::virtual_time::<4096>,
    ),
    median("sim-4096-memory", "MiB", 1, sim::memory::<4096>),
];
