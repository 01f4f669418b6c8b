//! A placement that a view holds: planned, carried out and undone as `hitm place apply` does.

use std::cell::OnceCell;
use std::path::PathBuf;

use anyhow::{Result, bail};
use hitm_live::place::{
    Contention, Decision, Launcher, Linux, Mounts, PlanOptions, Session, Store, Tick,
};

use super::{CommonArgs, apply, here, plan_for, shown, store};
use crate::commands::Format;

/// The kernel's cgroups, the folder of journals and the guard's program: they outlive the placement.
#[derive(Debug)]
pub(in crate::commands) struct Means {
    mounts: Mounts,
    common: CommonArgs,
    /// Opened, and made, when something is placed.
    store: OnceCell<Store>,
    launcher: Launcher,
}

impl Means {
    /// Means with the folder of journals that was asked for, or this user's.
    pub(in crate::commands) fn new(journals: Option<PathBuf>) -> Result<Means> {
        Ok(Means {
            mounts: Mounts::read(&Linux)?,
            common: CommonArgs {
                journals,
                format: Format::Text,
            },
            store: OnceCell::new(),
            launcher: apply::launcher(),
        })
    }

    fn store(&self) -> Result<&Store> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let Some(store) = store(&self.common, true)? else {
            bail!("there is no folder for journals");
        };
        Ok(self.store.get_or_init(|| store))
    }
}

/// At most one placement.
#[derive(Debug)]
pub(in crate::commands) struct Holder<'a> {
    means: &'a Means,
    session: Option<Session<'a>>,
}

impl<'a> Holder<'a> {
    /// Nothing is placed yet.
    pub(in crate::commands) fn new(means: &'a Means) -> Holder<'a> {
        Holder {
            means,
            session: None,
        }
    }

    /// Places the threads of a contention, and returns what was done in one line.
    ///
    /// # Errors
    /// Something is placed already, there is nowhere to place them, or the kernel refuses. Nothing is changed then.
    pub(in crate::commands) fn place(&mut self, contention: &Contention) -> Result<String> {
        if self.session.is_some() {
            bail!("threads are placed already: u undoes that first");
        }
        let means = self.means;
        let place = here(&means.mounts, means.store()?);
        let recovered = place.recover()?;
        let plan = plan_for(contention, PlanOptions::default(), &means.mounts, &recovered)?;
        plan.placement()?;
        if let Decision::Stay(reason) = &plan.decision {
            bail!("nothing is placed: {reason}");
        }
        self.session = Some(place.apply(&plan, &means.launcher)?);
        let mut lines = shown::recovered(&recovered);
        lines.push(shown::placed_line(&plan));
        Ok(lines.join("; "))
    }

    /// Places new threads and sees to the guard; to be called several times a second. Returns the reason when the
    /// placement has ended.
    pub(in crate::commands) fn tick(&mut self) -> Result<Option<String>> {
        let Some(session) = &mut self.session else {
            return Ok(None);
        };
        let ended = match session.tick() {
            Ok(Tick::Placed) => return Ok(None),
            Ok(Tick::NoTasks) => Ok("the placed threads have ended"),
            Ok(Tick::Undone) => Ok("the placement was undone by somebody else"),
            Err(error) => Err(error),
        };
        self.undo()?;
        Ok(Some(ended?.to_owned()))
    }

    /// Undoes the placement, and returns what was done in one line; none where nothing is placed.
    ///
    /// # Errors
    /// A thread could not be put back; the journal stays.
    pub(in crate::commands) fn undo(&mut self) -> Result<Option<String>> {
        let Some(session) = self.session.take() else {
            return Ok(None);
        };
        let Some(undone) = session.undo()? else {
            return Ok(Some("undone by somebody else".to_owned()));
        };
        if !undone.problems.is_empty() {
            bail!("{}", undone.problems.join("; "));
        }
        Ok(Some(format!("undone: {}", shown::undone_line(&undone))))
    }

    /// Returns true while threads are placed.
    pub(in crate::commands) fn is_placed(&self) -> bool {
        self.session.is_some()
    }
}
