//! The loader of all objects, with the kernel's types.
//!
//! aya's loader reads and parses the kernel's types when it is made, and gives them to nobody. So a process has one
//! loader, and the types a second time, for programs that are attached by type.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use aya::{Btf, BtfError, Ebpf, EbpfError, EbpfLoader};

use crate::error::{capable, chain};
use crate::object::Constant;
use crate::throttle::cpus;
use crate::{Error, Unavailable};

/// Tables with a row for each CPU.
const TABLES_OF_CPUS: [&str; 2] = ["cpus", "queues"];

static LOADER: Mutex<Option<Loader>> = Mutex::new(None);

/// Loads objects.
pub(crate) struct Loader {
    loader: EbpfLoader<'static>,
    types: Arc<Btf>,
}

impl Loader {
    /// Passes this process's loader to `work`.
    ///
    /// # Errors
    /// The kernel does not describe its types; those of `work`.
    pub(crate) fn with<T>(work: impl FnOnce(&mut Loader) -> Result<T, Error>) -> Result<T, Error> {
        // A panic elsewhere leaves a loader that works.
        let mut loader = LOADER.lock().unwrap_or_else(PoisonError::into_inner);
        let loader = match &mut *loader {
            Some(loader) => loader,
            none => none.insert(Loader::new()?),
        };
        work(loader)
    }

    fn new() -> Result<Loader, Error> {
        let types = Btf::from_sys_fs().map_err(|error| without_types(&error))?;
        let mut loader = EbpfLoader::new();
        // State that the kernel keeps with each task is a map that programs alone use.
        loader.allow_unsupported_maps();
        for table in TABLES_OF_CPUS {
            loader.map_max_entries(table, cpus());
        }
        Ok(Loader {
            loader,
            types: Arc::new(types),
        })
    }

    /// The kernel's types.
    pub(crate) fn types(&self) -> Arc<Btf> {
        self.types.clone()
    }

    /// Creates the tables of `image`, and prepares its programs for this kernel.
    ///
    /// The loader keeps what it was told. Constants are facts of this host, which are the same for each object, or those
    /// of a filter, which each object that has one sets anew.
    pub(crate) fn load(&mut self, image: &[u8], constants: &[Constant]) -> Result<Ebpf, Error> {
        // The loader borrows them for as long as it lives. A process opens a handful of objects.
        let constants = constants
            .iter()
            .map(|(name, bytes)| (*name, &*bytes.clone().leak()));
        let constants: Vec<(&str, &[u8])> = constants.collect();
        for (name, bytes) in &constants {
            self.loader.override_global(name, *bytes, true);
        }
        let loaded = self.loader.load(image);
        for (name, bytes) in constants {
            self.loader.override_global(name, bytes, false);
        }
        loaded.map_err(|error| unusable(&error))
    }
}

fn without_types(error: &BtfError) -> Error {
    Error::Unavailable(Unavailable::NoTypes(chain(error)))
}

fn unusable(error: &EbpfError) -> Error {
    let text = chain(error);
    let is_denied = source_is(error, io::ErrorKind::PermissionDenied);
    Error::Unavailable(match is_denied && !capable() {
        true => Unavailable::Denied,
        false => Unavailable::Refused(text),
    })
}

/// True when `error` was caused by a system error of this kind.
fn source_is(error: &(dyn std::error::Error + 'static), kind: io::ErrorKind) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == kind)
        {
            return true;
        }
        next = error.source();
    }
    false
}
