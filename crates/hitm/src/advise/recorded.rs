//! Advice for an object of a recording, given by its address: its type is the structure.

use std::path::Path;

use hitm_layout::advise::{Advice, Candidate, Options};
use hitm_layout::layout_file::FileStruct;
use serde_json::{Value, json};

use super::accesses::Accesses;
use super::inputs::{Asked, TypesFiles};
use super::text::{difference_text, members_json};
use super::{Inputs, Session, SessionError, advice_json};
use crate::recording::{AddressNames, Recording};

/// Most steps of a search: a twentieth of a second, where `hitm layout advise` takes up to two.
/// More steps gain a few percent for structures with hundreds of members.
const STEPS_MAX: u64 = 10_000_000;

/// A structure and the layouts that cost less.
#[derive(Debug, Clone)]
pub struct RecordedAdvice {
    /// The structure as it is.
    pub now: FileStruct,
    /// Better layouts.
    pub advice: Advice,
    json: Value,
}

impl RecordedAdvice {
    /// The cheapest layout; none when none is better than the present one.
    pub fn best(&self) -> Option<&Candidate> {
        self.advice.candidates.last()
    }

    /// Advice in the format of docs/formats/advice.md, with the present members under `now`.
    pub fn json(&self) -> &Value {
        &self.json
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
    let asked = inputs.map(|inputs| Asked::new(inputs, &mut files));
    let asked = asked.collect();
    let answers = accesses.answer(asked, progress)?.into_iter();
    Ok(answers.map(|read| advise(&Session::of(read?))).collect())
}

fn advise(session: &Session) -> Result<RecordedAdvice, SessionError> {
    let options = Options {
        seed: 1,
        steps_max: Some(STEPS_MAX),
        ..Options::default()
    };
    let advice = session.advise(&options, &|_, _| {})?;
    let now = session.structure();
    let mut json = advice_json(&session.heading(), &advice, &session.demand()?, &[]);
    json["now"] = json!({ "size_bytes": now.size_bytes, "members": members_json(&now) });
    for (index, candidate) in advice.candidates.iter().enumerate() {
        let json = &mut json["candidates"][index];
        json["size_bytes"] = json!(candidate.layout.size_bytes);
        json["words"] = json!(difference_text(&advice.original, &candidate.weighed));
    }
    Ok(RecordedAdvice { now, advice, json })
}
