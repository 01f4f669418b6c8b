//! The private module `_hitm` of the Python package `hitm`: the facade's functions, results as JSON
//! text and tables as Arrow. The package in `python/hitm` gives them types and names.
//!
//! Long work runs on a thread of its own without the interpreter's lock; Ctrl-C ends it.

mod error;
mod interrupt;
mod reports;
mod simulate;
mod sweep;
mod table;

use pyo3::prelude::*;

/// hitm, for Python.
#[pymodule]
mod _hitm {
    #[pymodule_export]
    use crate::error::HitmError;
    #[pymodule_export]
    use crate::simulate::simulate;
    #[pymodule_export]
    use crate::sweep::{PySweep, read_table};
    #[pymodule_export]
    use crate::table::Table;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let error = module.py().get_type::<HitmError>();
        for place in ["file", "line", "column", "key"] {
            error.setattr(place, module.py().None())?;
        }
        crate::reports::add(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
