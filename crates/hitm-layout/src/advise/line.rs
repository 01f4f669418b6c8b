//! Cost of one line when it holds given spots. `docs/models/advisor.md` derives it.
//!
//! Sources: competing Poisson streams for who touched the line last; the closed single-server queue
//! by Schweitzer's approximation (P. Schweitzer, Approximate analysis of multiclass closed networks
//! of queues, 1979) with the residual service of M/G/1 for how long a request waits.
//!
//! Not modelled, and why: phases and correlations between cores (a profile has none). Slow-down by
//! waiting for other lines (it would couple the lines, and no subset could be weighed alone).
//! Evictions (only what is contended moves members; [`FOOTPRINT_PERIOD`] stands for the rest).

use super::demand::{Class, Demand, Tolls};
use super::prices::Toll;

/// Weight of a cycle of latency that the core hides behind other work, against one that it waits.
///
/// Assumed: 1/8 (range 0 to 1). The engine sees no dependences between instructions and hides a load
/// for a whole reorder buffer; real code often needs the value at once. It decides between layouts
/// only where hardly anything waits.
pub const HIDDEN_WEIGHT: f64 = 0.125;

/// Cycles after which a line that a core has not touched has left its private caches.
///
/// Assumed: 1,000,000 (range 100,000 to 10,000,000: a 1 MiB cache at one miss in 6 to 600 cycles).
/// Each line that a core uses costs it one hit in the LLC in that time. That makes members that are
/// only read gather in few lines.
pub const FOOTPRINT_PERIOD: f64 = 1e6;

/// Halvings of the interval in which the wait for a line lies.
const QUEUE_STEPS: u32 = 30;

/// Times that the cores' pace and their wait are computed from each other. The pace goes half the way
/// each time, in logarithm: after eight what is left of a factor of ten is 0.9 %.
const PACE_STEPS: u32 = 8;

/// Cost of a line over the profile's period, all cores together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LineCost {
    /// Transfers of the line between cores.
    pub transfers: f64,
    /// Cycles from request to use, of all transfers.
    pub latency: f64,
    /// The part of it that cores stand still.
    pub stall: f64,
    /// Cycles for having one more line in use.
    pub footprint: f64,
}

impl LineCost {
    /// The sum that layouts are compared by, in cycles.
    pub fn cycles(&self) -> f64 {
        self.stall + (self.latency - self.stall) * HIDDEN_WEIGHT + self.footprint
    }

    pub(super) fn add(&mut self, other: &LineCost) {
        self.transfers += other.transfers;
        self.latency += other.latency;
        self.stall += other.stall;
        self.footprint += other.footprint;
    }
}

/// Rates of one class on one line, per cycle of own work of a core.
#[derive(Debug, Clone, Copy, Default)]
struct Rates {
    load: f64,
    store: f64,
    rmw: f64,
}

impl Rates {
    fn write(&self) -> f64 {
        self.store + self.rmw
    }

    fn all(&self) -> f64 {
        self.load + self.write()
    }
}

/// One kind of request of one class.
#[derive(Debug, Clone, Copy)]
struct Visit {
    /// Requests per cycle of own work, if nothing delayed them.
    rate: f64,
    toll: Toll,
    /// Cycles of the wait that the core works on.
    hide: f64,
}

/// A class that touches the line.
struct Party<'d> {
    /// The number of the class.
    index: usize,
    class: &'d Class,
    rates: Rates,
}

/// The other parties of a line, for one of them, in the orders in which it meets them.
struct Order {
    /// From the nearest holder of a copy to the farthest.
    shared: Vec<usize>,
    /// From the holder whose invalidation takes longest to the quickest.
    invalidate: Vec<usize>,
}

/// The requests of one class.
struct Visitor<'d> {
    /// The number of the party.
    index: usize,
    class: &'d Class,
    visits: Vec<Visit>,
    rate: f64,
}

/// Rates and costs of a visitor when each of its requests waits `queue` cycles for its turn.
struct Fare {
    /// Requests per cycle of own work.
    per_work: f64,
    /// Requests per cycle.
    per_cycle: f64,
    latency: f64,
    stall: f64,
    occupancy: f64,
    /// Mean square of the occupancy.
    square: f64,
}

