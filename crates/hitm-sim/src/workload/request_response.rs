//! Requests and responses between pairs of CPUs, as `netperf -t TCP_RR` and `perf bench sched pipe`
//! have them: a client sends a request and sleeps until its server has answered.
//!
//! **What we do:** a pair of pipes for each pair of threads, each thread on its own CPU. Sockets and
//! their protocols are not modelled: what is left is two wake-ups a transaction.

use std::cell::Cell;
use std::rc::Rc;

use hitm_base::{CpuId, Cycles, Nanos};

use super::WorkloadKind;
use super::figures::{Add, Figures, Window, figures};
use super::keys::{self, Table};
use super::kind::{Kind, Program};
use super::metric::WorkloadResult;
use crate::engine::SimError;
use crate::kernel::{Kernel, Policy, TaskSpec};
use crate::scenario::ScenarioError;
use crate::scenario::check::Check;
use crate::scenario::products::Product;
use crate::scenario::start::Start;
use hitm_base::Topology;

/// Configuration of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestResponseConfig {
    /// The CPUs of client and server, for each pair.
    pub pairs: Vec<(CpuId, CpuId)>,
    /// Their policy.
    pub policy: Policy,
    /// Bytes of a request and of its response.
    pub size_bytes: u64,
    /// The server's work for a request.
    pub work: Nanos,
}

/// A run.
#[derive(Debug, Default)]
pub struct RequestResponse {
    transactions: Cell<u64>,
}

impl RequestResponse {
    /// Makes the pipes and the threads.
    ///
    /// # Errors
    /// Layouts without what a pipe needs.
    pub fn spawn(
        kernel: &Rc<Kernel>,
        config: &RequestResponseConfig,
    ) -> Result<Rc<RequestResponse>, SimError> {
        let run = Rc::new(RequestResponse::default());
        let mut random = kernel.engine().random("request-response");
        let (size, work) = (config.size_bytes, kernel.cycles(config.work));
        for (number, (client, server)) in config.pairs.iter().copied().enumerate() {
            let there = kernel.pipe(&format!("request{number}"))?;
            let back = kernel.pipe(&format!("response{number}"))?;
            let mut spec = |name: &str, cpu: CpuId| {
                let start = Cycles(random.below(kernel.cycles(Nanos(1e5)).0));
                TaskSpec {
                    policy: config.policy,
                    ..TaskSpec::bound(kernel, format!("{name}{number}"), cpu, start)
                }
            };
            let (run, requests, responses) = (Rc::clone(&run), Rc::clone(&there), Rc::clone(&back));
            kernel.spawn(&spec("client", client), move |thread| async move {
                loop {
                    thread.write_pipe(&requests, size).await;
                    thread.read_pipe(&responses, size).await;
                    run.transactions.set(run.transactions.get() + 1);
                }
            })?;
            kernel.spawn(&spec("server", server), move |thread| async move {
                loop {
                    thread.read_pipe(&there, size).await;
                    thread.run(work).await;
                    thread.write_pipe(&back, size).await;
                }
            })?;
        }
        Ok(run)
    }

    /// Transactions so far, of all pairs.
    pub fn transactions(&self) -> u64 {
        self.transactions.get()
    }
}

figures! {
    FIGURES {
        TRANSACTIONS_PER_SECOND: "transactions_per_second", "1/s", "Transactions of all pairs a second";
    }
}

impl Figures for RequestResponse {
    fn operations(&self) -> u64 {
        self.transactions()
    }

    fn figures(&self, window: Window<'_>, add: Add<'_>) -> WorkloadResult {
        add(TRANSACTIONS_PER_SECOND, window.per_second);
        WorkloadResult::default()
    }
}

pub(super) const KIND: Kind = Kind {
    name: "request-response",
    default_name: "request_response",
    read,
    figures: &[FIGURES],
    ends: false,
    needed: r#"
clients = "0-1" | "0"
servers = "2-3" | "1"
"#,
    optional: r#"
size_bytes = 1 | 4096
work = "0s" | "1us"
policy = "normal" | "rr"
"#,
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    const EXPECTED: &str = "as many CPUs as `clients` has, one for each";
    let cpus = |key, expected| keys::needed(table, key, expected, keys::cpus(table, key)?);
    let clients = cpus("clients", "the CPUs of the clients, such as \"0-3\"")?;
    let servers = cpus("servers", EXPECTED)?;
    if clients.len() != servers.len() {
        return Err(table.error("servers", format!("{} CPUs", servers.len()), EXPECTED));
    }
    let work = keys::span(table, "work", keys::ANY, Nanos(0.0))?;
    let pairs = clients.into_iter().zip(servers);
    Ok(WorkloadKind::RequestResponse(RequestResponseConfig {
        pairs: pairs
            .map(|(client, server)| (CpuId(client), CpuId(server)))
            .collect(),
        policy: keys::policy(table, Policy::Normal(0))?,
        size_bytes: table.number("size_bytes", 1, 4096)?.unwrap_or(1),
        work,
    }))
}

impl Program for RequestResponseConfig {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        Ok(RequestResponse::spawn(start.kernel, self)?)
    }

    fn tasks(&self, _topology: &Topology) -> Product {
        let clients = self.pairs.len() as u64;
        Product::new("clients", &[("", 2), ("clients", clients)])
    }

    fn check(&self, check: &Check<'_>) -> Result<(), ScenarioError> {
        let last = self.pairs.last();
        check.exist("clients", last.map(|pair| pair.0.0))?;
        check.exist("servers", last.map(|pair| pair.1.0))
    }
}
