use hitm_base::Numbering;
use hitm_base::TopologyShape;
use hitm_base::machine::MachineCost;

use super::*;
use crate::host_cpus;

/// Probes of a busy host, one of which tells what a system call costs.
const TRIES: usize = 20;

#[test]
fn quick_probe_gives_a_model_with_measured_transfers() {
    let options = ProbeOptions {
        sample_count: 3,
        pairs_per_distance_max: 2,
        like: None,
    };
    let mut steps = 0;
    let mut once = || {
        let file = probe(&options, &mut |progress| {
            steps += 1;
            assert!(progress.done <= progress.total);
        });
        file.unwrap()
    };
    // A probe leaves out what other programs disturbed: one of several is in peace.
    let is_calm = |file: &MachineFile| file.items.contains_key(&Item::Cost(MachineCost::Syscall));
    let file = (0..TRIES).map(|_| once()).find(is_calm);
    let file = file.expect("a probe that nothing disturbs");
    assert!(steps > 3);
    assert_eq!(MachineFile::parse(&file.to_toml(), "probed").unwrap(), file);
    let locked = &file.items[&Item::Core(CorePart::LockedHit)];
    assert!(!locked.origin.is_assumed());
    let has = |cost| file.items.get(&Item::Cost(cost));
    let syscall = has(MachineCost::Syscall).unwrap();
    assert!(syscall.origin.text().contains("getppid, median "));
    assert!(
        (10_000..10_000_000).contains(&syscall.value.raw()),
        "{}",
        syscall.value
    );
    for cost in MachineCost::ALL.into_iter().filter_map(has) {
        // A cost that other programs disturbed keeps its default.
        assert!(cost.value.raw() > 0 && cost.origin.text().contains(" samples, quartiles "));
    }
    let machine = file.resolve().unwrap();
    let topology = &machine.topology;
    if host_cpus::usable().len() == topology.cpu_count() && topology.cpu_count() > 1 {
        for distance in hitm_base::machine::present_distances(topology) {
            let dirty = Item::Transfer(Home::Near, distance, TransferPart::Dirty);
            assert!(!file.items[&dirty].origin.is_assumed());
        }
    }
}

#[test]
fn a_cpu_that_does_not_exist_cannot_be_measured() {
    let error = pin::on_cpus(&[0, 8191], |_| ()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot run a thread on CPU 8191: ")
    );
}

#[test]
fn medians_shrug_off_an_interrupt() {
    let spread = spread(vec![50.0, 52.0, 51.0, 9_000.0, 50.5]);
    assert_eq!(spread.median_ns, 51.0);
    assert_eq!(
        spread.words("ns"),
        "median 51.00 ns of 5 samples, quartiles 50.50 to 52.00"
    );
    assert_eq!(measure::spread(vec![]).median_ns, 0.0);
    assert!(spread.is_steady() && !measure::spread(vec![]).is_steady());
    let disturbed = measure::spread(vec![26e3, 30e3, 500e3, 9e6, 11e6]);
    assert!(!disturbed.is_steady());
}

#[test]
fn large_hosts_are_sampled_at_every_distance() {
    let topology = Topology::from_shape(TopologyShape {
        halves: 1,
        packages: 2,
        dies: 1,
        nodes: 1,
        llcs: 1,
        clusters: 48,
        cores: 1,
        threads: 2,
        numbering: Numbering::CoresFirst,
    })
    .unwrap();
    let cpus: Vec<Cpu> = topology
        .cpus()
        .map(|id| Cpu {
            id,
            number: u32::from(id.0),
        })
        .collect();
    let pairs = pairs(&topology, &cpus, 10);
    let counts: Vec<(Distance, usize)> = pairs
        .iter()
        .map(|(distance, pairs)| (*distance, pairs.len()))
        .collect();
    assert_eq!(
        counts,
        [
            (Distance::Smt, 10),
            (Distance::Llc, 10),
            (Distance::Remote, 10)
        ]
    );
}

#[test]
fn assumed_latencies_follow_measured_ones_up() {
    let mut file = crate::load("genoa-384").unwrap();
    let near = Item::Transfer(Home::Near, Distance::Llc, TransferPart::Clean);
    let far = Item::Transfer(Home::Near, Distance::Die, TransferPart::Clean);
    file.items.insert(
        near,
        Sourced::from_source(Quantity::Picos(150_000), "measured"),
    );
    settle_order(&mut file);
    assert_eq!(file.get(far), Some(Quantity::Picos(150_000)));
    file.resolve().unwrap();
}
