//! Names of types in C's syntax, where what is declared stands in the middle: `void (*)(int)` is the
//! name of a type, `void (*func)(int)` declares something of it.

/// A type's name, and the place in it where the name of what has that type goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypeName {
    /// The name without anything declared.
    pub(crate) text: String,
    /// Bytes of `text` that stand before what is declared.
    pub(crate) slot: usize,
}

impl<T: Into<String>> From<T> for TypeName {
    /// A name after which what is declared stands.
    fn from(text: T) -> TypeName {
        let text = text.into();
        let slot = text.len();
        TypeName { text, slot }
    }
}

/// A type's name while it is composed from the outside in: `int (*)[4]` is a pointer, to an array,
/// of `int`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declarator {
    before: String,
    after: String,
    /// True if what was put last binds less than what follows a name: a pointer does.
    is_loose: bool,
}

impl Declarator {
    /// It is a pointer (`*`) or reference (`&`, `&&`).
    pub(crate) fn pointer(&mut self, sign: &str) {
        self.before.insert_str(0, sign);
        self.is_loose = true;
    }

    /// It is a qualified pointer: `const` of `* const p`.
    pub(crate) fn qualifier(&mut self, word: &str) {
        let gap = if self.before.is_empty() { "" } else { " " };
        self.before.insert_str(0, &format!(" {word}{gap}"));
    }

    /// It is an array; `dimension` has the brackets.
    pub(crate) fn array(&mut self, dimension: &str) {
        self.bind();
        self.after.push_str(dimension);
    }

    /// It is a function.
    pub(crate) fn function(&mut self, parameters: &str) {
        self.bind();
        self.after.push('(');
        self.after.push_str(parameters);
        self.after.push(')');
    }

    /// Returns true if nothing was put around the name yet.
    fn is_plain(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }

    /// The whole, of what is named `base`.
    pub(crate) fn finish(self, base: &str) -> TypeName {
        let gap = if self.is_plain() || self.before.starts_with(' ') {
            ""
        } else {
            " "
        };
        let head = format!("{base}{gap}{}", self.before);
        TypeName {
            slot: head.len(),
            text: head + &self.after,
        }
    }

    fn bind(&mut self) {
        if std::mem::take(&mut self.is_loose) {
            self.before.insert(0, '(');
            self.after.push(')');
        }
    }
}

/// Declares `name` to be of the type called `text`, with what is declared at `slot`.
pub(super) fn declare(text: &str, slot: usize, name: &str) -> String {
    let (before, after) = text.split_at(slot);
    let is_joined = before.ends_with(['*', '&', '(', ' ']) || before.is_empty() || name.is_empty();
    let gap = if is_joined { "" } else { " " };
    format!("{before}{gap}{name}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the name of a type, and a declaration of `x` of that type.
    fn check(build: impl FnOnce(&mut Declarator), name: &str, declaration: &str) {
        let mut declarator = Declarator::default();
        build(&mut declarator);
        let found = declarator.finish("int");
        assert_eq!(found.text, name);
        assert_eq!(declare(&found.text, found.slot, "x"), declaration);
    }

    #[test]
    fn declarations_are_what_c_means() {
        check(|_| {}, "int", "int x");
        check(|d| d.pointer("*"), "int *", "int *x");
        check(
            |d| {
                d.qualifier("const");
                d.pointer("*");
                d.pointer("*");
            },
            "int ** const",
            "int ** const x",
        );
        check(
            |d| {
                d.pointer("*");
                d.array("[4]");
            },
            "int (*)[4]",
            "int (*x)[4]",
        );
        check(
            |d| {
                d.array("[4]");
                d.pointer("*");
                d.function("long, char");
                d.pointer("*");
            },
            "int *(*[4])(long, char)",
            "int *(*x[4])(long, char)",
        );
    }
}
