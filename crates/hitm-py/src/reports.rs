//! `hitm.report`, `hitm.whatif`, `hitm.layout` and `hitm.machine`.

use std::path::{Path, PathBuf};

use hitm_advise::types_files::{self, TypesError};
use hitm_layout::structs::{self, ListOptions, ShowOptions};
use hitm_recording::Recording;
use hitm_recording::perf_data;
use hitm_report::fields::{
    Column, Unit, Value, layout_member, line, row, thread, whatif_line, whatif_member,
    whatif_object, whatif_run, whatif_thread,
};
use hitm_report::whatif::{WhatifOptions, WhatifView};
use hitm_report::{Report, ReportOptions, Selection, json};
use hitm_weave::Placement;
use hitm_whatif::{HeapInstances, WhatifConfig};
use pyo3::prelude::*;

use crate::error::{HitmError, raise};
use crate::interrupt::{Cancel, detached};
use crate::table::{Table, columns, values};

/// Adds the functions to the module; the package's `__init__.py` gives them names and types.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(report, module)?,
        wrap_pyfunction!(whatif, module)?,
        wrap_pyfunction!(layout, module)?,
        wrap_pyfunction!(layout_list, module)?,
        wrap_pyfunction!(machine, module)?,
        wrap_pyfunction!(machines, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}

/// Reads a recording or perf.data; returns the report's JSON (docs/formats/report.md) and its lines,
/// their rows and the threads as tables.
#[pyfunction]
#[pyo3(signature = (path, *, top = 20))]
fn report(py: Python<'_>, path: PathBuf, top: usize) -> PyResult<(String, Table, Table, Table)> {
    if hitm::live::is_live(&path) {
        let text = format!(
            "{}: a live recording has no report of lines",
            path.display()
        );
        return Err(HitmError::new_err(text));
    }
    let recording = detached(py, |cancel| load(&path, cancel), |_| Ok(()))??;
    let options = ReportOptions {
        lines_max: top,
        rows_max: ReportOptions::ROWS_MAX_DEFAULT,
        call_paths_max: ReportOptions::CALL_PATHS_MAX_DEFAULT,
    };
    let report = py.detach(|| Report::of_selection(&recording, &options, &Selection::default()));
    let mut facts = columns(&[line::rank]);
    facts.extend(columns(row::ALL));
    let mut rows = Vec::new();
    for line in &report.lines {
        for row in &line.rows {
            let mut cells = values(&[line::rank], line);
            cells.extend(values(row::ALL, row));
            rows.push(cells);
        }
    }
    Ok((
        json::render(&report),
        Table::of_fields(line::ALL, &report.lines),
        Table::of_rows(facts, rows),
        Table::of_fields(thread::ALL, &report.threads),
    ))
}

fn load(path: &Path, cancel: &Cancel) -> PyResult<Recording> {
    let mut progress = |_: u64, _: u64| cancel.check();
    if perf_data::sample_format(path).is_some() {
        let recording = perf_data::load(path, None, &mut progress);
        return recording.map_err(|error| raise(&error));
    }
    let mut recording =
        Recording::load_contended(path, &mut progress).map_err(|error| raise(&error))?;
    if recording.header.sampled.is_some() {
        perf_data::name_kernel(&mut recording, None).map_err(|error| raise(&error))?;
    }
    Ok(recording)
}

/// Runs, lines, threads, members and objects of a replay.
type WhatifTables = (Table, Table, Table, Table, Table);

