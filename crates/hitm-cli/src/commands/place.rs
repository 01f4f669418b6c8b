//! `hitm place`.

mod apply;
mod json;
mod text;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use hitm_live::place;
use hitm_live::place::{
    Backend, Contention, Linux, Mounts, Place, Plan, PlanOptions, Recovered, Store, System as _,
    task_of, tasks_of_cgroup, tasks_of_process,
};

use crate::commands::Format;
use crate::{Exit, Terminal};

/// Options of `hitm place`.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show where the threads would go, and change nothing
    Plan {
        #[command(flatten)]
        wish: WishArgs,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Place the threads until a signal, --for, or their end, and put them back then
    Apply(Box<apply::ApplyArgs>),
    /// Put the threads of every placement back
    Undo {
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Show the placements that are there
    Status {
        #[command(flatten)]
        common: CommonArgs,
    },
    /// The process that undoes a placement when its tool has ended
    #[command(hide = true)]
    Guard {
        #[arg(long, value_name = "FILE")]
        journal: PathBuf,
        #[arg(long, value_name = "NUMBER")]
        descriptor: i32,
    },
}

#[derive(Debug, Args)]
struct CommonArgs {
    /// The folder of the journals; by default /run/hitm for root, hitm in XDG_RUNTIME_DIR for others
    #[arg(long, value_name = "FOLDER")]
    journals: Option<PathBuf>,
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The lock and its threads.
#[derive(Debug, Args)]
struct WishArgs {
    /// Share of its time for which a thread holds the lock: the lock keeps ceil(1 / U) CPUs busy
    #[arg(long, value_name = "U")]
    lock_share: f64,
    #[command(flatten)]
    tasks: TasksArgs,
    /// A name for the lock, for people
    #[arg(long, value_name = "TEXT", default_value = "a lock")]
    name: String,
    /// The means to use: cpuset-v2, cpuset-v1 or affinity; by default the first one that can be undone here
    #[arg(long, value_name = "NAME", value_parser = backend)]
    backend: Option<Backend>,
    /// Keep other threads off these CPUs meanwhile: by a partition of cgroup version 2 everybody, by a cpuset of
    /// version 1 those of the same cpuset
    #[arg(long)]
    keep_others_out: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct TasksArgs {
    /// These threads
    #[arg(long, value_name = "TID,...", value_delimiter = ',')]
    tids: Vec<u32>,
    /// All threads of a process, and those that it makes meanwhile
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// All threads of a cgroup's processes, and those that they make meanwhile; a folder, or its path in a hierarchy
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
}

fn backend(name: &str) -> Result<Backend, String> {
    let names = Backend::ALL.map(Backend::name).join(", ");
    Backend::parse(name).ok_or_else(|| format!("expected one of {names}"))
}

pub(super) fn run(args: PlaceArgs, terminal: &mut Terminal) -> Result<Exit> {
    match args.command {
        Command::Plan { wish, common } => plan(&wish, &common, terminal),
        Command::Apply(args) => apply::run(&args, terminal),
        Command::Undo { common } => undo(&common, terminal),
        Command::Status { common } => status(&common, terminal),
        Command::Guard {
            journal,
            descriptor,
        } => {
            place::guard(&Linux, &journal, descriptor)?;
            Ok(Exit::Done)
        }
    }
}

/// The journals of this user; `None` when there are none and none are to be made.
fn store(common: &CommonArgs, makes: bool) -> Result<Option<Store>> {
    let folder = match &common.journals {
        Some(folder) => std::path::absolute(folder)?,
        None if makes => hitm::place::journal_folder()?,
        // Where no journal can be, there is none.
        None => match hitm::place::journal_folder() {
            Ok(folder) => folder,
            Err(_) => return Ok(None),
        },
    };
    Ok(Store::open(&folder, makes)?)
}

/// Undoes what the dead left behind, and says so.
fn recover(place: &Place<'_>, terminal: &mut Terminal) -> Result<Recovered> {
    let recovered = place.recover()?;
    for note in text::recovered(&recovered) {
        terminal.note(&note);
    }
    Ok(recovered)
}

/// A plan of what was asked for, where other placements have theirs.
fn planned(wish: &WishArgs, mounts: &Mounts, recovered: &Recovered) -> Result<Plan> {
    let machine = hitm::place::host()?;
    let (contention, options) = contention(wish, mounts)?;
    let rest = (&options, &recovered.reserved);
    Ok(Plan::new(&Linux, (mounts, &machine), &contention, rest)?)
}

fn contention(wish: &WishArgs, mounts: &Mounts) -> Result<(Contention, PlanOptions)> {
    let tasks = match (&wish.tasks.pid, &wish.tasks.cgroup) {
        (Some(pid), _) => tasks_of_process(&Linux, *pid)?,
        (None, Some(cgroup)) => tasks_of_cgroup(&Linux, mounts, cgroup)?,
        (None, None) => {
            let tids = wish.tasks.tids.iter();
            tids.map(|tid| task_of(&Linux, *tid))
                .collect::<Result<_, _>>()?
        }
    };
    let contention = Contention {
        share: wish.lock_share,
        tasks,
        name: wish.name.clone(),
    };
    let options = PlanOptions {
        is_whole: wish.tasks.tids.is_empty(),
        backend: wish.backend,
        keeps_others_out: wish.keep_others_out,
    };
    Ok((contention, options))
}

fn plan(wish: &WishArgs, common: &CommonArgs, terminal: &mut Terminal) -> Result<Exit> {
    let mounts = Mounts::read(&Linux)?;
    let recovered = match store(common, false)? {
        Some(store) => recover(&here(&mounts, &store), terminal)?,
        None => Recovered::default(),
    };
    let plan = planned(wish, &mounts, &recovered)?;
    match common.format {
        Format::Text => terminal.out(&text::plan(&plan))?,
        Format::Json => terminal.json(&json::text(&json::plan(&plan)))?,
    }
    // A plan that cannot be carried out is shown first.
    plan.placement()?;
    Ok(Exit::Done)
}

fn here<'a>(mounts: &'a Mounts, store: &'a Store) -> Place<'a> {
    Place {
        system: &Linux,
        mounts,
        store,
    }
}

fn undo(common: &CommonArgs, terminal: &mut Terminal) -> Result<Exit> {
    let mounts = Mounts::read(&Linux)?;
    let Some(store) = store(common, false)? else {
        return say_undone(&[], common.format, terminal);
    };
    let place = here(&mounts, &store);
    let recovered = recover(&place, terminal)?;
    let problems = text::problems(&recovered);
    let mut undone: Vec<String> = recovered.undone.into_iter().map(|(name, _)| name).collect();
    for status in place.status()? {
        if status.has_tool || status.has_guard {
            place.undo(&status)?;
            undone.push(status.journal.head.name);
        }
    }
    if let Some(problem) = problems.first() {
        bail!("{problem}");
    }
    say_undone(&undone, common.format, terminal)
}

fn say_undone(names: &[String], format: Format, terminal: &mut Terminal) -> Result<Exit> {
    match format {
        Format::Text => terminal.out(&text::undone_all(names))?,
        Format::Json => terminal.json(&json::text(&json::undone_all(names)))?,
    }
    Ok(Exit::Done)
}

fn status(common: &CommonArgs, terminal: &mut Terminal) -> Result<Exit> {
    let mounts = Mounts::read(&Linux)?;
    let all = match store(common, false)? {
        Some(store) => {
            let place = here(&mounts, &store);
            recover(&place, terminal)?;
            place.status()?
        }
        None => Vec::new(),
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let name_of = |pid: u32| {
        let name = Linux.read(&PathBuf::from(format!("/proc/{pid}/comm")));
        name.unwrap_or_default().trim_end_matches('\n').to_owned()
    };
    match common.format {
        Format::Text => terminal.out(&text::status(&all, now, &name_of))?,
        Format::Json => terminal.json(&json::text(&json::status(&all)))?,
    }
    Ok(Exit::Done)
}
