//! An rt-app file as a scenario names it.

use std::rc::Rc;

use hitm_base::Topology;

use super::{FIGURES, Running};
use crate::engine::SimError;
use crate::scenario::ScenarioError;
use crate::scenario::products::Product;
use crate::scenario::start::Start;
use crate::workload::WorkloadKind;
use crate::workload::figures::Figures;
use crate::workload::keys::Table;
use crate::workload::kind::{Kind, Program};

/// An rt-app file, by its path from the scenario's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RtAppFile(pub String);

pub(in crate::workload) const KIND: Kind = Kind {
    name: "rt-app",
    default_name: "rt_app",
    read,
    figures: &[FIGURES],
    ends: true,
    needed: r#"
file = "a.json"
"#,
    optional: "",
};

fn read(table: &Table<'_, '_, '_>) -> Result<WorkloadKind, ScenarioError> {
    let file = table.required_words("file")?;
    Ok(WorkloadKind::RtApp(RtAppFile(file)))
}

impl Program for RtAppFile {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn start(&self, start: &Start<'_>) -> Result<Rc<dyn Figures>, SimError> {
        let (app, groups) = (start.rt_app(), start.group_paths());
        Ok(Running::spawn(start.kernel, app, groups, start.has_end())?)
    }

    /// None: files have a limit of their own.
    fn tasks(&self, _topology: &Topology) -> Product {
        Product::new("file", &[("", 0)])
    }
}
