//! One recording of a machine: restore, run, drain, end.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hitm_files::streams::StandardOutput;
use hitm_files::{limits, temporary};
use hitm_layout::layout_file::LayoutFile;
use hitm_trace::ring::ProducerState;
use hitm_trace::{EndReason, Header, Record};
use hitm_weave::Placement;

use super::emulator::{self, Emulator, Functions, Machine, Purpose};
use super::objects::StoppedKernel;
use super::snapshot::Snapshot;
use super::topology::GuestCpus;
use super::{VmConfig, VmError, cache_folder, memory, moves, objects, workload};
use crate::record::{Progress, Region, Signals, Sink};
use hitm_kernel::Walks;

/// Longest wait for the agent before the ring is drained again.
const LISTEN_TIME: Duration = Duration::from_millis(1);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// File in which the agent lists the workload's mappings, and the time to hand it over.
const MEMORY_FILE: &str = "/hitm/memory";
const LOOK_TIME: Duration = Duration::from_secs(60);
/// Lines of the console that an error shows.
const CONSOLE_LINES: usize = 12;
/// Message of a kernel that cannot continue.
const PANIC: &str = "Kernel panic";
/// Bytes of the console that are kept to find it.
const CONSOLE_BYTES_MAX: usize = 1 << 16;

/// Progress of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmProgress<'p> {
    /// A step before or after the recording.
    Preparing(&'p str),
    /// Objects whose members move, as found before the start.
    Moving(&'p str),
    /// The recording.
    Recording(Progress),
    /// The guest's own output follows.
    Running,
    /// A failure that costs names and nothing else.
    Note(&'p str),
}

/// End of a machine's recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmEnded {
    /// The workload's exit status, 128 and the signal when it was killed.
    pub exit_code: u8,
    /// Contents of the file.
    pub progress: Progress,
    /// The recording ended before the workload: at its time limit or on request.
    pub is_cut: bool,
}

/// Boots a machine, or resumes it from its snapshot, and records its workload, whose output goes to
/// standard output. `progress` is called about every 100 ms.
pub fn run(
    config: &VmConfig,
    progress: &mut dyn FnMut(VmProgress<'_>),
) -> Result<VmEnded, VmError> {
    with_emulator(config, progress, |emulator, initramfs, progress| {
        let snapshot = Snapshot::find_or_make(emulator, initramfs, &mut |what| {
            progress(VmProgress::Preparing(what));
        })?;
        record(emulator, &snapshot, progress)
    })
}

/// Prepares all inputs of a machine and calls `then` with the emulator and the guest's file system.
pub(super) fn with_emulator<T>(
    config: &VmConfig,
    progress: &mut dyn FnMut(VmProgress<'_>),
    then: impl FnOnce(&Emulator<'_>, &[u8], &mut dyn FnMut(VmProgress<'_>)) -> Result<T, VmError>,
) -> Result<T, VmError> {
    let (machine, _) = &config.machine;
    let cpu_count = config.cpu_count.unwrap_or(machine.topology.cpu_count());
    let cpus = GuestCpus::choose(machine, cpu_count).ok_or_else(|| VmError::CpuCount {
        count: cpu_count,
        machine: machine.name.clone(),
        packages: machine.topology.package_count(),
        cpus: machine.topology.cpu_count(),
    })?;
    cache_folder(&config.cache)?;
    let qemu = emulator::find(config.qemu.as_deref())?;
    let initramfs = workload::initramfs(&config.command, &config.others)?;
    workload::keep_own(&config.cache)?;
    check_size(initramfs.len() as u64 >> 20, config.memory_mib)?;
    let written = temporary::unnamed_file().and_then(|mut file| {
        let written = file.write_all(&initramfs);
        written.map(|()| file).map_err(temporary::explain)
    });
    let file =
        written.map_err(|source| VmError::system("write the guest's file system", source))?;
    progress(VmProgress::Preparing("looking for the kernel"));
    let emulator = Emulator {
        qemu,
        image: config.kernel.image(&config.cache)?,
        initramfs: &file,
        config,
        cpus: &cpus,
    };
    then(&emulator, &initramfs, progress)
}

/// Fails when the guest's memory cannot hold the archive together with its unpacked files, beside
/// the kernel's own needs.
fn check_size(needed_mib: u64, memory_mib: u64) -> Result<(), VmError> {
    const KERNEL_MIB: u64 = 128;
    match 2 * needed_mib + KERNEL_MIB > memory_mib {
        true => Err(VmError::FileSystemTooLarge {
            needed_mib,
            memory_mib,
        }),
        false => Ok(()),
    }
}

fn record(
    emulator: &Emulator<'_>,
    snapshot: &Snapshot,
    progress: &mut dyn FnMut(VmProgress<'_>),
) -> Result<VmEnded, VmError> {
    let config = emulator.config;
    let io = |what: &'static str| move |source| VmError::system(what, source);
    let header = header(emulator);
    let encoded = header.encode().map_err(|error| {
        VmError::system("write the recording's header", io::Error::other(error))
    })?;
    let region = Region::create(&encoded)
        .map_err(limits::explain)
        .map_err(io("make the memory that is shared with QEMU"))?;
    let mut recording = Recording {
        region,
        sink: Sink::create(&config.output, &header)?,
        signals: Signals::catch(),
    };
    let state = snapshot.machine();
    let functions = functions(snapshot, &config.walks).map_err(io("read the snapshot"))?;
    let mut machine = emulator.start(Purpose::Record {
        snapshot: &state,
        region: &recording.region,
        functions: &functions,
    })?;
    let console = Console::show(&machine.console).map_err(io("read the console"))?;
    let ready = machine.qmp.wait_for_machine();
    ready.map_err(|error| console.explain("waiting for the snapshot", &error, &mut machine))?;
    if !config.layouts.is_empty() {
        progress(VmProgress::Preparing("looking for the objects to move"));
        let region = &mut recording.region;
        let moved = move_members(&mut machine, emulator, snapshot, region, progress)?;
        recording.sink.write_records(&moved);
    }
    let resumed = machine.qmp.resume_machine();
    let running = resumed.and_then(|()| machine.agent.send("run"));
    running.map_err(|error| console.explain("starting the workload", &error, &mut machine))?;
    recording.sink.take_name();
    let outcome = recording.follow(&mut machine, config.time_limit, progress);
    if let Ok(outcome) = &outcome {
        progress(VmProgress::Preparing("naming the kernel's objects"));
        // Only a workload that has ended is held for inspection.
        if matches!(outcome, Outcome::Exited(_)) {
            let named = of_program(&mut machine, &config.cache, progress);
            recording.sink.write_records(&named);
        }
        let cpu_count = emulator.cpus.order.len();
        let named = objects::of_kernel(&mut machine.qmp, snapshot, cpu_count, &config.walks);
        let named = named.map(|named| recording.sink.write_records(&named));
        named.map_err(|error| console.explain("naming objects", &error, &mut machine))?;
        // The recorder writes its final records when QEMU ends.
        machine.qmp.quit();
        let _ = machine.child.wait();
    }
    let written = recording.finish()?;
    let outcome = outcome.map_err(|error| console.explain("recording", &error, &mut machine))?;
    console.finish(&config.output)?;
    let (exit_code, is_cut) = match outcome {
        Outcome::Exited(status) => (status, false),
        Outcome::Cut => (0, true),
        Outcome::TimedOut => {
            return Err(VmError::TimedOut {
                limit: config.time_limit,
                path: config.output.clone(),
            });
        }
    };
    Ok(VmEnded {
        exit_code,
        progress: written,
        is_cut,
    })
}

/// The functions that the recorder is to know, as far as this kernel has them.
fn functions(snapshot: &Snapshot, own: &Walks) -> io::Result<Functions> {
    let symbols = snapshot.symbols()?;
    let walks = own.clone().and(Walks::known());
    let addresses = |names: &[String]| {
        let known = names.iter().filter_map(|name| symbols.address(name));
        known.collect()
    };
    Ok(Functions {
        calls: addresses(&walks.calls),
        lock_waits: symbols.functions(&walks.sleep.waits),
        schedulers: addresses(&walks.sleep.schedulers),
        switch: symbols.address(&walks.sleep.switch),
    })
}

/// The records that names of the program need.
fn of_program(
    machine: &mut Machine,
    cache: &Path,
    progress: &mut dyn FnMut(VmProgress<'_>),
) -> Vec<Record> {
    let text = machine
        .agent
        .fetch(&mut machine.qmp, MEMORY_FILE, LOOK_TIME);
    let text = text.unwrap_or_else(|error| {
        let note = format!("no names of the program: {error}");
        progress(VmProgress::Note(&note));
        Vec::new()
    });
    let on_host = |path: &str| workload::path_on_host(path, cache);
    memory::records(&String::from_utf8_lossy(&text), &on_host)
}

/// Finds the objects of the layouts, says how many there are, and passes their moves to the recorder; returns the
/// records that name them.
fn move_members(
    machine: &mut Machine,
    emulator: &Emulator<'_>,
    snapshot: &Snapshot,
    region: &mut Region,
    progress: &mut dyn FnMut(VmProgress<'_>),
) -> Result<Vec<Record>, VmError> {
    let layouts = &emulator.config.layouts;
    let files: Vec<LayoutFile> = layouts.iter().map(|(file, _)| file.clone()).collect();
    let cpu_count = emulator.cpus.order.len();
    let io = |source| VmError::system("look at the guest's memory", source);
    let mut kernel = StoppedKernel::new(&mut machine.qmp, snapshot, cpu_count).map_err(io)?;
    let walks = emulator.config.walks.clone().and(Walks::known());
    let plan = moves::plan(&mut kernel.walker(), &walks, &files)?;
    region.write_text(&plan.relocation.to_text()).map_err(io)?;
    for found in &plan.found {
        progress(VmProgress::Moving(&found.to_string()));
    }
    let texts = layouts.iter().map(|(_, text)| Record::Layout(text.clone()));
    Ok(texts.chain(plan.records).collect())
}

fn header(emulator: &Emulator<'_>) -> Header {
    let config = emulator.config;
    let (machine, machine_toml) = &config.machine;
    Header {
        hitm_version: env!("CARGO_PKG_VERSION").to_string(),
        args: config.command.clone(),
        machine_toml: machine_toml.clone(),
        window: config.window,
        placement: Placement::List(emulator.cpus.order.clone()).to_string(),
        seed: 0,
        arch: "x86_64".into(),
        qemu_version: emulator::version(&emulator.qemu),
        clock: machine.clock,
        page_size_bytes: 4096,
        sampled: None,
    }
}

/// End of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// With this exit status.
    Exited(u8),
    /// Cut short: the user ended the recording, or the file cannot be written any more.
    Cut,
    /// It did not within its time.
    TimedOut,
}

/// The file under way, and what comes into it.
struct Recording {
    region: Region,
    sink: Sink,
    signals: Signals,
}

impl Recording {
    /// Takes what is left. A failed run keeps what it recorded.
    fn finish(mut self) -> Result<Progress, VmError> {
        let consumer = &mut self.region.consumer;
        self.sink.drain(consumer);
        if consumer.producer_state() != ProducerState::Finished {
            self.sink.take_partial(consumer);
            self.sink.write_end(EndReason::Stopped);
        }
        Ok(self.sink.finish()?)
    }

    /// Drains the ring until the workload or the recording has ended.
    fn follow(
        &mut self,
        machine: &mut Machine,
        limit: Duration,
        progress: &mut dyn FnMut(VmProgress<'_>),
    ) -> io::Result<Outcome> {
        let consumer = &mut self.region.consumer;
        let sink = &mut self.sink;
        let started = Instant::now();
        let mut reported_at = started;
        let mut stop_requested_at: Option<Instant> = None;
        loop {
            sink.drain(consumer);
            if let Some(status) = machine.agent.exit_status(LISTEN_TIME)? {
                return Ok(Outcome::Exited(status));
            }
            let is_late = started.elapsed() > limit;
            let is_over = self.signals.pending().is_some() || sink.has_failed() || is_late;
            if is_over && stop_requested_at.is_none() {
                consumer.request_stop();
                stop_requested_at = Some(Instant::now());
            }
            let is_finished = consumer.producer_state() == ProducerState::Finished;
            let patience_is_over =
                stop_requested_at.is_some_and(|at| at.elapsed() > Duration::from_secs(5));
            if patience_is_over || (is_finished && stop_requested_at.is_some()) {
                return Ok(match is_late {
                    true => Outcome::TimedOut,
                    false => Outcome::Cut,
                });
            }
            if reported_at.elapsed() >= PROGRESS_EVERY {
                progress(VmProgress::Recording(sink.progress()));
                reported_at = Instant::now();
            }
        }
    }
}

/// Console of the guest.
#[derive(Debug)]
pub(super) struct Console {
    last: Arc<Mutex<Vec<u8>>>,
    /// Ends with the console; returns the error when not all of it was shown.
    reader: JoinHandle<Option<io::Error>>,
}

impl Console {
    /// Keeps the end of the output.
    pub(super) fn collect(stream: &UnixStream) -> io::Result<Console> {
        Console::read(stream, false)
    }

    /// Keeps the end of the output and shows all of it on standard output.
    pub(super) fn show(stream: &UnixStream) -> io::Result<Console> {
        Console::read(stream, true)
    }

    fn read(stream: &UnixStream, show: bool) -> io::Result<Console> {
        let mut stream = stream.try_clone()?;
        let last = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&last);
        let reader = std::thread::spawn(move || {
            let mut lost = None;
            let mut buffer = [0u8; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                let bytes: Vec<u8> = buffer[..count]
                    .iter()
                    .copied()
                    .filter(|&b| b != b'\r')
                    .collect();
                if show && lost.is_none() {
                    lost = StandardOutput.write_all(&bytes).err();
                }
                let mut kept = kept.lock().expect("nothing panics with the lock held");
                kept.extend(bytes);
                let excess = kept.len().saturating_sub(CONSOLE_BYTES_MAX);
                kept.drain(..excess);
            }
            lost
        });
        Ok(Console { last, reader })
    }

    /// Waits for the end of the output; QEMU must have ended. A closed standard output is no error.
    fn finish(self, recording: &Path) -> Result<(), VmError> {
        match self.reader.join().expect("the reader does not panic") {
            Some(source) if source.kind() != io::ErrorKind::BrokenPipe => {
                let recording = recording.display();
                let what = format!("show what the guest printed (the recording is in {recording})");
                Err(VmError::System { what, source })
            }
            _ => Ok(()),
        }
    }

    /// Builds an error from the failed step, QEMU's exit status if it ended, and the last lines of
    /// the console.
    pub(super) fn explain(
        &self,
        activity: &str,
        error: &dyn std::error::Error,
        machine: &mut Machine,
    ) -> VmError {
        let problem = format!("{activity}: {error}{}", machine.ending());
        let kept = self.last.lock().expect("nothing panics with the lock held");
        let text = String::from_utf8_lossy(&kept).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.len().saturating_sub(CONSOLE_LINES);
        // The kernel prints its call trace after the panic's reason.
        let panic = lines.iter().rposition(|line| line.contains(PANIC));
        let shown = lines.iter().skip(panic.unwrap_or(last).min(last));
        let shown: Vec<&str> = shown.take(CONSOLE_LINES).copied().collect();
        VmError::Guest {
            problem,
            console: shown.join("\n"),
        }
    }
}