impl Visitor<'_> {
    fn fare(&self, queue: f64) -> Fare {
        let (mut latency, mut stall, mut hidden) = (0.0, 0.0, 0.0);
        let (mut occupancy, mut square) = (0.0, 0.0);
        for visit in &self.visits {
            let share = visit.rate / self.rate;
            let wait = visit.toll.latency + queue;
            latency += share * wait;
            stall += share * (wait - visit.hide).max(0.0);
            hidden += share * wait.min(visit.hide);
            occupancy += share * visit.toll.occupancy;
            square += share * visit.toll.occupancy * visit.toll.occupancy;
        }
        // While a request waits, what the core does to the line joins that request.
        let work_between = 1.0 / self.rate + hidden;
        Fare {
            per_work: 1.0 / work_between,
            per_cycle: 1.0 / (work_between + stall),
            latency,
            stall,
            occupancy,
            square,
        }
    }
}

impl Demand {
    /// Prices a line that holds `spots`, each once, and counts the steps that it takes.
    pub(super) fn spots_cost(&self, spots: &[usize]) -> (LineCost, u64) {
        let (parties, mut steps) = self.parties(spots);
        let mut cost = LineCost::default();
        for party in &parties {
            let touches = party.rates.all().min(1.0 / FOOTPRINT_PERIOD);
            cost.footprint += party.class.cores * party.class.work * touches * self.llc_latency;
        }
        if let Some((visitors, queue)) = self.settle(&parties) {
            let mut visits = 0;
            for visitor in &visitors {
                let fare = visitor.fare(queue);
                let requests = visitor.class.cores * visitor.class.work * fare.per_work;
                cost.transfers += requests;
                cost.latency += requests * fare.latency;
                cost.stall += requests * fare.stall;
                visits += visitor.visits.len() as u64;
            }
            let pairs = (parties.len() * parties.len()) as u64;
            steps += u64::from(PACE_STEPS) * (pairs + u64::from(QUEUE_STEPS) * visits);
        }
        (cost, steps)
    }

    /// The classes that touch `spots`, and the steps that it takes to find them.
    fn parties(&self, spots: &[usize]) -> (Vec<Party<'_>>, u64) {
        let touches = spots.iter().flat_map(|spot| &self.touches[*spot]);
        let mut touches: Vec<(usize, usize)> = touches.copied().collect();
        // By class, and in a class by function: the order of its events.
        touches.sort_unstable();
        let parties = touches.chunk_by(|a, b| a.0 == b.0).map(|own| Party {
            index: own[0].0,
            class: &self.classes[own[0].0],
            rates: rates_of(&self.classes[own[0].0], own),
        });
        (parties.collect(), 1 + touches.len() as u64)
    }

    /// The requests and how long each waits, when the cores that wait come by less often. None when
    /// nobody takes the line from anybody.
    fn settle<'d>(&'d self, parties: &[Party<'d>]) -> Option<(Vec<Visitor<'d>>, f64)> {
        if parties.iter().all(|party| party.rates.write() <= 0.0) {
            return None;
        }
        let orders: Vec<Order> = (0..parties.len())
            .map(|index| self.order(index, parties))
            .collect();
        // Cycles that pass while a core of each class works for one.
        let mut pace = vec![1.0; parties.len()];
        let mut settled = None;
        for _ in 0..PACE_STEPS {
            let visitors = self.visitors(parties, &pace, &orders);
            if visitors.is_empty() {
                return None;
            }
            let queue = solve_queue(&visitors);
            for visitor in &visitors {
                let fare = visitor.fare(queue);
                let next = 1.0 + fare.per_work * fare.stall;
                pace[visitor.index] = (pace[visitor.index] * next).sqrt();
            }
            settled = Some((visitors, queue));
        }
        settled
    }

