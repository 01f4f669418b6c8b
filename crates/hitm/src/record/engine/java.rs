//! Java machines among the recorded processes: their objects and compiled code get names from their own tables.
//!
//! A machine is read when its process ends, while it waits for the engine's answer. What lies on lines that were
//! handed over is looked up. Collections move objects, so a look at the machine's count of them clears the lines
//! that were handed over before: what is left was used where the objects lie at the end. A collection and
//! accesses behind it within [`super::LOOK_AROUND`] are told apart no more than that.

use std::collections::BTreeMap;
use std::fs;

use hitm_base::{AddrRange, LineAddr, MapsLine};
use hitm_files::input_file;
use hitm_hotspot::{Exports, Field, Frame, HotspotError, JavaMachine, JavaObject, Memory};
use hitm_layout::ObjectFile;
use hitm_recording::CodeLabel;
use hitm_recording::generated::told::{Object, Part, Told};
use hitm_trace::PROCESS_SHIFT;
use hitm_weave::board::{Incoming, Request};

use super::{Engine, names};

/// Name of the library that is a Java machine.
const LIBRARY: &str = "/libjvm.so";
/// Looks at a process with the library before it counts as no Java machine: 20 s of the engine's looks.
const LOOKS_MAX: u32 = 1000;
/// Lines of the heap whose objects are looked up.
const LINES_MAX: usize = 1 << 14;

/// Processes that mapped the library, by number.
pub(super) type Machines = BTreeMap<u32, Java>;

/// A process with a Java machine.
#[derive(Debug)]
pub(super) struct Java {
    pid: u32,
    exports: Option<Exports>,
    /// Address of its count of collections, once it has started, and the count at the last look.
    collections: Option<(u64, u32)>,
    /// Collections that were seen.
    moved: u32,
    looks: u32,
}

/// Memory of another process.
#[derive(Debug, Clone, Copy)]
struct ProcessMemory(u32);

impl Memory for ProcessMemory {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let local = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        let remote = libc::iovec {
            iov_base: at as *mut libc::c_void,
            iov_len: into.len(),
        };
        let pid = self.0 as libc::pid_t;
        // SAFETY: the local buffer is as long as it says; the kernel checks the other address.
        let copied = unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) };
        copied == into.len() as isize
    }
}

impl Java {
    fn new(pid: u32) -> Java {
        Java {
            pid,
            exports: None,
            collections: None,
            moved: 0,
            looks: 0,
        }
    }

    /// Looks at the count of collections; true if objects may have moved since the last look.
    fn has_moved(&mut self) -> bool {
        let memory = ProcessMemory(self.pid);
        if self.collections.is_none() {
            self.looks += 1;
            let found = self.attach(&memory);
            let at = found.and_then(|machine| machine.collections_at());
            self.collections = at.ok().map(|at| (at, 0));
        }
        let Some((at, last)) = self.collections else {
            return false;
        };
        let mut now = [0; 4];
        if !memory.read(at, &mut now) {
            return false;
        }
        let now = u32::from_le_bytes(now);
        self.collections = Some((at, now));
        self.moved += now.wrapping_sub(last);
        now != last
    }

    fn attach<'m>(&mut self, memory: &'m ProcessMemory) -> Result<JavaMachine<'m>, HotspotError> {
        let missing = || HotspotError::Missing(Exports::SYMBOLS.join(", "));
        if self.exports.is_none() {
            self.exports = exports(self.pid);
        }
        JavaMachine::attach(memory, self.exports.ok_or_else(missing)?)
    }

    /// Names by its tables: the objects on some lines, and all compiled code.
    fn tell(&mut self, lines: &[LineAddr]) -> Told {
        let mut told = Told::default();
        let memory = ProcessMemory(self.pid);
        let found = self.attach(&memory);
        let read = found.and_then(|machine| {
            machine.compiled(&mut |compiled| {
                let places = compiled.places.into_iter();
                let places =
                    places.map(|place| (place.code, place.frames.into_iter().map(label).collect()));
                told.places.extend(places);
                told.functions.push((compiled.code, compiled.name));
            })?;
            let heap = machine.heap_range()?;
            let firsts = lines
                .iter()
                .map(|line| line.first_byte() & ((1 << PROCESS_SHIFT) - 1));
            // Classes and code are handed over too, and lie below.
            let of_objects = firsts.filter(|first| heap.contains(first));
            let words = of_objects
                .take(LINES_MAX)
                .flat_map(|first| (0..8).map(move |word| first + 8 * word));
            told.objects = machine.objects(words)?.into_iter().map(object).collect();
            Ok(())
        });
        if let Err(error) = read {
            told.notes.push(format!(
                "names of what process {} has in its Java heap were not read: {error}",
                self.pid
            ));
        }
        if self.moved > 0 {
            told.notes.push(format!(
                "Java's collector moved objects {} times: lines have names that were handed over after the last time; \
                 a larger young generation (-Xmn) moves them less often",
                self.moved
            ));
        }
        told
    }
}

