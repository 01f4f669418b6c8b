//! The directory and its reference see the same traffic and must give the same answers.

use hitm_base::{CpuId, Cycles, DataSource, Distance, LineAddr};
use hitm_coherence::directory::{Ask, Capacity, Directory, Grant, LineId};
use hitm_coherence::queue::Request;
use proptest::prelude::*;

use crate::machines::{self, LINES, Step};
use crate::reference::Reference;

/// A request by line address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) now: Cycles,
    pub(crate) cpu: CpuId,
    pub(crate) addr: u64,
    pub(crate) exclusive: bool,
    pub(crate) ticket: u64,
}

/// Requests and questions to a coherence engine.
pub(crate) trait Engine {
    fn know(&mut self, addr: u64, cpu: CpuId);
    fn hit(&mut self, cpu: CpuId, addr: u64, exclusive: bool) -> Option<(DataSource, Cycles)>;
    fn request(&mut self, asked: Asked) -> Option<Grant>;
    fn next_service(&mut self, addr: u64) -> Option<Cycles>;
    fn serve_next(&mut self, addr: u64) -> (Request, Grant);
    fn copies(&mut self, addr: u64) -> Vec<u16>;
    fn dirty_owner(&mut self, addr: u64) -> Option<CpuId>;
}

/// The real one, by line address. A line is registered before any other call about it.
pub(crate) struct Real {
    pub(crate) directory: Directory,
    pub(crate) ids: Vec<Option<LineId>>,
}

impl Real {
    pub(crate) fn new(machine: hitm_base::Machine, capacity: Capacity) -> Real {
        Real {
            directory: Directory::new(machine, capacity),
            ids: vec![None; LINES as usize],
        }
    }

    fn id(&self, addr: u64) -> LineId {
        self.ids[addr as usize].expect("the line is known")
    }
}

impl Engine for Real {
    fn know(&mut self, addr: u64, cpu: CpuId) {
        self.ids[addr as usize] = Some(self.directory.line(LineAddr(addr), cpu));
    }

    fn hit(&mut self, cpu: CpuId, addr: u64, exclusive: bool) -> Option<(DataSource, Cycles)> {
        self.directory.hit(cpu, self.id(addr), exclusive)
    }

    fn request(&mut self, asked: Asked) -> Option<Grant> {
        self.directory.request(Ask {
            now: asked.now,
            cpu: asked.cpu,
            line: self.id(asked.addr),
            exclusive: asked.exclusive,
            ticket: asked.ticket,
        })
    }

    fn next_service(&mut self, addr: u64) -> Option<Cycles> {
        self.directory.next_service(self.ids[addr as usize]?)
    }

    fn serve_next(&mut self, addr: u64) -> (Request, Grant) {
        self.directory.serve_next(self.id(addr))
    }

    fn copies(&mut self, addr: u64) -> Vec<u16> {
        self.ids[addr as usize].map_or(vec![], |id| self.directory.sharers(id).collect())
    }

    fn dirty_owner(&mut self, addr: u64) -> Option<CpuId> {
        self.directory.dirty_owner(self.ids[addr as usize]?)
    }
}

/// One access has its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The step that it belongs to.
    pub(crate) step: usize,
    pub(crate) cpu: CpuId,
    pub(crate) line: u64,
    pub(crate) exclusive: bool,
    /// From the core's own caches, without a request.
    pub(crate) is_hit: bool,
    pub(crate) source: DataSource,
    pub(crate) issued: Cycles,
    pub(crate) done: Cycles,
    pub(crate) queued: Cycles,
    pub(crate) other_node: bool,
    pub(crate) taken: bool,
}

/// Drives an engine; `see` is called after each answer, in the order in which lines are handed out.
pub(crate) fn drive<E: Engine>(
    engine: &mut E,
    steps: &[Step],
    cpu_count: usize,
    see: &mut impl FnMut(&mut E, Answer),
) {
    let mut now = Cycles::ZERO;
    let mut known: Vec<u64> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        now += Cycles(step.gap);
        serve_before(engine, &known, now, see);
        let cpu = CpuId(step.cpu % cpu_count as u16);
        let (line, exclusive) = (step.line, step.op.is_write());
        engine.know(line, cpu);
        if !known.contains(&line) {
            known.push(line);
        }
        let answer = |is_hit, grant: Grant| Answer {
            step: index,
            cpu,
            line,
            exclusive,
            is_hit,
            source: grant.source,
            issued: now,
            done: grant.done,
            queued: grant.queued,
            other_node: grant.other_node,
            taken: grant.taken,
        };
        let asked = Asked {
            now,
            cpu,
            addr: line,
            exclusive,
            ticket: index as u64,
        };
        if let Some((source, latency)) = engine.hit(cpu, line, exclusive) {
            see(engine, answer(true, Grant::own(source, now + latency)));
        } else if let Some(grant) = engine.request(asked) {
            see(engine, answer(false, grant));
        }
    }
    serve_before(engine, &known, Cycles::MAX, see);
}