    /// The order in which party `index` meets the others; it depends on no rate.
    fn order(&self, index: usize, parties: &[Party<'_>]) -> Order {
        let tolls = &self.tolls[parties[index].index];
        let of = |party: &usize| tolls[parties[*party].index];
        let mut shared: Vec<usize> = (0..parties.len()).collect();
        shared.sort_by(|a, b| of(a).shared.latency.total_cmp(&of(b).shared.latency));
        let mut invalidate = shared.clone();
        invalidate.sort_by(|a, b| {
            let (a, b) = (of(a).invalidate.latency, of(b).invalidate.latency);
            b.total_cmp(&a)
        });
        Order { shared, invalidate }
    }

    /// The requests of each class; `pace` says how much longer its work takes than without waiting.
    fn visitors<'d>(
        &'d self,
        parties: &[Party<'d>],
        pace: &[f64],
        orders: &[Order],
    ) -> Vec<Visitor<'d>> {
        let slowed = |(party, pace): (&Party<'d>, &f64)| Party {
            index: party.index,
            class: party.class,
            rates: Rates {
                load: party.rates.load / pace,
                store: party.rates.store / pace,
                rmw: party.rates.rmw / pace,
            },
        };
        let parties: Vec<Party<'d>> = parties.iter().zip(pace).map(slowed).collect();
        let total = |pick: fn(&Rates) -> f64| -> f64 {
            let each = parties.iter();
            each.map(|party| party.class.cores * pick(&party.rates))
                .sum()
        };
        let (writes, loads) = (total(Rates::write), total(|rates| rates.load));
        let mut visitors = Vec::new();
        if writes <= 0.0 {
            return visitors;
        }
        for (index, party) in parties.iter().enumerate() {
            let own = &party.rates;
            let others = Others {
                writes: (writes - own.write()).max(0.0),
                loads: (loads - own.load).max(0.0),
            };
            let alone = others.writes + others.loads <= 1e-9 * own.all();
            if own.all() <= 0.0 || alone {
                continue;
            }
            let partners = self.partners(index, &orders[index], &parties, writes);
            let mut visits = self.visits(party, &others, &partners);
            // Back to rates per cycle of work.
            for visit in &mut visits {
                visit.rate *= pace[index];
            }
            let rate: f64 = visits.iter().map(|visit| visit.rate).sum();
            if rate > 0.0 {
                visitors.push(Visitor {
                    index,
                    class: party.class,
                    visits,
                    rate,
                });
            }
        }
        visitors
    }

    /// The requests of one core: an access needs a transfer when another core came between.
    fn visits(&self, party: &Party<'_>, others: &Others, partners: &Partners) -> Vec<Visit> {
        let own = &party.rates;
        let (from_writer, nearest) = (partners.writer, partners.nearest);
        let farthest = partners.farthest;
        // The last event before an access was a foreign write rather than an access of its own.
        let stale = others.writes / (others.writes + own.all());
        // Of those: nobody read the line since, so that it is still dirty.
        let dirty = others.writes / (others.writes + others.loads);
        // Another core touched the line since the last write of its own.
        let taken = if own.write() > 0.0 {
            let all = others.writes + others.loads;
            all / (all + own.write())
        } else {
            0.0
        };
        let is_farther = farthest.latency > nearest.latency;
        let clean_write = if is_farther { farthest } else { nearest };
        let load = mix(from_writer, nearest, dirty);
        let write = mix(from_writer, clean_write, dirty);
        let upgraded = (taken - stale).max(0.0);
        let store_hide = self.store_entries / party.class.stores.max(1e-9);
        let kinds = [
            (own.load * stale, load, self.load_hide),
            (own.store * stale, write, store_hide),
            (own.rmw * stale, write, 0.0),
            (own.store * upgraded, farthest, store_hide),
            (own.rmw * upgraded, farthest, 0.0),
        ];
        let wanted = kinds.into_iter().filter(|(rate, ..)| *rate > 0.0);
        wanted
            .map(|(rate, toll, hide)| Visit { rate, toll, hide })
            .collect()
    }

