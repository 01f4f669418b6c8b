//! Errors of the facade as one exception, with the place where there is one.

use std::error::Error;

use hitm::sim;
use hitm::sweep;
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    _hitm,
    HitmError,
    PyValueError,
    "Bad input or a host that lacks something; `file`, `line`, `column` and `key` say where, or are None."
);

/// A place in a file.
#[derive(Default)]
struct Place {
    file: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    key: Option<String>,
}

/// Makes the exception of an error, with its causes in one line.
pub(crate) fn raise(error: &(dyn Error + 'static)) -> PyErr {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.ends_with(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    let place = place(error);
    let exception = HitmError::new_err(message);
    let placed = Python::attach(|py| {
        let value = exception.value(py);
        value.setattr("file", place.file)?;
        value.setattr("line", place.line)?;
        value.setattr("column", place.column)?;
        value.setattr("key", place.key)
    });
    placed.err().unwrap_or(exception)
}

fn place(error: &(dyn Error + 'static)) -> Place {
    if let Some(sim::Error::Scenario(error)) = error.downcast_ref() {
        return Place {
            file: Some(error.origin.clone()),
            line: error.place.map(|place| place.line),
            column: error.place.map(|place| place.column),
            key: Some(error.key.clone()),
        };
    }
    match error.downcast_ref() {
        Some(sweep::Error::Plan(error)) => Place {
            file: Some(error.origin.clone()),
            line: Some(error.place.line),
            column: Some(error.place.column),
            key: Some(error.key.clone()),
        },
        Some(sweep::Error::Named {
            origin,
            line,
            column,
            key,
            ..
        }) => Place {
            file: Some(origin.clone()),
            line: Some(*line),
            column: Some(*column),
            key: Some(key.clone()),
        },
        _ => Place::default(),
    }
}
