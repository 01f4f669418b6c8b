//! Cost of unthrottling a tree of groups: one row for each form and number of CPUs and groups,
//! tab-separated, ready to plot.
//!
//! `cargo run --release -p hitm-sim --example throttle -- FORM[,FORM..] CPUS[,CPUS..] GROUPS[,GROUPS..] [HOGS [SUBTREES]] [--host-time]`
//! with FORM one of sync, async, task, task-sync; HOGS a leaf is 10 and SUBTREES is 1 when absent. A tree of N groups
//! has a root with a quota (half the machine for all subtrees together), children of 10
//! leaves, and as many leaves as make N.
//!
//! With `--host-time` behind these each row is run again up to its first full walk, and what that walk
//! takes on the host goes to standard error.

use std::error::Error;

use hitm_base::{CpuId, Cycles, Machine, Nanos, Topology};
use hitm_coherence::directory::Capacity;
use hitm_sim::engine::{Engine, EngineConfig, Executor, RunTotals};
use hitm_sim::kernel::{
    Balancing, DistributeCall, Histogram, Kernel, KernelConfig, LoadBalancing, Quota, Throttling,
    functions,
};
use hitm_sim::layout::Layouts;
use hitm_sim::workload::cgroup_hogs::{CgroupHogs, CgroupHogsConfig};

/// Virtual time of a row: two to three periods.
const SPAN: Nanos = Nanos(260e6);

/// The first CPUs of the preset; more than it has are those of one with 16 core complexes a socket.
fn machine(cpus: usize) -> Result<Machine, Box<dyn Error>> {
    let name = "genoa-384";
    let text = hitm_base::machine::preset(name).ok_or("no such preset")?;
    let text = if cpus > 384 {
        text.replace("llcs = 12", "llcs = 16")
    } else {
        text.to_owned()
    };
    let mut machine = Machine::from_toml(&text, name)?;
    let places = (0..cpus as u16).map(|cpu| machine.topology.place(CpuId(cpu)));
    machine.topology = Topology::from_places(places.collect())?;
    Ok(machine)
}

#[derive(Debug, Clone, Copy)]
struct Tree {
    groups: usize,
    hogs: usize,
    subtrees: usize,
    times_host: bool,
}

fn row(form: Throttling, cpus: usize, tree: Tree) -> Result<(), Box<dyn Error>> {
    let (hogs, mut executor) = start(form, cpus, tree)?;
    executor.run()?;
    print_row(&hogs, &executor.totals(), form);
    let calls = hogs.kernel().distribute_calls();
    let full = |call: &&DistributeCall| call.cfs_rqs == hogs.cfs_rqs();
    if let (true, Some(call)) = (tree.times_host, calls.iter().find(full)) {
        // As much memory as the measured run has is not needed twice.
        drop((hogs, executor));
        time_walk(start(form, cpus, tree)?.1, call)?;
    }
    Ok(())
}

/// Host time for the virtual time of a call, the work of all other CPUs included.
#[expect(
    clippy::disallowed_methods,
    reason = "the host's time is what this measures, and nothing else depends on it"
)]
fn time_walk(mut executor: Executor, call: &DistributeCall) -> Result<(), Box<dyn Error>> {
    executor.run_until(call.begin)?;
    let (before, began) = (executor.totals().accesses, std::time::Instant::now());
    executor.run_until(call.end)?;
    let seconds = began.elapsed().as_secs_f64();
    let accesses = executor.totals().accesses - before;
    eprintln!("host: {seconds:.2} s for this walk, {accesses} accesses");
    Ok(())
}

fn start(
    form: Throttling,
    cpus: usize,
    tree: Tree,
) -> Result<(CgroupHogs, Executor), Box<dyn Error>> {
    let groups = tree.groups;
    let machine = machine(cpus)?;
    let clock = machine.clock;
    let engine = Engine::new(&EngineConfig {
        end: clock.cycles(SPAN),
        machine,
        capacity: Capacity::Finite,
        seed: 1,
        scenario_hash: 0,
        events_max: u64::MAX,
        sites: functions::NAMES,
    });
    let config = KernelConfig {
        throttling: form,
        load_balancing: LoadBalancing::Domains,
        hz: 1000,
        ..KernelConfig::new(Balancing::PushIpi)
    };
    let kernel = Kernel::new(&engine, Layouts::linux_6_12(), config)?;
    let children = ((groups - 1) / 11).max(1);
    let hogs = CgroupHogs::spawn(
        &kernel,
        CgroupHogsConfig {
            subtrees: tree.subtrees,
            children,
            leaves: ((groups - 1 - children.min(groups - 1)) / children).max(1),
            hogs: tree.hogs,
            quota: Quota {
                quota: Nanos(1e8 * cpus as f64 / 2.0 / tree.subtrees as f64),
                period: Nanos(1e8),
                burst: Nanos(0.0),
            },
        },
    )?;
    Ok((hogs, Executor::new(engine)))
}