/// The symbols of a process's Java machine.
fn exports(pid: u32) -> Option<Exports> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mut lines = maps.lines().filter_map(MapsLine::parse);
    let first = lines.find(|line| line.offset == 0 && line.path.ends_with(LIBRARY))?;
    let file = ObjectFile::parse(input_file::load(first.path).ok()?, first.path).ok()?;
    let at = |name| Some(first.range.start() + file.symbol_address(name)?);
    let [structs, types, constants, long_constants] = Exports::SYMBOLS;
    Some(Exports {
        structs: at(structs)?,
        types: at(types)?,
        constants: at(constants)?,
        long_constants: at(long_constants)?,
    })
}

fn label(frame: Frame) -> CodeLabel {
    CodeLabel {
        function: frame.method,
        file: frame.file,
        line: frame.line,
    }
}

fn object(found: JavaObject) -> Object {
    let part = |field: &Field| Part {
        offset: field.offset,
        size: field.size,
        name: field.name.clone(),
    };
    Object {
        start: found.start,
        size: found.size,
        class: (&*found.class).into(),
        is_static: found.is_static,
        fields: found.fields.iter().map(part).collect(),
        elements: found
            .elements
            .map(|elements| (elements.offset, elements.size)),
    }
}

/// The addresses of a process.
fn space(number: u32) -> Option<AddrRange> {
    AddrRange::with_len(u64::from(number) << PROCESS_SHIFT, 1 << PROCESS_SHIFT)
}

impl Engine {
    /// Notes processes that map a Java machine, and reads one that ends.
    pub(super) fn look_at_java(&mut self, incoming: &Incoming) {
        let Some(message) = incoming.message() else {
            return;
        };
        let of = |engine: &Engine| engine.session.process_of(incoming);
        match message.request {
            Request::Records if holds(message.bytes, LIBRARY.as_bytes()) => {
                if let Some((number, pid)) = of(self)
                    && let Some(pid) = names::as_seen_here(pid)
                {
                    self.java.entry(number).or_insert_with(|| Java::new(pid));
                    // From here on they are collected: nothing is in a Java heap yet.
                    self.session.handed_over();
                }
            }
            Request::ProcessExit if !self.java.is_empty() => {
                let known =
                    of(self).and_then(|(number, _)| Some((number, self.java.remove(&number)?)));
                if let Some((number, mut java)) = known {
                    self.see_moved(number, &mut java);
                    let lines = self.handed_over(number);
                    self.told.insert(number, java.tell(&lines));
                }
            }
            _ => {}
        }
    }

    /// Forgets lines that were handed over before objects moved.
    pub(super) fn look_for_moved_objects(&mut self) {
        for (number, mut java) in std::mem::take(&mut self.java) {
            self.see_moved(number, &mut java);
            if java.collections.is_some() || java.looks < LOOKS_MAX {
                self.java.insert(number, java);
            }
        }
    }

    fn see_moved(&mut self, number: u32, java: &mut Java) {
        if java.has_moved()
            && let Some(space) = space(number)
        {
            let handed_over = self.session.handed_over();
            handed_over.retain(|line| !space.contains(line.first_byte()));
        }
    }

    /// Lines of a process that were handed over.
    fn handed_over(&mut self, number: u32) -> Vec<LineAddr> {
        let Some(space) = space(number) else {
            return Vec::new();
        };
        let lines = self.session.handed_over().iter().copied();
        lines
            .filter(|line| space.contains(line.first_byte()))
            .collect()
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|part| part == wanted)
}
