//! The thread of `hitm record` that holds the threads of all recorded processes together and prices
//! what they do.
//!
//! What is done about what processes say is decided by [`hitm_weave::session`]. This thread passes on
//! requests from the board and does what the session asks for; it has the clocks, and looks at /proc.

mod home;
mod java;
mod names;
mod proc;
mod watch;

pub(super) use watch::Stalled;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hitm_recording::generated::told::Told;
use hitm_trace::EndReason;
use hitm_weave::board::{Board, Incoming};
use hitm_weave::session::{Account, Action, Host, Session};

use self::home::Home;
use self::java::Machines;
use self::proc::{Names, Seen};
use self::watch::Watch;
use super::Stall;
use super::host_time::host_nanos;
use super::region::Backing;

/// Interval at which the engine looks for what nobody reports: processes that died, and the end.
/// Each look reads a file of /proc for each process.
const LOOK_AROUND: Duration = Duration::from_millis(20);
/// Interval at which the engine looks for threads that fell asleep, when nobody else can run.
const LOOK_FOR_SLEEP: Duration = Duration::from_micros(100);
/// Looks for the dead, each of which reads a file of /proc for each process, take one such part of the time.
const LOOKS_SHARE: u32 = 20;
/// Free channels that are kept for new threads.
const SPARE_CHANNELS: usize = 64;

/// State that the engine's thread shares with the one that follows the program.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// End of the first process, once it has ended.
    pub(super) first_end: Mutex<Option<EndReason>>,
    /// Followed processes that run, as this process knows them.
    pub(super) running: Mutex<Vec<u32>>,
    /// Message of the watchdog that has not been told.
    pub(super) stall: Mutex<Option<Stalled>>,
    /// A process has attached.
    pub(super) has_started: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Engine {
    session: Session,
    board: Board,
    backing: Backing,
    names: Names,
    home: Home,
    watch: Watch,
    java: Machines,
    /// Names that the runtimes of ended processes told, by number.
    told: BTreeMap<u32, Told>,
    began: Instant,
    /// Time of the next look for the dead.
    next_look_for_dead: Instant,
    shared: Arc<Shared>,
}

impl Engine {
    pub(super) fn new(
        session: Session,
        board: Board,
        backing: Backing,
        stall: Stall,
        shared: Arc<Shared>,
    ) -> Engine {
        Engine {
            session,
            board,
            backing,
            names: Names::default(),
            home: Home::new(),
            watch: Watch::new(stall),
            java: Machines::new(),
            told: BTreeMap::new(),
            began: Instant::now(),
            next_look_for_dead: Instant::now(),
            shared,
        }
    }

    /// Serves until the recording is over. Returns the names that runtimes told, too.
    pub(super) fn run(mut self) -> (Account, BTreeMap<u32, Told>) {
        let mut looked_at = Instant::now();
        self.come_home();
        while !self.session.is_over() {
            let requests = self.board.collect();
            if let Some(reason) = *self.shared.first_end.lock().expect("no holder panics") {
                self.session.first_ends(reason);
            }
            if looked_at.elapsed() > LOOK_AROUND {
                self.look_around();
                looked_at = Instant::now();
            }
            if requests.is_empty() && !self.session.is_over() {
                self.wait();
            }
            for incoming in &requests {
                self.serve(incoming);
            }
        }
        self.board.end_time(host_nanos());
        self.board.end();
        (self.session.into_account(), self.told)
    }

    /// Asks the session, and does what it wants.
    fn ask<T>(&mut self, question: impl FnOnce(&mut Session, &mut dyn Host) -> T) -> T {
        let mut host = Seen {
            board: &self.board,
            names: &mut self.names,
        };
        let answer = question(&mut self.session, &mut host);
        self.act();
        answer
    }

    fn serve(&mut self, incoming: &Incoming) {
        if let Some(message) = incoming.message() {
            self.watch.note(message.request);
        }
        self.look_at_java(incoming);
        self.ask(|session, host| session.serve(incoming, host));
        self.ask(|session, _| session.go_on());
    }

    /// Waits for requests.
    fn wait(&mut self) {
        let is_settled = self.ask(|session, host| session.settle(host))
            && (self.board.is_paused() || self.ask(|session, host| session.pass_idle_time(host)));
        let time = match is_settled {
            true => LOOK_AROUND,
            false => LOOK_FOR_SLEEP,
        };
        let running = self.session.group().running_count();
        self.board.wait(running, time);
    }

    /// Looks for processes that died, makes room for more threads, and finds the end.
    fn look_around(&mut self) {
        let losses = self.board.take_losses();
        self.ask(|session, _| session.lose(losses));
        self.look_for_dead();
        self.look_at_home();
        self.look_for_moved_objects();
        self.watch();
        let now = self.began.elapsed();
        self.ask(|session, host| session.look(now, host));
        self.ask(|session, _| session.look_for_end());
        if self.board.free_count() < SPARE_CHANNELS {
            let wanted = self.board.backed() + 2 * SPARE_CHANNELS;
            if self.backing.grow(wanted) {
                self.board.back(wanted);
            }
        }
    }

    /// Looks for the dead, only so often that it takes little time.
    fn look_for_dead(&mut self) {
        let began = Instant::now();
        if began < self.next_look_for_dead {
            return;
        }
        self.ask(|session, host| session.look_for_dead(host));
        self.next_look_for_dead = Instant::now() + began.elapsed() * LOOKS_SHARE;
    }

    /// Does what the session wants.
    fn act(&mut self) {
        let mut released = 0;
        for action in self.session.take_actions() {
            released += usize::from(matches!(action, Action::Release { .. }));
            self.do_one(action);
        }
        if released > 0 {
            self.home.note_round(released);
        }
    }

    fn do_one(&mut self, action: Action) {
        let board = &mut self.board;
        match action {
            Action::Answer { channel, answer } => board.answer(channel, &answer),
            Action::Take { channel } => board.take(channel),
            Action::Release {
                slot,
                channel,
                answer,
            } => {
                if !board.release(channel, &answer) {
                    self.session.misses(slot, &answer);
                }
            }
            Action::Dismiss { channel } => drop(board.release(channel, &[u64::MAX])),
            Action::Ring { channel } => board.ring(channel),
            Action::Free { channel } => board.free(channel),
            Action::FreeAll { process } => board.free_all(process),
            Action::EmptyMailbox { mailbox } => board.empty_mailbox(mailbox),
            Action::Post { mailbox, mail } => {
                let is_posted = board.post(mailbox, mail);
                self.session.has_given_back(is_posted.into());
            }
            Action::TellTime { now } => board.tell_time(now),
            Action::SendMemory {
                channel,
                pid,
                socket,
            } => {
                let pid = names::as_seen_here(pid);
                let is_sent = pid.is_some_and(|pid| self.backing.send(pid, socket));
                board.answer(channel, &[is_sent.into()]);
            }
            Action::Running { pids } => self.tell_running(&pids),
        }
    }

    fn tell_running(&self, pids: &[u32]) {
        self.shared.has_started.store(true, Ordering::Release);
        let pids = pids.iter().copied();
        let mut running = self.shared.running.lock().expect("no holder panics");
        *running = pids.filter_map(names::as_seen_here).collect();
    }
}
