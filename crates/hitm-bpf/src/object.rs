//! One compiled object: its tables and programs in the kernel.

use std::fmt;
use std::sync::Arc;

use aya::maps::{Array, Map};
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{BtfTracePoint, PerfEvent, Program, ProgramError, RawTracePoint};
use aya::{Btf, Ebpf};

use crate::loader::Loader;
use crate::{Error, Filter, Unavailable};

/// Objects that build.rs compiled.
#[cfg(has_programs)]
pub(crate) mod image {
    /// Rust aligns bytes to one; the loader's ELF reader wants eight.
    #[repr(C, align(8))]
    struct Aligned<T: ?Sized>(T);

    macro_rules! image {
        ($name:ident, $file:literal) => {
            pub(crate) const $name: Option<&[u8]> = {
                static ALIGNED: &Aligned<[u8]> =
                    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".o")));
                Some(&ALIGNED.0)
            };
        };
    }
    image!(ARRIVALS, "arrivals");
    image!(PROBE, "probe");
    image!(FUTEX, "futex");
    image!(HOLDERS, "holders");
    image!(LOCKS, "locks");
    image!(NEIGHBOURS, "neighbours");
    image!(PEEK, "peek");
    image!(THROTTLE, "throttle");
    image!(WAKEUPS, "wakeups");
}

/// No object was compiled.
#[cfg(not(has_programs))]
pub(crate) mod image {
    pub(crate) const ARRIVALS: Option<&[u8]> = None;
    pub(crate) const PROBE: Option<&[u8]> = None;
    pub(crate) const FUTEX: Option<&[u8]> = None;
    pub(crate) const HOLDERS: Option<&[u8]> = None;
    pub(crate) const LOCKS: Option<&[u8]> = None;
    pub(crate) const NEIGHBOURS: Option<&[u8]> = None;
    pub(crate) const PEEK: Option<&[u8]> = None;
    pub(crate) const THROTTLE: Option<&[u8]> = None;
    pub(crate) const WAKEUPS: Option<&[u8]> = None;
}

/// Returns success when BPF programs work here, after loading and attaching one.
///
/// # Errors
/// The reason why they do not work.
pub fn available() -> Result<(), Unavailable> {
    let refused = |error: Error| match error {
        Error::Unavailable(unavailable) => unavailable,
        other => Unavailable::Refused(other.to_string()),
    };
    let mut object = Object::open(image::PROBE, &[]).map_err(refused)?;
    object
        .attach("probe_switch", Hook::Typed("sched_switch"))
        .map_err(refused)
}

