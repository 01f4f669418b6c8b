//! In which state a line comes back to a core that has lost it to another line.

use hitm_base::machine::{CacheShape, Machine, preset};
use hitm_base::{CpuId, Cycles, DataSource, LineAddr};
use hitm_coherence::directory::{Ask, Capacity, Directory, LineId};

/// Line A and the line that displaces it.
const A: u64 = 1;
const B: u64 = 2;

/// Four packages whose cores have room for one line each.
fn directory() -> Directory {
    let text = preset("broadwell-4s").unwrap();
    let mut machine = Machine::from_toml(text, "broadwell-4s").unwrap();
    for cache in [&mut machine.caches.l1, &mut machine.caches.l2] {
        *cache = CacheShape {
            size_bytes: 64,
            ways: 1,
            latency: cache.latency,
        };
    }
    Directory::new(machine, Capacity::Finite)
}

/// Source from which `cpu` gets the line.
fn ask(directory: &mut Directory, cpu: CpuId, addr: u64, exclusive: bool) -> DataSource {
    let line: LineId = directory.line(LineAddr(addr), cpu);
    if let Some((source, _)) = directory.hit(cpu, line, exclusive) {
        return source;
    }
    let ask = Ask {
        now: Cycles(1_000_000),
        cpu,
        line,
        exclusive,
        ticket: 0,
    };
    match directory.request(ask) {
        Some(grant) => grant.source,
        None => directory.serve_next(line).1.source,
    }
}

/// Two cores of the first package, and one of another.
fn cpus(directory: &Directory) -> [CpuId; 3] {
    let topology = &directory.machine().topology;
    let first = CpuId(0);
    let beside = topology.cpus().find(|cpu| {
        topology.llc_of(*cpu) == topology.llc_of(first)
            && topology.core_of(*cpu) != topology.core_of(first)
    });
    let away = topology
        .cpus()
        .find(|cpu| topology.llc_of(*cpu) != topology.llc_of(first));
    [first, beside.unwrap(), away.unwrap()]
}

#[test]
fn the_only_user_of_a_line_writes_it_freely_after_an_eviction() {
    let mut directory = directory();
    let [cpu, beside, _] = cpus(&directory);
    for reader in [cpu, beside] {
        ask(&mut directory, cpu, A, true);
        ask(&mut directory, cpu, B, false);
        assert_eq!(
            ask(&mut directory, reader, A, false),
            DataSource::Llc,
            "from the own LLC"
        );
        assert_eq!(ask(&mut directory, reader, A, true), DataSource::L1);
    }
}

#[test]
fn a_copy_elsewhere_keeps_a_line_shared() {
    let mut directory = directory();
    let [cpu, beside, away] = cpus(&directory);
    // Another core under the same LLC has it.
    ask(&mut directory, cpu, A, false);
    ask(&mut directory, beside, A, false);
    ask(&mut directory, cpu, B, false);
    ask(&mut directory, cpu, A, false);
    assert_eq!(
        ask(&mut directory, cpu, A, true),
        DataSource::LocalUpgrade,
        "the other core's copy is taken back"
    );
    // Another package's LLC has it, and none of its cores.
    ask(&mut directory, away, A, false);
    ask(&mut directory, away, B, false);
    ask(&mut directory, cpu, B, false);
    ask(&mut directory, cpu, A, false);
    let written = ask(&mut directory, cpu, A, true);
    assert!(written.is_contention(), "{written:?}");
}