    /// For party `index`, the mean price of taking the line from its writers, of reading it from the
    /// nearest core that has a copy, and of invalidating the farthest one. `writes` is the sum of all
    /// parties' rates.
    fn partners(
        &self,
        index: usize,
        order: &Order,
        parties: &[Party<'_>],
        writes: f64,
    ) -> Partners {
        let tolls = &self.tolls[parties[index].index];
        let cores = |other: usize| {
            let itself = f64::from(u8::from(other == index));
            parties[other].class.cores - itself
        };
        let is_holder = |other: &usize| cores(*other) > 0.0 && parties[*other].rates.all() > 0.0;
        let mut writer = Toll::ZERO;
        let mut weight = 0.0;
        for other in (0..parties.len()).filter(is_holder) {
            let dirty = tolls[parties[other].index].dirty;
            let share = cores(other) * parties[other].rates.write();
            writer = writer + dirty * share;
            weight += share;
        }
        if weight > 0.0 {
            writer = writer / weight;
        }
        // Some core of the class has a copy when one came by after the last foreign write. That
        // write took the line from all of them at once.
        let chance = |other: usize| {
            let (cores, rates) = (cores(other), &parties[other].rates);
            let visits = cores * rates.all();
            visits / (visits + (writes - cores * rates.write()).max(0.0))
        };
        let met = |order: &[usize], price: fn(&Tolls) -> Toll| {
            let holders = order.iter().copied().filter(is_holder);
            expected(holders.map(|other| (price(&tolls[parties[other].index]), chance(other))))
        };
        Partners {
            writer,
            nearest: met(&order.shared, |tolls| tolls.shared),
            farthest: met(&order.invalidate, |tolls| tolls.invalidate),
        }
    }
}

/// The mean of the first toll that is there, given that one is.
fn expected(tolls: impl Iterator<Item = (Toll, f64)>) -> Toll {
    let mut mean = Toll::ZERO;
    let mut left = 1.0;
    for (toll, chance) in tolls {
        mean = mean + toll * (left * chance);
        left *= 1.0 - chance;
    }
    mean / (1.0f64 - left).max(1e-12)
}

/// Prices of a party's transfers.
struct Partners {
    writer: Toll,
    nearest: Toll,
    farthest: Toll,
}

/// Rates of everybody else on the line.
struct Others {
    writes: f64,
    loads: f64,
}

/// Sums the rates of a class on a line. What a function does to several spots of the line counts
/// once: it does it at about the same time. `touches` numbers the class's events on the line, in
/// their order.
fn rates_of(class: &Class, touches: &[(usize, usize)]) -> Rates {
    let mut sum = Rates::default();
    let mut current = Rates::default();
    let mut function = usize::MAX;
    for event in touches.iter().map(|(_, event)| &class.events[*event]) {
        if event.function != function {
            add(&mut sum, &current);
            current = Rates::default();
            function = event.function;
        }
        current.load = current.load.max(event.load);
        current.store = current.store.max(event.store);
        current.rmw = current.rmw.max(event.rmw);
    }
    add(&mut sum, &current);
    sum
}

fn add(sum: &mut Rates, more: &Rates) {
    sum.load += more.load;
    sum.store += more.store;
    sum.rmw += more.rmw;
}

fn mix(first: Toll, second: Toll, share: f64) -> Toll {
    first * share + second * (1.0 - share)
}

/// Solves for a request's wait for its turn: the root of a falling function, by bisection.
fn solve_queue(visitors: &[Visitor<'_>]) -> f64 {
    let population: f64 = visitors.iter().map(|visitor| visitor.class.cores).sum();
    let visits = visitors.iter().flat_map(|visitor| &visitor.visits);
    let longest = visits.map(|visit| visit.toll.occupancy).fold(0.0, f64::max);
    let seen = (population - 1.0).max(0.0) / population;
    // Work that an arriving request finds before it, less the wait that was assumed.
    let excess = |queue: f64| {
        let (mut arrivals, mut busy, mut squares) = (0.0, 0.0, 0.0);
        for visitor in visitors {
            let fare = visitor.fare(queue);
            arrivals += visitor.class.cores * fare.per_cycle;
            busy += visitor.class.cores * fare.per_cycle * fare.occupancy;
            squares += visitor.class.cores * fare.per_cycle * fare.square;
        }
        let service = if arrivals > 0.0 { busy / arrivals } else { 0.0 };
        // Of the service under way half is left on average, and long ones are met more often.
        let residual = squares / 2.0 / busy.max(1.0);
        seen * (arrivals * queue * service + residual) - queue
    };
    let (mut low, mut high) = (0.0, population * longest);
    for _ in 0..QUEUE_STEPS {
        let middle = (low + high) / 2.0;
        if excess(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}
