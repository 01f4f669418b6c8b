//! Paths of members: `a[3].m.b`.

/// The part of a path that follows a member.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Behind<'p> {
    /// Elements of the arrays that lead to the member, by step: `[3]` or nothing.
    elements: Vec<&'p str>,
    /// `[2].x` or nothing.
    pub(super) rest: &'p str,
}

impl Behind<'_> {
    /// The same part behind another member.
    pub(super) fn put_behind(&self, member: &str) -> String {
        let steps = member.split('.').enumerate();
        let steps =
            steps.map(|(at, step)| format!("{step}{}", self.elements.get(at).unwrap_or(&"")));
        steps.collect::<Vec<_>>().join(".") + self.rest
    }
}

/// Returns the part of `path` behind `member`, whatever elements of arrays it goes through: `.b` of
/// `a[3].m.b` behind `a.m`. None when the path does not begin with the member.
pub(super) fn behind<'p>(path: &'p str, member: &str) -> Option<Behind<'p>> {
    let mut elements = Vec::new();
    let mut rest = path;
    let mut steps = member.split('.').peekable();
    while let Some(step) = steps.next() {
        rest = rest.strip_prefix(step)?;
        let end = rest.find('.').unwrap_or(rest.len());
        let (element, next) = rest.split_at(end);
        if !element.is_empty() && !element.starts_with('[') {
            return None;
        }
        if steps.peek().is_none() {
            break;
        }
        elements.push(element);
        rest = next.strip_prefix('.')?;
    }
    Some(Behind { elements, rest })
}

/// A path without elements of arrays: `a.m.b` of `a[3].m.b`.
pub(super) fn without_elements(path: &str) -> String {
    let steps = path.split('.');
    let steps = steps.map(|step| step.split_once('[').map_or(step, |(name, _)| name));
    steps.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_at_the_front_of_a_path() {
        let rest = |path, member| behind(path, member).map(|behind| behind.rest);
        assert_eq!(rest("a", "a"), Some(""));
        assert_eq!(rest("a[2].b", "a"), Some("[2].b"));
        assert_eq!(rest("a[2].b[1].c", "a.b"), Some("[1].c"));
        assert_eq!(rest("ab", "a"), None);
        assert_eq!(rest("a.bc", "a.b"), None);
        assert_eq!(rest("a", "a.b"), None);
    }

    #[test]
    fn a_path_goes_on_behind_another_member() {
        let put = |path, old, new| behind(path, old).map(|behind| behind.put_behind(new));
        assert_eq!(
            put("v[3].hot.x", "v.hot", "v.warm").as_deref(),
            Some("v[3].warm.x")
        );
        assert_eq!(put("key[2]", "key", "word").as_deref(), Some("word[2]"));
        assert_eq!(without_elements("v[3].hot[1].x"), "v.hot.x");
    }
}
