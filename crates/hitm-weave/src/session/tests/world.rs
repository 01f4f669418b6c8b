//! A host with processes that say what a test lets them say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use hitm_base::machine::preset;
use hitm_base::{AccessOp, CodeAddr, CpuId, Cycles, Machine};
use hitm_coherence::directory::Capacity;
use hitm_trace::Record;
use hitm_trace::ring::Consumer;

use super::super::{Action, Config, Host, Session, Status};
use crate::board::{Incoming, Message, Request, pack_doings, unpack_records};
use crate::output::tests::output;
use crate::{Doings, Group, Position, ProgramCpus, ThreadEvent, Weave};

/// A kernel in which all processes of `named` run, awake.
#[derive(Debug, Default)]
pub(in crate::session) struct Kernel {
    /// Pids, by names on the board.
    pub(in crate::session) named: BTreeMap<u32, u32>,
    pub(in crate::session) asleep: BTreeSet<u32>,
    pub(in crate::session) gone: BTreeSet<u32>,
    /// Times at which processes began; 0 for others.
    pub(in crate::session) began: BTreeMap<u32, u64>,
    /// Numbers of threads and children in a namespace, and those of the host.
    pub(in crate::session) own_numbers: BTreeMap<u32, u32>,
    pub(in crate::session) has_requests: bool,
}

impl Host for Kernel {
    fn find(&mut self, process: u32, _: u32) -> Option<u32> {
        self.named.get(&process).copied()
    }

    fn thread(&mut self, _: u32, own_tid: u32) -> Option<u32> {
        let found = self.own_numbers.get(&own_tid).copied();
        found.or(self.own_numbers.is_empty().then_some(own_tid))
    }

    fn child(&mut self, pid: u32, _: u32, own_pid: u32) -> Option<u32> {
        self.thread(pid, own_pid)
    }

    fn status(&self, id: u32) -> Option<Status> {
        let status = Status {
            state: if self.asleep.contains(&id) { 'S' } else { 'R' },
            began: self.began.get(&id).copied().unwrap_or(0),
        };
        (!self.gone.contains(&id)).then_some(status)
    }

    fn has_requests(&self) -> bool {
        self.has_requests
    }
}

/// A session, its kernel, and the transcript of what they did.
#[derive(Debug)]
pub(super) struct World {
    pub(super) session: Session,
    pub(super) kernel: Kernel,
    pub(super) ring: Consumer,
    transcript: String,
}

impl World {
    pub(super) fn new() -> World {
        let (ring, output) = output();
        let machine = preset("broadwell-4s").expect("a preset");
        let machine = Machine::from_toml(machine, "preset").expect("a machine");
        let weave = Weave::new(machine, Capacity::Finite);
        let cpus = ProgramCpus::all([0, 1, 2, 3].map(CpuId).into());
        let config = Config {
            window: Cycles(10_000),
            has_callers: false,
        };
        World {
            session: Session::new(Group::new(weave, output, cpus), config),
            kernel: Kernel::default(),
            ring,
            transcript: String::new(),
        }
    }

    /// A process with threads that have begun, on channels with their tids' numbers. The first tid is its pid.
    pub(super) fn with_process(mut self, name: u32, tids: &[u32]) -> World {
        self.attaches(1, name, tids[0]);
        let process = self.session.processes.named(name).expect("it attached");
        for (seat, tid) in tids.iter().enumerate() {
            let args = [u64::from(*tid), seat as u64, process.into()];
            self.say(*tid, name, Message::new(Request::Enter, &args));
        }
        self.transcript.clear();
        self
    }

    /// The first program of a process attaches, or a program that takes a process over.
    pub(super) fn attaches(&mut self, channel: u32, name: u32, pid: u32) {
        self.kernel.named.insert(name, pid);
        let attach = Message::new(Request::Attach, &[pid.into()]);
        self.say(channel, name, attach.with_bytes(b"/bin/x"));
    }

    /// A process says something by a channel.
    pub(super) fn say(&mut self, channel: u32, name: u32, message: Message<'_>) {
        let args = numbers(&message.args);
        self.note(&format!("{channel} {:?}{args}", message.request));
        let incoming = Incoming::of(channel, name, message);
        self.session.serve(&incoming, &mut self.kernel);
        self.note_actions();
        self.session.go_on();
        self.note_actions();
    }

    /// A thread of the process 7 waits, `insns` instructions after it began.
    pub(super) fn waits(&mut self, channel: u32, insns: u64) {
        let work = work(insns);
        self.say(
            channel,
            7,
            Message::new(Request::Wait, &[]).with_bytes(&work),
        );
    }

    /// A thread of the process 7 says something without bytes that are work.
    pub(super) fn asks(&mut self, channel: u32, request: Request, args: &[u64]) {
        self.say(channel, 7, Message::new(request, args));
    }

