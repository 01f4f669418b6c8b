//! Records about processes and mappings, put into the order of their times.
//!
//! The kernel writes one buffer for each CPU, and perf writes these one after the other. So the
//! file may have a process's mapping before the exec that it follows. These records are collected
//! and applied in the order of their times at the end.

use std::collections::{BTreeMap, BTreeSet};

use super::attr::Attr;
use super::bytes::{ByteOrder, Bytes};
use super::stream::RawRecord;
use crate::format::{misc, record, sample};
use crate::maps::{AddressMaps, Map, is_anonymous_name};
use crate::text::cut;
use crate::{Lives, TaskId};

#[derive(Debug)]
enum SideEvent {
    Mmap {
        task: Task,
        map: Map,
    },
    Comm {
        task: Task,
        name: String,
        is_exec: bool,
    },
    Fork {
        child: Task,
        parent: u32,
    },
    Exit {
        task: Task,
    },
}

/// A thread of a process, by their numbers.
#[derive(Debug, Clone, Copy)]
struct Task {
    pid: u32,
    tid: u32,
}

/// Bytes kept of records about processes and mappings; a busy day of a large machine has fewer.
/// Without a bound, a small compressed file could claim much memory.
const KEPT_BYTES_MAX: usize = 96 << 20;

/// The longest path that Linux has (`PATH_MAX`); what is behind it is cut off.
pub(super) const PATH_LEN_MAX: usize = 4096;

/// Collected records.
#[derive(Debug, Default)]
pub(super) struct Side {
    kept_bytes: usize,
    /// Records that were left out because there were too many.
    pub(super) left_out: u64,
    events: Vec<(u64, SideEvent)>,
    paths: Vec<String>,
    path_numbers: BTreeMap<String, u32>,
    build_ids: BTreeMap<u32, Vec<u8>>,
}

/// Processes, mappings and threads at the end of the file.
#[derive(Debug, Default)]
pub struct World {
    /// Mappings by process and address.
    pub maps: AddressMaps,
    /// Paths of the mapped files, by number.
    pub paths: Vec<String>,
    /// Build ids of the mapped files, by number.
    pub build_ids: BTreeMap<u32, Vec<u8>>,
    /// Names of threads, by process and thread.
    pub names: BTreeMap<(TaskId, TaskId), String>,
    /// Times at which threads ended, by process and thread.
    pub exits: BTreeMap<(TaskId, TaskId), u64>,
    /// Reuses of numbers of processes and threads.
    pub lives: Lives,
}

const MAP_SHARED: u32 = 1;
const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;

impl Side {
    /// One that keeps no record.
    pub(super) fn full() -> Side {
        Side {
            kept_bytes: usize::MAX,
            ..Side::default()
        }
    }

    /// Keeps a record about processes or mappings; `None` when it is cut off.
    pub(super) fn take(
        &mut self,
        raw: &RawRecord<'_>,
        attr: &Attr,
        order: ByteOrder,
    ) -> Option<()> {
        let (body, time) = split_time(raw.body, attr, order);
        let bytes = Bytes::new(body, order);
        if self.kept_bytes > KEPT_BYTES_MAX {
            self.left_out += 1;
            return Some(());
        }
        let event = match raw.kind {
            record::MMAP | record::MMAP2 => self.mmap(raw, bytes)?,
            record::COMM => comm(raw.misc, bytes)?,
            record::FORK => fork(bytes)?,
            record::EXIT => exit(bytes)?,
            _ => return Some(()),
        };
        let name_len = match &event {
            SideEvent::Comm { name, .. } => name.len(),
            _ => 0,
        };
        // Twice, because sorting needs as much again.
        self.kept_bytes += name_len + 2 * size_of::<(u64, SideEvent)>();
        self.events.push((time, event));
        Some(())
    }

    fn mmap(&mut self, raw: &RawRecord<'_>, mut bytes: Bytes<'_>) -> Option<SideEvent> {
        let task = task(&mut bytes)?;
        let (start, len, file_offset) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        let mut map = Map {
            start,
            end: start.saturating_add(len),
            file_offset,
            file: [0; 4],
            is_shared: false,
            // MMAP has no protection: only this bit tells data from code.
            executable: raw.misc & misc::MMAP_DATA == 0,
            is_writable: raw.misc & misc::MMAP_DATA != 0,
            path: 0,
            is_anonymous: false,
        };
        let mut build_id = None;
        if raw.kind == record::MMAP2 {
            if raw.misc & misc::MMAP_BUILD_ID != 0 {
                // Length, three bytes of padding, 20 bytes of build id.
                let id = bytes.take(24)?;
                build_id = Some(id[4..4 + usize::from(id[0]).min(20)].to_vec());
            } else {
                let device = [bytes.u32()?.into(), bytes.u32()?.into()];
                map.file = [device[0], device[1], bytes.u64()?, bytes.u64()?];
            }
            let protection = bytes.u32()?;
            map.executable = protection & PROT_EXEC != 0;
            map.is_writable = protection & PROT_WRITE != 0;
            map.is_shared = bytes.u32()? & MAP_SHARED != 0;
        }
        let path = bytes.text();
        let path = cut(&path, PATH_LEN_MAX);
        map.is_anonymous = is_anonymous_name(path);
        map.path = self.path_number(path);
        if let Some(build_id) = build_id {
            self.build_ids.insert(map.path, build_id);
        }
        Some(SideEvent::Mmap { task, map })
    }

