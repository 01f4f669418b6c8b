//! Adjacent-line prefetch: with a line, a core fetches the other line of its aligned pair of 128 bytes.
//!
//! Source: Intel's optimization manual (248966), data prefetching of Sandy Bridge and later: the spatial prefetcher
//! tries to add to a line that comes into the L2 the other one of its pair.
//!
//! A line that came from outside of the core's own caches pulls the other one as a read, in the share
//! [`adjacent_line_milli`](hitm_base::Machine) of all cases. The pulled line goes to the L2, and takes its home for
//! as long as a read does. Nobody waits for it. Taking a shared line for writing fetches no line, and pulls none.
//! So two writers, each with a half of its own, keep their lines. A reader who keeps fetching one half makes the
//! writer of the other half ask for it again and again.
//!
//! Not modelled, and why: a pair of which nobody has used the other line. It costs no other CPU anything, and
//! first touches cost what they do without it. The time until a pulled line is there: it counts as there at once.
//! A pulled line whose home is taken or waited for is left alone: prefetches give way (assumed).

use hitm_base::{CpuId, Cycles, DataSource, LineAddr};

use super::copies::Level;
use super::{Directory, LineId, Request};

impl Directory {
    /// The other line of the pair that `line` is in, if somebody has used it.
    fn other_of_pair(&self, line: LineId) -> Option<LineId> {
        let addr = self.addr(line);
        let index = self.ids.get_index_of(&LineAddr(addr.0 ^ 1))?;
        // A replay knows lines before they are used.
        let is_used = self.lines[index].free_at > Cycles::ZERO;
        is_used.then(|| LineId::from_index(index))
    }

    /// Pulls the other line of a pair of which `line` has just come to `cpu` from `source`, in a transfer that began at
    /// `start`.
    pub(super) fn pull_pair(
        &mut self,
        cpu: CpuId,
        line: LineId,
        source: DataSource,
        start: Cycles,
    ) {
        let is_upgrade = matches!(source, DataSource::LocalUpgrade | DataSource::RemoteUpgrade);
        if is_upgrade || !self.prices.pulls_pair(cpu, start) {
            return;
        }
        if let Some(other) = self.other_of_pair(line) {
            self.pull(cpu, other, start);
        }
    }

    fn pull(&mut self, cpu: CpuId, line: LineId, start: Cycles) {
        let entry = &self.lines[line.index()];
        let is_free = !entry.has_waiters && entry.free_at <= start;
        if !is_free || self.is_sharer(line, self.core(cpu)) {
            return;
        }
        let quote = self.quote(cpu, line, false);
        let on_the_way = quote.price.latency - quote.price.occupancy;
        let request = Request {
            cpu,
            exclusive: false,
            issued: start.saturating_sub(on_the_way),
            arrived: start,
            ticket: 0,
        };
        self.hand_over(&request, line, quote, Level::L2);
    }
}

#[cfg(test)]
mod tests {
    use hitm_base::Machine;
    use hitm_base::machine::preset;

    use super::super::{Ask, Capacity};
    use super::*;

    const WRITER: CpuId = CpuId(0);
    const READER: CpuId = CpuId(1);
    const OTHER: CpuId = CpuId(2);
    /// Both halves of a pair, and a line of another one.
    const LOW: u64 = 6;
    const HIGH: u64 = 7;
    const APART: u64 = 8;

    struct Toy(Directory, Cycles);

    impl Toy {
        fn new(adjacent_line_milli: u32, capacity: Capacity) -> Toy {
            let text = preset("broadwell-4s").unwrap();
            let mut machine = Machine::from_toml(text, "broadwell-4s").unwrap();
            machine.adjacent_line_milli = adjacent_line_milli;
            Toy(Directory::new(machine, capacity), Cycles::ZERO)
        }

        /// Source from which the CPU gets the line, long after all before it.
        fn ask(&mut self, cpu: CpuId, addr: u64, exclusive: bool) -> DataSource {
            let Toy(directory, now) = self;
            *now += Cycles(10_000);
            let line = directory.line(LineAddr(addr), cpu);
            if let Some((source, _)) = directory.hit(cpu, line, exclusive) {
                return source;
            }
            let ask = Ask {
                now: *now,
                cpu,
                line,
                exclusive,
                ticket: 0,
            };
            directory.request(ask).unwrap().source
        }

        fn read(&mut self, cpu: CpuId, addr: u64) -> DataSource {
            self.ask(cpu, addr, false)
        }

        fn write(&mut self, cpu: CpuId, addr: u64) -> DataSource {
            self.ask(cpu, addr, true)
        }
    }

    /// Sources of the stores to `beside`, while another CPU writes the low half and a reader polls it.
    fn stores_beside(adjacent_line_milli: u32, beside: u64) -> Vec<DataSource> {
        let mut toy = Toy::new(adjacent_line_milli, Capacity::Infinite);
        toy.write(WRITER, beside);
        let turn = |_| {
            toy.write(OTHER, LOW);
            toy.read(READER, LOW);
            toy.write(WRITER, beside)
        };
        (0..200).map(turn).collect()
    }

    #[test]
    fn a_reader_of_one_half_takes_the_other_from_its_writer() {
        let count = |sources: &[DataSource]| sources.iter().filter(|s| s.is_contention()).count();
        assert_eq!(count(&stores_beside(1_000, HIGH)), 200);
        assert_eq!(count(&stores_beside(1_000, APART)), 0);
        assert_eq!(count(&stores_beside(0, HIGH)), 0);
        let half = count(&stores_beside(500, HIGH));
        assert!((70..=130).contains(&half), "{half} of 200");
    }

    #[test]
    fn two_writers_keep_their_halves() {
        let mut toy = Toy::new(1_000, Capacity::Finite);
        toy.write(WRITER, LOW);
        // Its miss pulls the low half. To take that back is no fetch, and pulls nothing.
        toy.write(OTHER, HIGH);
        assert_eq!(toy.write(WRITER, LOW), DataSource::LocalUpgrade);
        for _ in 0..3 {
            assert_eq!(toy.write(OTHER, HIGH), DataSource::L1);
            assert_eq!(toy.write(WRITER, LOW), DataSource::L1);
        }
    }

    #[test]
    fn the_pulled_line_is_in_the_l2() {
        let mut toy = Toy::new(1_000, Capacity::Finite);
        toy.write(WRITER, LOW);
        toy.write(WRITER, HIGH);
        assert_eq!(toy.read(READER, LOW), DataSource::LocalHitm);
        assert_eq!(toy.read(READER, HIGH), DataSource::L2);
        assert_eq!(toy.read(READER, HIGH), DataSource::L1);
    }

    #[test]
    fn a_line_that_is_taken_is_left_alone() {
        let mut toy = Toy::new(1_000, Capacity::Infinite);
        toy.write(WRITER, LOW);
        toy.write(WRITER, HIGH);
        assert_eq!(toy.read(OTHER, LOW), DataSource::LocalHitm);
        let Toy(directory, now) = &mut toy;
        let [low, high] = [LOW, HIGH].map(|addr| directory.line(LineAddr(addr), WRITER));
        *now += Cycles(10_000);
        let ask = |cpu, line| Ask {
            now: *now,
            cpu,
            line,
            exclusive: true,
            ticket: 0,
        };
        // To take a shared line pulls nothing, and keeps the line while the reader asks for the low half.
        directory.request(ask(OTHER, high)).unwrap();
        directory.request(ask(READER, low)).unwrap();
        assert!(!directory.has_line(READER, high));
        assert!(directory.has_line(OTHER, high));
    }
}
