//! A structure of Rust as its file declares it.

use super::diff::{indent_of, line_start};
use super::tokens::{Span, Tokens};
use super::{Emission, EmitError};

/// The declaration of a structure with named fields. Tokens are given by index.
#[derive(Debug)]
pub(super) struct Fields {
    /// The first token behind the attributes: `pub` or `struct`.
    pub(super) head: usize,
    /// Attributes, from `#` to behind `]`.
    pub(super) attributes: Vec<(usize, usize)>,
    open: usize,
    pub(super) close: usize,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    /// Token of the name.
    at: usize,
    /// Bytes of the field: comments above, attributes, declaration.
    span: (usize, usize),
    /// Bytes of the comment beside it, behind the comma.
    beside: (usize, usize),
}

/// Finds the declaration of the structure `name`.
pub(super) fn fields_of(tokens: &Tokens<'_>, name: &str) -> Result<Fields, EmitError> {
    let is_head = |at: &usize| tokens.at(*at) == "struct" && tokens.at(at + 1) == name;
    let mut heads = (0..tokens.len()).filter(is_head);
    let Some(head) = heads.next() else {
        let expected = format!("the declaration of struct {name}, not by a macro");
        return Err(tokens.refuse(0, "no declaration of it", &expected));
    };
    if let Some(second) = heads.next() {
        let found = format!("another struct {name}");
        return Err(tokens.refuse(second, &found, "one structure of that name in the file"));
    }
    let mut open = head + 2;
    while open < tokens.len() && !matches!(tokens.at(open), "{" | ";" | "(") {
        let angle = (tokens.at(open) == "<").then(|| tokens.close_angle(open, tokens.len()));
        open = angle.flatten().unwrap_or(open) + 1;
    }
    let close = tokens.close(open);
    if tokens.at(open) != "{" || close == open {
        return Err(tokens.refuse(head, "no named fields", "a structure with named fields"));
    }
    let mut start = head;
    while tokens.at(start.wrapping_sub(1)) == "pub" || tokens.before(start) == ")" {
        start = tokens.open(start - 1);
    }
    let mut fields = Fields {
        attributes: attributes(tokens, start),
        head: start,
        open,
        close,
        fields: Vec::new(),
    };
    fields.read(tokens)?;
    Ok(fields)
}

/// The attributes that end before `at`, first to last.
pub(super) fn attributes(tokens: &Tokens<'_>, mut at: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    while tokens.before(at) == "]" {
        let open = tokens.open(at - 1);
        if tokens.before(open) != "#" {
            break;
        }
        found.push((open - 1, at));
        at = open - 1;
    }
    found.reverse();
    found
}

impl Fields {
    fn read(&mut self, tokens: &Tokens<'_>) -> Result<(), EmitError> {
        let text = tokens.text;
        let mut start = tokens.get(self.open).end;
        for Span { from, end } in tokens.split(self.open + 1, self.close) {
            let mut at = from;
            while tokens.at(at) == "#" {
                at = tokens.close(at + 1) + 1;
            }
            if tokens.at(at) == "pub" {
                at += 1;
                if tokens.at(at) == "(" {
                    at = tokens.close(at) + 1;
                }
            }
            if tokens.at(at + 1) != ":" || at + 2 > end {
                let expected = "a field: a name, a colon and a type";
                return Err(tokens.refuse(at, tokens.at(at), expected));
            }
            let name = tokens.at(at);
            let own_end = tokens.get(end - 1).end;
            // Behind the comma, what is on the same line belongs to this field.
            let (comma, next) = match tokens.at(end) {
                "," => (tokens.get(end).end, end + 1),
                _ => (own_end, end),
            };
            let line = text[comma..].find('\n');
            let line = line.map_or(text.len(), |length| comma + length);
            let next = match next < tokens.len() {
                true => tokens.get(next).start,
                false => text.len(),
            };
            let behind = if next < line { comma } else { line };
            self.fields.push(Field {
                name: name.strip_prefix("r#").unwrap_or(name).to_owned(),
                at,
                span: (start, own_end),
                beside: (comma, behind),
            });
            start = behind;
        }
        Ok(())
    }

    /// The field of each of the subject's members.
    pub(super) fn by_member(
        &self,
        tokens: &Tokens<'_>,
        emission: &Emission<'_>,
    ) -> Result<Vec<usize>, EmitError> {
        let members = &emission.subject.members;
        for field in &self.fields {
            if !members.iter().any(|member| member.file.name == field.name) {
                let found = format!("the field {}", field.name);
                let expected = "only fields that the debug information has";
                return Err(tokens.refuse(field.at, &found, expected));
            }
        }
        let find = |name: &str| self.fields.iter().position(|field| field.name == name);
        let found = members.iter().map(|member| {
            find(&member.file.name).ok_or_else(|| {
                let found = format!("no field {}", member.file.name);
                let expected = "each field that the debug information has";
                tokens.refuse(self.open, &found, expected)
            })
        });
        found.collect()
    }

    /// A field as it stands, with its comments and a comma.
    pub(super) fn text(&self, tokens: &Tokens<'_>, index: usize) -> String {
        let field = &self.fields[index];
        let own = tokens.text[field.span.0..field.span.1].trim_start_matches(['\n', '\r']);
        let is_indented =
            own.starts_with([' ', '\t']) && tokens.text[..field.span.0].len() < field.span.1;
        let starts_line = tokens.text[field.span.0..]
            .trim_start_matches([' ', '\t'])
            .starts_with(['\n', '\r']);
        let own = match is_indented && starts_line {
            true => own.to_owned(),
            false => format!("    {}", own.trim_start()),
        };
        let beside = tokens.text[field.beside.0..field.beside.1].trim_end();
        format!("{own},{beside}")
    }

    /// Bytes of a field's type.
    pub(super) fn type_span(&self, tokens: &Tokens<'_>, index: usize) -> (usize, usize) {
        let field = &self.fields[index];
        (tokens.get(field.at + 2).start, field.span.1)
    }

    /// Bytes between the braces.
    pub(super) fn span(&self, tokens: &Tokens<'_>) -> (usize, usize) {
        (tokens.get(self.open).end, tokens.get(self.close).start)
    }

    /// Text before the structure on its line.
    pub(super) fn indent<'t>(&self, tokens: &Tokens<'t>) -> &'t str {
        let start = tokens.get(self.head).start;
        indent_of(&tokens.text[line_start(tokens.text, start)..start])
    }

    /// The attribute that derives one of these traits.
    pub(super) fn derives(&self, tokens: &Tokens<'_>, traits: &[&str]) -> Option<usize> {
        let derives = |(from, end): &&(usize, usize)| {
            let has = (*from..*end).any(|at| traits.contains(&tokens.at(at)));
            (*from..*end).any(|at| tokens.at(at) == "derive") && has
        };
        self.attributes
            .iter()
            .find(derives)
            .map(|attribute| attribute.0)
    }

    /// Returns true if the token is in the declaration.
    pub(super) const fn has(&self, at: usize) -> bool {
        self.head <= at && at <= self.close
    }
}
