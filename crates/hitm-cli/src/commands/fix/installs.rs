//! Headers that a build installs, by the words of its files: Makefiles, CMake's and meson's.
//!
//! Names in variables are followed by one step: `HEADERS = a.h`, then `install $(HEADERS) DIR`.

/// Installing words, in lower case.
const INSTALLS: [&str; 4] = ["install", "include_headers", "public_header", "file_set"];

/// The line, from 1, of a build file's text that installs the header `name`.
pub(super) fn line_of(text: &str, name: &str) -> Option<usize> {
    let statements = statements(text);
    let named: Vec<&str> = statements
        .iter()
        .filter(|statement| statement.names(name))
        .filter_map(Statement::variable)
        .collect();
    let found = statements.iter().find(|statement| {
        let lists = named.iter().any(|variable| statement.uses(variable));
        statement.is_install() && (statement.names(name) || lists)
    });
    found.map(|statement| statement.line)
}

/// Lines that belong together: by a backslash at their ends, or by round brackets.
struct Statement {
    line: usize,
    text: String,
}

impl Statement {
    fn is_install(&self) -> bool {
        let text = self.text.to_lowercase();
        INSTALLS.iter().any(|word| text.contains(word))
    }

    /// File names, without quotes and folders.
    fn names(&self, name: &str) -> bool {
        let is_name = |word: &str| {
            let own = word.rsplit('/').next().unwrap_or(word);
            let ending = own.strip_prefix('*');
            own == name || ending.is_some_and(|ending| !ending.is_empty() && name.ends_with(ending))
        };
        self.words().any(is_name)
    }

    fn uses(&self, variable: &str) -> bool {
        self.words().any(|word| word == variable)
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.text
            .split(|character: char| !(character.is_alphanumeric() || "_-+.*/".contains(character)))
            .filter(|word| !word.is_empty())
    }

    /// The variable that it sets: `NAME = ...`, `NAME += ...` and `set(NAME ...)`.
    fn variable(&self) -> Option<&str> {
        let text = self.text.trim_start();
        let set = text.strip_prefix("set").map(str::trim_start);
        if let Some(list) = set.and_then(|rest| rest.strip_prefix('(')) {
            return list.split_whitespace().next();
        }
        let (name, _) = text.split_once('=')?;
        let name = name.trim_end_matches([':', '+', '?']).trim();
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        (!name.is_empty() && name.chars().all(is_word)).then_some(name)
    }
}

fn statements(text: &str) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
    // Brackets that are open, within a statement of so many lines.
    let (mut depth, mut goes_on) = (0_usize, false);
    for (line, number) in text.lines().zip(1..) {
        let plain = line.split('#').next().unwrap_or_default();
        match statements.last_mut().filter(|_| goes_on || depth > 0) {
            Some(statement) => {
                statement.text.push(' ');
                statement.text += plain;
            }
            None => statements.push(Statement {
                line: number,
                text: plain.to_owned(),
            }),
        }
        goes_on = plain.ends_with('\\');
        for character in plain.chars() {
            depth = match character {
                '(' => depth + 1,
                ')' => depth.saturating_sub(1),
                _ => depth,
            };
        }
        // What a shell's `case` leaves open ends with an empty line.
        if plain.trim().is_empty() {
            depth = 0;
        }
    }
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_installed_by_name_by_variables_and_by_patterns() {
        let installs = |text: &str| line_of(text, "ring.h");
        assert_eq!(installs("all:\n\tcc a.c\ninstall:\n\tinstall -m 644 src/ring.h $(DIR)\n"), Some(4));
        assert_eq!(installs("install:\n\tinstall -m 644 a.h \\\n\t\tring.h $(DIR)\n"), Some(2));
        assert_eq!(installs("PUBLIC := a.h ring.h\ninstall: all\n\tcp $(X) y\n\tinstall $(PUBLIC) d\n"), Some(4));
        assert_eq!(installs("install:\n\tinstall *.h $(DIR)\n"), Some(2));
        assert_eq!(installs("include_HEADERS = a.h ring.h\n"), Some(1));
        assert_eq!(installs("set(HEADERS\n  a.h\n  ring.h)\ninstall(FILES ${HEADERS}\n  DESTINATION include)\n"), Some(4));
        assert_eq!(installs("install(\n  FILES a.h ring.h # both\n  DESTINATION include)\n"), Some(1));
        assert_eq!(installs("headers = files('a.h', 'ring.h')\ninstall_headers(headers)\n"), Some(2));
        assert_eq!(installs("install_headers(\n  'ring.h',\n)\n"), Some(1));
    }

    #[test]
    fn other_headers_are_not() {
        let installs = |text: &str| line_of(text, "ring.h");
        assert_eq!(installs("install:\n\tinstall string.h d\n\tinstall a.c d\n# install ring.h\n"), None);
        assert_eq!(installs("OWN = ring.h\nPUBLIC = a.h\ninstall:\n\tinstall $(PUBLIC) d\n"), None);
        assert_eq!(installs("a.o: a.c ring.h\n\tcc -c a.c\ninstall: a\n\tinstall a d\n"), None);
    }
}