/// Runs a recording again; returns the JSON of docs/formats/whatif.md and its lists as tables.
#[pyfunction]
#[pyo3(signature = (path, *, layouts, instances, machine = None, threads_to = None, top = 20))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
fn whatif(
    py: Python<'_>,
    path: PathBuf,
    layouts: Vec<PathBuf>,
    instances: Vec<String>,
    machine: Option<String>,
    threads_to: Option<String>,
    top: usize,
) -> PyResult<(String, WhatifTables)> {
    let layouts: Result<Vec<_>, _> = layouts
        .iter()
        .map(|path| hitm_whatif::read_layout(path))
        .collect();
    let instances: Result<Vec<HeapInstances>, _> =
        instances.iter().map(|text| text.parse()).collect();
    let placement: Option<Result<Placement, _>> = threads_to.map(|text| text.parse());
    let machine = machine.map(|name| hitm_machine::resolve(&name));
    let config = WhatifConfig {
        input: path,
        layouts: layouts.map_err(|error| raise(&error))?,
        instances: instances.map_err(|error| HitmError::new_err(error.to_string()))?,
        machine: machine
            .transpose()
            .map_err(|error| raise(&error))?
            .map(|(machine, _)| machine),
        placement: placement.transpose().map_err(|error| raise(&error))?,
    };
    let work = |cancel: &Cancel| hitm_whatif::run(&config, &mut |_, _| cancel.check());
    let report = detached(py, work, |_| Ok(()))?.map_err(|error| raise(&error))?;
    let options = WhatifOptions {
        lines_max: top,
        iterations: None,
    };
    let view = WhatifView::new(report, &options);
    Ok((json::whatif::render(&view), whatif_tables(&view)))
}

fn whatif_tables(view: &WhatifView) -> WhatifTables {
    let mut facts = vec![Column {
        id: "run",
        title: "run",
        unit: Unit::None,
        description: "before (as recorded) or after (as replayed)",
    }];
    facts.extend(columns(whatif_run::ALL));
    let runs = [("before", &view.run.before), ("after", &view.run.after)];
    let runs = runs.map(|(name, run)| {
        let mut row = vec![Value::Text(name.to_owned())];
        row.extend(values(whatif_run::ALL, run));
        row
    });
    (
        Table::of_rows(facts, runs.into()),
        Table::of_fields(whatif_line::ALL, &view.report.lines),
        Table::of_fields(whatif_thread::ALL, &view.threads),
        Table::of_fields(whatif_member::ALL, &view.report.members),
        Table::of_fields(whatif_object::ALL, &view.report.objects),
    )
}

/// A structure in cache lines, as the JSON of docs/formats/layout.md, and its members as a table; of
/// the running kernel where no file is given.
#[pyfunction]
#[pyo3(signature = (name, *, file = None, expand = false, line_size = 64))]
fn layout(
    py: Python<'_>,
    name: &str,
    file: Option<PathBuf>,
    expand: bool,
    line_size: u64,
) -> PyResult<(String, Table)> {
    if !structs::is_line_size(line_size) {
        let text = format!("line_size: found {line_size}, expected a power of two from 8 to 65536");
        return Err(HitmError::new_err(text));
    }
    let options = ShowOptions { line_size, expand };
    let shown = py.detach(|| {
        let mut file = types_files::open(file.as_deref(), None)?;
        let json = hitm_report::layouts::show_json(&mut file, name, &options)?;
        let members = structs::member_rows(&mut file, name, &options)?;
        Ok::<_, TypesError>((json, members))
    });
    let (json, members) = shown.map_err(|error| raise(&error))?;
    Ok((json, Table::of_fields(layout_member::ALL, &members)))
}

/// Names of the structures of a file that match a pattern.
#[pyfunction]
#[pyo3(signature = (pattern = None, *, file = None))]
fn layout_list(
    py: Python<'_>,
    pattern: Option<String>,
    file: Option<PathBuf>,
) -> PyResult<Vec<String>> {
    let listed = py.detach(|| {
        let mut file = types_files::open(file.as_deref(), None)?;
        let options = ListOptions {
            line_size: ShowOptions::LINE_SIZE_DEFAULT,
            holes_over: None,
            lines_over: None,
            straddling: false,
            pattern,
        };
        let list = structs::list(&mut file, &options);
        Ok::<_, TypesError>(list)
    });
    let list = listed.map_err(|error| raise(&error))?;
    Ok(list.structs.into_iter().map(|row| row.name).collect())
}

/// A machine model, as the JSON of docs/formats/machine.md.
#[pyfunction]
fn machine(py: Python<'_>, name: &str) -> PyResult<String> {
    let shown = py.detach(|| {
        let file = hitm_machine::load(name)?;
        hitm_report::machine_file::show_json(&file).map_err(hitm_machine::Error::from)
    });
    shown.map_err(|error| raise(&error))
}

/// Names of the machine models that come with hitm.
#[pyfunction]
fn machines() -> PyResult<Vec<String>> {
    let list = hitm_machine::list().map_err(|error| raise(&error))?;
    Ok(list.into_iter().map(|machine| machine.name).collect())
}