    fn path_number(&mut self, path: &str) -> u32 {
        if let Some(number) = self.path_numbers.get(path) {
            return *number;
        }
        let number = self.paths.len() as u32;
        // Once in each of the two tables, with some 64 bytes for an entry.
        self.kept_bytes += 2 * (path.len() + 64);
        self.paths.push(path.to_owned());
        self.path_numbers.insert(path.to_owned(), number);
        number
    }

    /// Applies all records in the order of time.
    pub(super) fn finish(mut self, more_build_ids: &[(String, Vec<u8>)]) -> World {
        // Stable: records with one time, or none, stay in the order of the file.
        self.events.sort_by_key(|(time, _)| *time);
        let mut world = World {
            paths: self.paths,
            build_ids: self.build_ids,
            ..World::default()
        };
        let mut ended = BTreeSet::new();
        for (time, event) in self.events {
            world.apply(time, event, &mut ended);
        }
        for (path, build_id) in more_build_ids {
            // perf appends a symbol to the name of the kernel image's mapping:
            // `[kernel.kallsyms]_text`.
            let is_kernel = path.starts_with("[kernel");
            let own = self.path_numbers.range(path.clone()..);
            let own = own.take_while(|(other, _)| other.starts_with(path));
            for (_, number) in own.filter(|(other, _)| is_kernel || *other == path) {
                world
                    .build_ids
                    .entry(*number)
                    .or_insert_with(|| build_id.clone());
            }
        }
        world
    }
}

impl World {
    /// Applies the next record in the order of time. `ended` has the numbers of ended threads that
    /// no later record named.
    fn apply(&mut self, time: u64, event: SideEvent, ended: &mut BTreeSet<u32>) {
        let of = match &event {
            SideEvent::Mmap { task, .. } | SideEvent::Comm { task, .. } => *task,
            SideEvent::Fork { child, .. } => *child,
            SideEvent::Exit { task } => {
                ended.insert(task.tid);
                self.exits.insert(self.ids(*task), time);
                return;
            }
        };
        // A record after the end is about a new owner of the number.
        if ended.remove(&of.tid) {
            self.lives.begin(of.tid, time);
        }
        let (process, thread) = self.ids(of);
        match event {
            SideEvent::Mmap { map, .. } => self.maps.insert(process, map),
            SideEvent::Fork { parent, .. } => {
                // A new thread has its process's mappings already.
                if of.pid != parent {
                    self.maps.fork(process, self.lives.last(parent));
                }
            }
            SideEvent::Comm { name, is_exec, .. } => {
                if is_exec {
                    self.maps.exec(process);
                }
                self.names.insert((process, thread), name);
            }
            SideEvent::Exit { .. } => {}
        }
    }

    /// Present owners of these numbers.
    fn ids(&self, task: Task) -> (TaskId, TaskId) {
        (self.lives.last(task.pid), self.lives.last(task.tid))
    }
}

fn task(bytes: &mut Bytes<'_>) -> Option<Task> {
    let (pid, tid) = (bytes.u32()?, bytes.u32()?);
    Some(Task { pid, tid })
}

fn comm(misc: u16, mut bytes: Bytes<'_>) -> Option<SideEvent> {
    Some(SideEvent::Comm {
        task: task(&mut bytes)?,
        name: bytes.text(),
        is_exec: misc & misc::COMM_EXEC != 0,
    })
}

fn fork(mut bytes: Bytes<'_>) -> Option<SideEvent> {
    let (pid, parent, tid) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
    Some(SideEvent::Fork {
        child: Task { pid, tid },
        parent,
    })
}

fn exit(mut bytes: Bytes<'_>) -> Option<SideEvent> {
    let (pid, _parent, tid) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
    Some(SideEvent::Exit {
        task: Task { pid, tid },
    })
}

/// Takes the `sample_id` off the end of a record and returns its time, 0 when it has none.
fn split_time<'a>(body: &'a [u8], attr: &Attr, order: ByteOrder) -> (&'a [u8], u64) {
    let Some(len) = body.len().checked_sub(attr.sample_id_len()) else {
        return (body, 0);
    };
    let (body, id) = body.split_at(len);
    let mut id = Bytes::new(id, order);
    if attr.has(sample::TID) {
        let _ = id.u64();
    }
    let time = attr.has(sample::TIME).then(|| id.u64()).flatten();
    (body, time.unwrap_or(0))
}
