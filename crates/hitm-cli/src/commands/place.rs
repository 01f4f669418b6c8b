//! `hitm place`.

mod apply;
mod hold;
mod watch;
mod wish;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use hitm_live::place;
use hitm_live::place::{
    Contention, Linux, Mounts, Place, Plan, PlanOptions, Recovered, Store, System as _,
};
use hitm_report::place as shown;
pub(super) use hold::{Holder, Means};
use wish::WishArgs;

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
    /// Place the threads until a signal, --for, or their end, and put them back then; with --prove the exit code is 1
    /// if the placement does not help
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
    /// The folder of the journals; by default /run/hitm for root, hitm in XDG_RUNTIME_DIR for others, and of status and
    /// undo all that this user has chosen
    #[arg(long, value_name = "FOLDER")]
    journals: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
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
    let store = Store::open(&folder, makes)?;
    Ok(store.map(|store| store.within(hitm::place::registry())))
}

/// The folder that was asked for, or all of this user's.
fn stores(common: &CommonArgs) -> Result<Vec<Store>> {
    let registry = hitm::place::registry();
    let (None, Some(registry)) = (&common.journals, registry) else {
        return Ok(store(common, false)?.into_iter().collect());
    };
    let mut stores = Vec::new();
    for folder in registry.own_folders() {
        let store = Store::open(&folder, false)?;
        stores.extend(store.map(|store| store.within(Some(registry.clone()))));
    }
    Ok(stores)
}

/// Undoes what the dead left behind, and says so.
fn recover(place: &Place<'_>, terminal: &mut Terminal) -> Result<Recovered> {
    let recovered = place.recover()?;
    for note in shown::recovered(&recovered) {
        terminal.note(&note);
    }
    Ok(recovered)
}

/// Undoes what dead placements left behind in a folder of journals, or in this user's, and says so. A command that
/// places nothing works without.
pub(super) fn recover_at_start(journals: Option<&PathBuf>, terminal: &mut Terminal) {
    let common = CommonArgs {
        journals: journals.cloned(),
        format: Format::Text,
    };
    let mut recovered = || -> Result<()> {
        let Some(store) = store(&common, false)? else {
            return Ok(());
        };
        let mounts = Mounts::read(&Linux)?;
        recover(&here(&mounts, &store), terminal)?;
        Ok(())
    };
    if let Err(error) = recovered() {
        terminal.note(&format!("placements were not looked for: {error:#}"));
    }
}

/// A plan of what was asked for, where other placements have theirs.
fn planned(wish: &WishArgs, mounts: &Mounts, recovered: &Recovered) -> Result<Plan> {
    let (contention, options) = wish.contention(mounts)?;
    plan_for(&contention, options, mounts, recovered)
}

/// A plan for the threads of a contention, where other placements have theirs.
fn plan_for(
    contention: &Contention,
    options: PlanOptions,
    mounts: &Mounts,
    recovered: &Recovered,
) -> Result<Plan> {
    let machine = hitm::place::host()?;
    let options = PlanOptions {
        reserved: recovered.reserved.clone(),
        ..options
    };
    Ok(Plan::new(&Linux, mounts, &machine, contention, &options)?)
}

fn plan(wish: &WishArgs, common: &CommonArgs, terminal: &mut Terminal) -> Result<Exit> {
    let mounts = Mounts::read(&Linux)?;
    let recovered = match store(common, false)? {
        Some(store) => recover(&here(&mounts, &store), terminal)?,
        None => Recovered::default(),
    };
    let plan = planned(wish, &mounts, &recovered)?;
    match common.format {
        Format::Text => terminal.out(&shown::plan(&plan))?,
        Format::Json => terminal.json(&shown::plan_json(&plan))?,
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
    let (mut problems, mut undone) = (Vec::new(), Vec::new());
    for store in stores(common)? {
        let place = here(&mounts, &store);
        let recovered = recover(&place, terminal)?;
        problems.extend(shown::problems(&recovered));
        undone.extend(recovered.undone.into_iter().map(|(name, _)| name));
        for status in place.status()? {
            if status.has_tool || status.has_guard {
                place.undo(&status)?;
                undone.push(status.journal.head.name);
            }
        }
    }
    if let Some(problem) = problems.first() {
        bail!("{problem}");
    }
    say_undone(&undone, common.format, terminal)
}

fn say_undone(names: &[String], format: Format, terminal: &mut Terminal) -> Result<Exit> {
    match format {
        Format::Text => terminal.out(&shown::undone_all(names))?,
        Format::Json => terminal.json(&shown::undone_json(names))?,
    }
    Ok(Exit::Done)
}

fn status(common: &CommonArgs, terminal: &mut Terminal) -> Result<Exit> {
    let mounts = Mounts::read(&Linux)?;
    let mut all = Vec::new();
    for store in stores(common)? {
        let place = here(&mounts, &store);
        recover(&place, terminal)?;
        all.extend(place.status()?);
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let name_of = |pid: u32| {
        let name = Linux.read(&PathBuf::from(format!("/proc/{pid}/comm")));
        name.unwrap_or_default().trim_end_matches('\n').to_owned()
    };
    match common.format {
        Format::Text => terminal.out(&shown::status(&all, now, &name_of))?,
        Format::Json => terminal.json(&shown::status_json(&all))?,
    }
    Ok(Exit::Done)
}