fn print_row(tree: &CgroupHogs, totals: &RunTotals, form: Throttling) {
    let kernel = tree.kernel();
    let (clock, cpus) = (kernel.engine().machine().clock, kernel.cpu_count());
    let ms = |span: Cycles| clock.nanos(span).0 / 1e6;
    let most = |calls: &[DistributeCall]| {
        let durations = calls.iter().map(DistributeCall::duration).max();
        ms(durations.unwrap_or_default())
    };
    let calls = tree.kernel().distribute_calls();
    let full: Vec<&DistributeCall> = calls
        .iter()
        .filter(|call| call.cfs_rqs == tree.cfs_rqs())
        .collect();
    let sum: f64 = full.iter().map(|call| ms(call.duration())).sum();
    // No full walk has no mean: nan, which plotting programs leave out.
    let mean = if full.is_empty() {
        f64::NAN
    } else {
        sum / full.len() as f64
    };
    let irqs_off: Vec<Cycles> = totals.cpus.iter().map(|cpu| cpu.irqs_off_max).collect();
    let irqs_off_sum: u64 = irqs_off.iter().map(|span| span.0).sum();
    let locks = kernel.rq_lock_totals();
    println!(
        "{}\t{cpus}\t{}\t{}\t{}\t{:.3}\t{:.3}\t{:.3}\t{:.3}\t{:.3}\t{:.3}\t{:.3}\t{:.3}",
        form.id(),
        tree.cfs_rqs() / cpus as u64,
        tree.cfs_rqs(),
        full.len(),
        mean,
        most(&calls),
        most(&kernel.csd_unthrottle_calls()),
        most(&kernel.throttle_calls()),
        ms(irqs_off.iter().max().copied().unwrap_or_default()),
        ms(Cycles(irqs_off_sum / cpus as u64)),
        ms(locks.wait_max),
        ms(locks.wait_sum),
    );
    let mut histogram = Histogram::default();
    for call in &calls {
        histogram.record(clock.nanos(call.duration()));
        eprintln!(
            "cpu{}: {:.3} ms: rqs={} cfs_rqs={} tasks={}",
            call.cpu.0,
            ms(call.duration()),
            call.rqs,
            call.cfs_rqs,
            call.tasks
        );
    }
    eprint!("{}", histogram.text());
}

fn form_named(name: &str) -> Result<Throttling, Box<dyn Error>> {
    use Throttling::{Async, Sync, Task, TaskSync};
    let mut forms = [Sync, Async, Task, TaskSync].into_iter();
    let found = forms.find(|form| form.id() == name);
    found.ok_or_else(|| format!("no form {name}").into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let times_host = arguments.last().is_some_and(|last| last == "--host-time");
    arguments.truncate(arguments.len() - usize::from(times_host));
    let [forms, cpus, groups, rest @ ..] = &arguments[..] else {
        return Err("FORMS CPUS GROUPS [HOGS [SUBTREES]] [--host-time]".into());
    };
    let hogs = rest.first().map_or(Ok(10), |text| text.parse())?;
    let subtrees = rest.get(1).map_or(Ok(1), |text| text.parse())?;
    println!(
        "form\tcpus\tgroups\tcfs_rqs\tfull_walks\twalk_ms_mean\tdistribute_ms_max\town_ms_max\tthrottle_ms_max\tirqs_off_ms_max\tirqs_off_ms_mean\trq_lock_wait_ms_max\trq_lock_wait_ms_sum"
    );
    for form in forms.split(',') {
        let form = form_named(form)?;
        for cpus in cpus.split(',') {
            for groups in groups.split(',') {
                let tree = Tree {
                    groups: groups.parse()?,
                    hogs,
                    subtrees,
                    times_host,
                };
                row(form, cpus.parse()?, tree)?;
            }
        }
    }
    Ok(())
}
