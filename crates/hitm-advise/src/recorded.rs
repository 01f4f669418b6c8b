//! Advice for an object of a recording, given by its address: its type is the structure.

use std::path::Path;
use std::sync::Arc;

use hitm_base::LINE_SIZE;
use hitm_layout::advise::Options;
use hitm_layout::layout_file::{FileMember, FileStruct, LayoutFile};
use hitm_recording::{AddressNames, Recording};
use hitm_whatif::{Change, Took, WhatifConfig, WhatifError, trial};

use super::accesses::Accesses;
use super::inner::read_with_inner;
use super::inputs::TypesFiles;
use super::{Answer, Heading, Inputs, Proposal, Session, SessionError, proof};

/// Most steps of a search: a twentieth of a second, where `hitm layout advise` takes up to two.
/// More steps gain a few percent for structures with hundreds of members.
const STEPS_MAX: u64 = 10_000_000;

/// Accesses that are replayed for all structures together: a few seconds of one core.
const REPLAYED_MAX: u64 = 12_000_000;

/// The most layouts of a structure that are replayed.
const TRIED_MAX: u64 = 6;

/// A structure and the layouts that cost less.
#[derive(Debug, Clone)]
pub struct RecordedAdvice {
    /// Its head.
    pub heading: Heading,
    /// The structure as it is.
    pub now: FileStruct,
    /// Better layouts.
    pub answer: Answer,
}

impl RecordedAdvice {
    /// The best layout; none when none is better than the present one.
    pub fn best(&self) -> Option<&Proposal> {
        self.answer.proposals.first()
    }
}

/// Name of the structure that holds the byte at `addr`, and the file that declares it; none where
/// the recording lacks either.
pub fn structure_at(names: &AddressNames<'_>, addr: u64, size: u8) -> Option<Inputs> {
    let (type_name, input) = names.declared(addr, size)?;
    Some(Inputs {
        type_name,
        input,
        ..Inputs::default()
    })
}

/// The same of the structure that is an element of an array in that object.
pub fn element_at(names: &AddressNames<'_>, addr: u64, size: u8) -> Option<Inputs> {
    let (type_name, input) = names.declared_element(addr, size)?;
    Some(Inputs {
        type_name,
        input,
        ..Inputs::default()
    })
}

/// Searches for better layouts of structures, by a recording that was read from `path` for its report. All
/// structures have an answer, in their order. `progress` gets the bytes that are read once more and all there
/// are: only those of a large recording, of which not all rows are known.
pub fn advise_recorded(
    path: &Path,
    mut recording: Recording,
    structures: Vec<Inputs>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Result<RecordedAdvice, SessionError>>, SessionError> {
    recording.add_rows_for_replay(path, progress)?;
    let mut accesses = Accesses::of_recording(path, recording);
    let mut files = TypesFiles::default();
    let inputs = structures.into_iter().map(|structure| Inputs {
        profile: path.to_owned(),
        ..structure
    });
    let inputs: Vec<Inputs> = inputs.collect();
    let answers = read_with_inner(&mut accesses, &inputs, &mut files, progress)?;
    let Some(recording) = accesses.into_recording() else {
        return Ok(Vec::new());
    };
    let recording = Arc::new(recording);
    let count = tried_of_each(&recording, answers.len());
    let answers = answers.into_iter().zip(&inputs);
    let advised = answers.map(|(read, inputs)| {
        let session = Session::on(read?, inputs, Some(recording.clone()), None);
        advise(&session, count, progress)
    });
    Ok(advised.collect())
}

/// Replays a recording with the elements of an array of plain values, `size_bytes` each, on lines of their own.
/// `progress` gets the bytes read so far and in all.
pub fn pad_values(
    path: &Path,
    recording: &Recording,
    variable: &str,
    size_bytes: u8,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Change<Took>, WhatifError> {
    let value = FileMember::plain("value", 0, size_bytes.into());
    let padded = FileStruct {
        name: variable.to_owned(),
        size_bytes: LINE_SIZE,
        align_bytes: Some(LINE_SIZE),
        members: vec![value],
    };
    let config = WhatifConfig {
        input: path.to_owned(),
        layouts: vec![LayoutFile {
            name: "padded".to_owned(),
            description: String::new(),
            source: String::new(),
            structs: vec![padded],
        }],
        instances: Vec::new(),
        machine: None,
        placement: None,
    };
    trial(recording, &config, &[], progress)
}

/// Number of layouts of each structure that are replayed.
fn tried_of_each(recording: &Recording, structures: usize) -> usize {
    let accesses = proof::access_count(recording).saturating_mul(structures as u64);
    (REPLAYED_MAX / accesses.max(1)).min(TRIED_MAX) as usize
}

fn advise(
    session: &Session,
    count: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RecordedAdvice, SessionError> {
    let options = Options {
        seed: 1,
        steps_max: Some(STEPS_MAX),
        ..Options::default()
    };
    let (session, answer) = session.first_better(&options, |session| {
        let advice = session.search(&options, &|_, _| {})?;
        Ok::<_, SessionError>(match count {
            0 => session.estimate(&advice),
            count => session.prove(&advice, Some(count), progress),
        })
    })?;
    let now = session.structure();
    Ok(RecordedAdvice {
        heading: session.advice_heading(),
        now,
        answer,
    })
}
