//! Diagnostics of files that names come from, as text.

use hitm_layout::Diagnostic;

/// Diagnostics as text, what is said of three files or more once for all of them.
pub(super) fn by_message(diagnostics: &[Diagnostic]) -> Vec<String> {
    const NAMED_MAX: usize = 3;
    let mut by_message: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in diagnostics {
        match by_message
            .iter_mut()
            .find(|(message, _)| *message == one.message)
        {
            Some((_, files)) => files.push(&one.file),
            None => by_message.push((&one.message, vec![&one.file])),
        }
    }
    let texts = by_message.into_iter().flat_map(|(message, files)| {
        if files.len() < NAMED_MAX {
            let each = files.iter().map(|file| format!("{file}: {message}"));
            return each.collect::<Vec<_>>();
        }
        let names = files
            .iter()
            .map(|file| file.rsplit('/').next().unwrap_or(file));
        let named: Vec<&str> = names.take(NAMED_MAX).collect();
        let more = match files.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        vec![format!("{}{more}: {message}", named.join(", "))]
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_many_files_is_said_once() {
        let of = |file: &str, message: &str| Diagnostic {
            file: file.to_owned(),
            message: message.to_owned(),
        };
        let few = [
            of("/lib/a.so", "stripped"),
            of("/lib/b.so", "stripped"),
            of("/bin/p", "gone"),
        ];
        let each = ["/lib/a.so: stripped", "/lib/b.so: stripped", "/bin/p: gone"];
        assert_eq!(by_message(&few), each);
        let many = ["/lib/a.so", "/bin/p", "/lib/b.so", "/lib/c.so", "/lib/d.so"];
        let many = many.map(|file| of(file, if file == "/bin/p" { "gone" } else { "stripped" }));
        let once = ["a.so, b.so, c.so and 1 more: stripped", "/bin/p: gone"];
        assert_eq!(by_message(&many), once);
    }
}