/// Hook of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hook {
    /// A tracepoint whose arguments the verifier knows by type.
    Typed(&'static str),
    /// A tracepoint whose arguments are words, for those whose type is a function, which the
    /// verifier refuses.
    Raw(&'static str),
    /// Counts of an event of the kernel's software on each CPU, one of so many. A clock counts nanoseconds.
    Counted(SoftwareEvent, u64),
}

/// A constant of a program, as it stands before loading: its name and its bytes.
pub(crate) type Constant = (&'static str, Vec<u8>);

/// Tables and programs of one object. Dropping it detaches and frees them.
pub(crate) struct Object {
    programs: Ebpf,
    types: Arc<Btf>,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").finish_non_exhaustive()
    }
}

impl Object {
    /// Creates the tables of `image`, and prepares its programs for this kernel.
    pub(crate) fn open(image: Option<&[u8]>, constants: &[Constant]) -> Result<Object, Error> {
        let image = image.ok_or(Unavailable::NotBuilt)?;
        Loader::with(|loader| {
            Ok(Object {
                programs: loader.load(image, constants)?,
                types: loader.types(),
            })
        })
    }

    /// Like [`Object::open`], for programs that observe some tasks only.
    pub(crate) fn open_filtered(
        image: Option<&[u8]>,
        filter: &Filter,
        constants: &[Constant],
    ) -> Result<Object, Error> {
        let constants = [&filter.constants()[..], constants].concat();
        let mut object = Object::open(image, &constants)?;
        filter.fill(&mut object)?;
        Ok(object)
    }

    /// Observes children of observed processes from their first instruction on, by the programs of
    /// follow.h.
    pub(crate) fn follow_children(&mut self, filter: &Filter) -> Result<(), Error> {
        if matches!(filter, Filter::Processes(_)) {
            self.attach("forget_process", Hook::Typed("sched_process_free"))?;
            self.attach("follow_fork", Hook::Typed("sched_process_fork"))?;
        }
        Ok(())
    }

    /// Loads a program and attaches it.
    pub(crate) fn attach(&mut self, program: &str, hook: Hook) -> Result<(), Error> {
        let (programs, types) = (&mut self.programs, &self.types);
        let attached = match hook {
            Hook::Typed(tracepoint) => {
                let load = |typed: &mut BtfTracePoint| typed.load(tracepoint, types);
                loaded_by(programs, program, load)?.attach().map(drop)
            }
            Hook::Raw(tracepoint) => {
                let raw = loaded_by(programs, program, RawTracePoint::load)?;
                raw.attach(tracepoint).map(drop)
            }
            Hook::Counted(event, period) => {
                let counted = loaded_by(programs, program, PerfEvent::load)?;
                attach_everywhere(counted, event, period)
            }
        };
        attached.map_err(|error: ProgramError| Error::attach(program, &error))
    }

    /// Loads a program by `load`, and attaches it to nothing.
    pub(crate) fn load_alone<P>(
        &mut self,
        program: &str,
        load: impl FnOnce(&mut P) -> Result<(), ProgramError>,
    ) -> Result<(), Error>
    where
        for<'p> &'p mut P: TryFrom<&'p mut Program, Error = ProgramError>,
    {
        loaded_by(&mut self.programs, program, load).map(drop)
    }

    /// A program that [`Object::load_alone`] has loaded.
    pub(crate) fn loaded<P>(&self, program: &str) -> Result<&P, Error>
    where
        for<'p> &'p P: TryFrom<&'p Program, Error = ProgramError>,
    {
        let found = self.programs.program(program);
        let found = found.unwrap_or_else(|| panic!("object without program {program}"));
        let typed = found.try_into();
        typed.map_err(|error| Error::load(program, &error))
    }

    /// A table by its name in the object.
    pub(crate) fn map(&self, name: &str) -> Result<&Map, Error> {
        let map = self.programs.map(name);
        map.ok_or_else(|| Error::Read(format!("no table {name}")))
    }

    /// A table to write to.
    pub(crate) fn map_mut(&mut self, name: &str) -> Result<&mut Map, Error> {
        let map = self.programs.map_mut(name);
        map.ok_or_else(|| Error::Read(format!("no table {name}")))
    }

    /// A table that outlives the object.
    pub(crate) fn take_map(&mut self, name: &str) -> Result<Map, Error> {
        let map = self.programs.take_map(name);
        map.ok_or_else(|| Error::Read(format!("no table {name}")))
    }

    /// The counters in the object's table `counts`.
    pub(crate) fn counts<const N: usize>(&self) -> Result<[u64; N], Error> {
        let map: Array<_, u64> = Array::try_from(self.map("counts")?)?;
        let mut counts = [0; N];
        for (index, count) in (0..).zip(&mut counts) {
            *count = map.get(&index, 0)?;
        }
        Ok(counts)
    }
}

/// A program of the object, after `load` has loaded it.
fn loaded_by<'p, P>(
    programs: &'p mut Ebpf,
    program: &str,
    load: impl FnOnce(&mut P) -> Result<(), ProgramError>,
) -> Result<&'p mut P, Error>
where
    &'p mut P: TryFrom<&'p mut Program, Error = ProgramError>,
{
    let found = programs.program_mut(program);
    let found = found.unwrap_or_else(|| panic!("object without program {program}"));
    let typed: Result<&'p mut P, ProgramError> = found.try_into();
    let loaded = typed.and_then(|typed| load(typed).map(|()| typed));
    loaded.map_err(|error| Error::load(program, &error))
}

fn attach_everywhere(
    program: &mut PerfEvent,
    event: SoftwareEvent,
    period: u64,
) -> Result<(), ProgramError> {
    let cpus = aya::util::online_cpus();
    let cpus = cpus.map_err(|(_, error)| ProgramError::IOError(error))?;
    for cpu in cpus {
        let scope = PerfEventScope::AllProcessesOneCpu { cpu };
        let config = PerfEventConfig::Software(event);
        program.attach(config, scope, SamplePolicy::Period(period), false)?;
    }
    Ok(())
}