    /// A thread of the process 7 says something at the end of some work.
    pub(super) fn does(&mut self, channel: u32, insns: u64, request: Request, args: &[u64]) {
        let work = work(insns);
        self.say(channel, 7, Message::new(request, args).with_bytes(&work));
    }

    /// The driver looks, at this second.
    pub(super) fn looks(&mut self, second: u64) {
        self.note(&format!("look at {second} s"));
        self.session.look_for_dead(&self.kernel);
        let now = Duration::from_secs(second);
        self.session.look(now, &mut self.kernel);
        self.session.look_for_end();
        self.note_actions();
    }

    /// The driver calls the session.
    pub(super) fn calls(&mut self, what: &str, call: impl FnOnce(&mut Session, &Kernel) -> String) {
        let answer = call(&mut self.session, &self.kernel);
        self.note(format!("{what} {answer}").trim_end());
        self.note_actions();
    }

    fn note(&mut self, what: &str) {
        self.transcript += what;
        self.transcript += "\n";
    }

    fn note_actions(&mut self) {
        for action in self.session.take_actions() {
            let text = told(&action);
            self.note(&format!("    {text}"));
        }
    }

    /// Transcript since the last call.
    pub(super) fn transcript(&mut self) -> String {
        std::mem::take(&mut self.transcript)
    }

    /// Records about processes and threads, and counters that are not 0.
    pub(super) fn records(&mut self) -> String {
        let mut told = String::new();
        while let Some(block) = self.ring.try_take() {
            for record in unpack_records(block.bytes).expect("a block") {
                tell_record(&record, &mut told);
            }
        }
        told
    }
}

fn tell_record(record: &Record, told: &mut String) {
    match record {
        Record::ProcessStart(start) => {
            let (number, parent) = (start.process, start.parent);
            let _ = writeln!(told, "process {number} is {}, of {parent}", start.pid);
        }
        Record::ProcessExit(exit) => {
            let _ = writeln!(told, "process {} ends: {:?}", exit.process, exit.reason);
        }
        Record::ThreadStart(start) => {
            let (thread, seat) = (start.thread.0, start.seat);
            let process = start.process;
            let _ = writeln!(told, "thread {thread} of {process} on seat {seat}");
        }
        Record::Counters(counters) => {
            for counter in counters.iter().filter(|counter| counter.value > 0) {
                let _ = writeln!(told, "{}: {}", counter.name, counter.value);
            }
        }
        Record::End(end) => {
            let _ = writeln!(told, "end: {:?}", end.reason);
        }
        _ => {}
    }
}

/// The bytes of a message about a thread that has come so far, and has accessed nothing.
pub(super) fn work(insns: u64) -> Vec<u8> {
    packed(&Doings {
        position: Position {
            insn: insns,
            stores: 0,
        },
        ..Doings::default()
    })
}

/// The same of one that stores to one address, an instruction each.
pub(super) fn stores(addr: u64, count: u64) -> Vec<u8> {
    let event = |number| ThreadEvent {
        insn: number,
        stores: number,
        addr,
        code: CodeAddr(0x1000),
        size: 8,
        op: AccessOp::Store,
    };
    let events: Vec<ThreadEvent> = (1..=count).map(event).collect();
    packed(&Doings {
        events: &events,
        position: Position {
            insn: count,
            stores: count,
        },
        accesses: count,
        ..Doings::default()
    })
}

fn packed(doings: &Doings<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack_doings(doings, &mut bytes);
    bytes
}

/// Numbers up to the last one that is not 0.
fn numbers(words: &[u64]) -> String {
    let count = words.iter().rposition(|word| *word != 0);
    let words = &words[..count.map_or(0, |last| last + 1)];
    let word = |word: &u64| match *word {
        u64::MAX => " max".to_owned(),
        word => format!(" {word}"),
    };
    words.iter().map(word).collect()
}

fn told(action: &Action) -> String {
    match action {
        Action::Answer { channel, answer } => format!("answer {channel}:{}", numbers(answer)),
        Action::Take { channel } => format!("take {channel}"),
        Action::Release {
            channel, answer, ..
        } => format!("release {channel}:{}", numbers(answer)),
        Action::TellTime { now } => format!("tell time {}", now.0),
        Action::Dismiss { channel } => format!("dismiss {channel}"),
        Action::Ring { channel } => format!("ring {channel}"),
        Action::Free { channel } => format!("free {channel}"),
        Action::FreeAll { process } => format!("free all of {process}"),
        Action::EmptyMailbox { mailbox } => format!("empty mailbox {mailbox}"),
        Action::Running { pids } => format!("running: {pids:?}"),
        Action::Post { mailbox, mail } => {
            format!(
                "post to {mailbox}: {:#x} of thread {}",
                mail.addr, mail.thread
            )
        }
        Action::SendMemory {
            channel,
            pid,
            socket,
        } => format!("send memory to {pid} by {socket}, answer {channel}"),
    }
}
