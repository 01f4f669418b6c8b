//! The sentences of advice, summaries and explanations, each in one place, with the quantities that go into it.
//!
//! Who rewords one edits it here and the golden of all of them.

pub(crate) mod compare;
pub(crate) mod explain;
pub(crate) mod fix;
pub(crate) mod java;
pub(crate) mod layout;
pub(crate) mod line;
pub(crate) mod summary;

/// Declares sentences: functions of what goes into them, and in tests a list of all, with the names of those in
/// their places.
macro_rules! sentences {
    ($($(#[doc = $doc:literal])+ $name:ident($($part:ident),*) = $text:literal;)*) => {
        $(
            $(#[doc = $doc])+
            pub(crate) fn $name($($part: impl std::fmt::Display),*) -> String {
                format!($text)
            }
        )*

        #[cfg(test)]
        pub(super) const ALL: &[(&str, fn() -> String)] = &[
            $((stringify!($name), || $name($(concat!("<", stringify!($part), ">")),*)),)*
        ];
    };
}

pub(crate) use sentences;

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    #[test]
    fn all_sentences_in_their_places() {
        let mut text = String::new();
        for (of, all) in [
            ("line", super::line::ALL),
            ("java", super::java::ALL),
            ("layout", super::layout::ALL),
            ("summary", super::summary::ALL),
            ("explain", super::explain::ALL),
            ("fix", super::fix::ALL),
            ("compare", super::compare::ALL),
        ] {
            text += &format!("{of}\n");
            for (name, sentence) in all {
                text += &format!("  {name}: {}\n", sentence());
            }
        }
        expect_file!["../tests/golden/sentences.txt"].assert_eq(&text);
    }
}
