//! Forks, programs that take a process over, and ends of processes.

use std::ffi::c_int;

use hitm_weave::board::{Message, Request};

use super::Link;
use crate::home;
use crate::vcpu::Vcpu;

impl Link {
    /// The process is about to fork.
    pub(crate) fn begin_fork(&self, vcpu: &Vcpu) {
        self.ask(vcpu, Request::Forking, &[], &[]);
    }

    /// Has the recorder send its memory, in a file, to the other end of the socket `fd`; true if it does.
    pub(crate) fn ask_for_memory(&self, vcpu: &Vcpu, fd: c_int) -> bool {
        let answer = self.ask(vcpu, Request::Memory, &[fd as u64], &[]);
        answer.is_some_and(|answer| answer[0] == 1)
    }

    /// QEMU has refused to make a namespace.
    pub(crate) fn note_refused_namespace(&self, vcpu: &Vcpu) {
        self.say(vcpu, Request::NoNamespace, &[], &[]);
    }

    /// The process has forked the process `pid`, as it knows it; none if it could not.
    pub(crate) fn end_fork(&self, vcpu: &Vcpu, pid: Option<u32>) {
        self.say(vcpu, Request::Forked, &[pid.unwrap_or(0).into()], &[]);
    }

    /// A child runs unrecorded.
    pub(crate) fn leave_child_alone(&self, vcpu: &Vcpu) {
        self.say(vcpu, Request::UnfollowedFork, &[], &[]);
    }

    /// This process runs `program` from here on, if that can be executed, and why it is not followed.
    pub(crate) fn leave_program_alone(&self, vcpu: &Vcpu, why: &str, program: &str) {
        let text = format!("{why}:{program}");
        self.ask(vcpu, Request::Unfollowed, &[], text.as_bytes());
    }

    /// No other program took this process over: the thread continues.
    pub(crate) fn cancel_exec(&self, vcpu: &Vcpu) {
        self.say(vcpu, Request::Stays, &[], &[]);
    }

    /// Another program is about to take this process over; the thread leaves.
    pub(crate) fn begin_exec(&self, vcpu: &mut Vcpu) {
        home::go(None);
        if let Some(channel) = self.say_doings(vcpu, Request::Exec, &[]) {
            self.port.answer(channel);
        }
    }

    /// The process ends with this status.
    pub(crate) fn end_process(&self, vcpu: &mut Vcpu, status: i32) {
        if let Some(channel) = self.say_doings(vcpu, Request::ProcessExit, &[status as u64]) {
            self.port.answer(channel);
        }
        self.abandon();
    }

    /// The process ends, nobody knows in which thread.
    pub(crate) fn abandon_process(&self) {
        if let Some(channel) = self.port.claim(self.name(), 0) {
            let message = Message::new(Request::ProcessGone, &[]);
            self.port.ask(channel, message);
        }
        self.abandon();
    }
}