/// Serves every waiter whose turn comes before `end`; of two lines at the same time, the one that
/// was used first goes first.
fn serve_before<E: Engine>(
    engine: &mut E,
    known: &[u64],
    end: Cycles,
    see: &mut impl FnMut(&mut E, Answer),
) {
    loop {
        let times = known
            .iter()
            .filter_map(|line| Some((engine.next_service(*line)?, *line)));
        let first = times.min_by_key(|(time, _)| *time);
        let Some((_, line)) = first.filter(|(time, _)| *time < end) else {
            return;
        };
        let (request, grant) = engine.serve_next(line);
        let answer = Answer {
            step: request.ticket as usize,
            cpu: request.cpu,
            line,
            exclusive: request.exclusive,
            is_hit: false,
            source: grant.source,
            issued: request.issued,
            done: grant.done,
            queued: grant.queued,
            other_node: grant.other_node,
            taken: grant.taken,
        };
        see(engine, answer);
    }
}

/// An answer, and who has the lines after it.
type Seen = (Answer, Vec<(Vec<u16>, Option<CpuId>)>);

fn log<E: Engine>(engine: &mut E, steps: &[Step], cpu_count: usize) -> Vec<Seen> {
    let mut seen = Vec::new();
    drive(engine, steps, cpu_count, &mut |engine, answer| {
        let lines = (0..LINES).map(|line| (engine.copies(line), engine.dirty_owner(line)));
        seen.push((answer, lines.collect()));
    });
    seen
}

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![Just(Capacity::Finite), Just(Capacity::Infinite)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_directory_answers_as_the_reference_does(
        machine in machines::machine(), capacity in capacity(), steps in machines::steps(),
    ) {
        let cpu_count = machine.topology.cpu_count();
        let expected = log(&mut Reference::new(machine.clone(), capacity), &steps, cpu_count);
        let found = log(&mut Real::new(machine, capacity), &steps, cpu_count);
        prop_assert_eq!(found.len(), steps.len(), "every access is answered once");
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn no_answer_is_faster_than_its_distance(
        machine in machines::machine(), capacity in capacity(), steps in machines::steps(),
    ) {
        let least = |local: bool, price: fn(&hitm_base::machine::Transfer) -> Cycles| {
            let distances = Distance::ALL.into_iter().skip(1);
            let of_kind = distances.filter(|distance| distance.is_remote() != local);
            of_kind.map(|distance| price(&machine.transfers[distance.index()])).min().unwrap()
        };
        let cpu_count = machine.topology.cpu_count();
        let mut real = Real::new(machine.clone(), capacity);
        drive(&mut real, &steps, cpu_count, &mut |_, answer| {
            let caches = &machine.caches;
            let minimum = match answer.source {
                DataSource::L1 => caches.l1.latency,
                DataSource::L2 => caches.l2.latency,
                DataSource::Llc => caches.llc.latency,
                DataSource::LocalHitm => least(true, |transfer| transfer.dirty),
                DataSource::RemoteHitm => least(false, |transfer| transfer.dirty),
                DataSource::LocalPeer | DataSource::LocalUpgrade => {
                    least(true, |transfer| transfer.clean).min(caches.llc.latency)
                }
                DataSource::RemotePeer | DataSource::RemoteUpgrade => {
                    least(false, |transfer| transfer.clean)
                }
                DataSource::LocalDram => machine.dram.local,
                DataSource::RemoteDram => machine.dram.package,
                DataSource::StoreBuffer | DataSource::FillBuffer => unreachable!("not the line's"),
            };
            assert!(answer.done >= answer.issued + minimum, "{answer:?} beats {minimum}");
            assert!(answer.queued <= answer.done - answer.issued);
        });
    }
}
