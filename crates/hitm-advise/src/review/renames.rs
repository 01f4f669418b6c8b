//! Members that have another name in the second build, or are gone there.

use std::str::FromStr;

use super::ReviewError;
use super::sides::{Builds, Side};
use crate::member_path::behind;

/// A member's name in both builds, as a user states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedRename {
    /// Path in the first build, which the type's name may stand before.
    pub old: String,
    /// Path in the second build; none for a member that is gone.
    pub new: Option<String>,
}

impl FromStr for StatedRename {
    type Err = String;

    fn from_str(text: &str) -> Result<StatedRename, String> {
        let (old, new) = text
            .rsplit_once('=')
            .filter(|(old, _)| !old.is_empty())
            .ok_or("expected OLD=NEW, or OLD= for a member that is gone")?;
        Ok(StatedRename {
            old: old.to_owned(),
            new: (!new.is_empty()).then(|| new.to_owned()),
        })
    }
}

impl StatedRename {
    fn text(&self) -> String {
        format!("{}={}", self.old, self.new.as_deref().unwrap_or_default())
    }
}

/// A member that has another name in the second build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    /// Path in the first build.
    pub old: String,
    /// Path in the second build; none for a member that is gone.
    pub new: Option<String>,
    /// True if the user says so; else both have the same place, type and neighbours.
    pub is_stated: bool,
}

/// The renamed members of one type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Renames(pub(super) Vec<Rename>);

impl Renames {
    /// The path in the second build of a path in the first one; none when the member is gone, or when
    /// that name is another member's now.
    pub(super) fn new_path(&self, path: &str) -> Option<String> {
        let known = self.0.iter();
        let known = known.filter_map(|rename| Some((rename, behind(path, &rename.old)?)));
        if let Some((rename, found)) = known.max_by_key(|(rename, _)| rename.old.len()) {
            return Some(found.put_behind(rename.new.as_deref()?));
        }
        let mut targets = self.0.iter().filter_map(|rename| rename.new.as_deref());
        let is_taken = targets.any(|new| behind(path, new).is_some());
        (!is_taken).then(|| path.to_owned())
    }

    /// True if the user says that a path's member is gone.
    pub(super) fn is_gone(&self, path: &str) -> bool {
        let mut gone = self.0.iter().filter(|rename| rename.new.is_none());
        gone.any(|rename| behind(path, &rename.old).is_some())
    }
}

/// Finds the types of stated renames: those of one type, in the order in which they are stated.
pub(super) fn of_type(
    stated: &[StatedRename],
    type_name: &str,
    types: &[String],
    builds: &mut Builds,
) -> Result<Renames, ReviewError> {
    let mut renames: Vec<Rename> = Vec::new();
    for one in stated {
        let Some(old) = path_in(one, type_name, types, &mut builds.old)? else {
            continue;
        };
        let fail = |cause: String| ReviewError::Renamed {
            text: one.text(),
            cause,
        };
        match &one.new {
            Some(new) if !builds.new.has(type_name, new)? => {
                let build = builds.new.name();
                return Err(fail(format!("{build}: {type_name} has no member {new}")));
            }
            // A member with another size may have lost what the profile touches.
            None if builds.new.has(type_name, &old)?
                && builds.new.size_of(type_name, &old)?
                    == builds.old.size_of(type_name, &old)? =>
            {
                let build = builds.new.name();
                return Err(fail(format!("{build}: {type_name} has a member {old}")));
            }
            _ => {}
        }
        let mut known = renames.iter();
        let is_twice =
            |known: &Rename| known.old == old || (known.new.is_some() && known.new == one.new);
        if let Some(known) = known.find(|known| is_twice(known)) {
            let new = known.new.as_deref().unwrap_or_default();
            return Err(fail(format!(
                "expected each member once, found --renamed {}={new} too",
                known.old
            )));
        }
        renames.push(Rename {
            old,
            new: one.new.clone(),
            is_stated: true,
        });
    }
    Ok(Renames(renames))
}

/// Returns the path of a stated rename in the first build's `type_name`; none when it is of another
/// type. Fails when it may be of several.
fn path_in(
    stated: &StatedRename,
    type_name: &str,
    types: &[String],
    old: &mut Side,
) -> Result<Option<String>, ReviewError> {
    let behind_type = |name: &str| {
        let path = stated.old.strip_prefix(name)?.strip_prefix('.')?;
        Some(path.to_owned())
    };
    if let Some(path) = behind_type(type_name)
        && old.has(type_name, &path)?
    {
        return Ok(Some(path));
    }
    if !old.has(type_name, &stated.old)? {
        return Ok(None);
    }
    for other in types.iter().filter(|other| *other != type_name) {
        if behind_type(other).is_some() {
            return Ok(None);
        }
        if old.has(other, &stated.old)? {
            return Err(ReviewError::Renamed {
                text: stated.text(),
                cause: format!(
                    "{other} and {type_name} have a member {}: expected the type before it, such as \
                     {type_name}.{}",
                    stated.old,
                    stated.text()
                ),
            });
        }
    }
    Ok(Some(stated.old.clone()))
}

/// Fails when no type has the member of a stated rename.
pub(super) fn check_used(
    stated: &[StatedRename],
    types: &[String],
    old: &mut Side,
) -> Result<(), ReviewError> {
    for one in stated {
        let mut is_used = false;
        for name in types {
            let path = one.old.strip_prefix(name.as_str());
            let path = path.and_then(|path| path.strip_prefix('.'));
            is_used |= old.has(name, &one.old)?;
            is_used |= path.map_or(Ok(false), |path| old.has(name, path))?;
        }
        if !is_used {
            return Err(ReviewError::Renamed {
                text: one.text(),
                cause: format!("{}: no reviewed type has a member {}", old.name(), one.old),
            });
        }
    }
    Ok(())
}
