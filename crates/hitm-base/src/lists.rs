//! Macros that declare enums together with the list of their items.

/// Declares an enum with the word for each item, as files and the command line have it.
///
/// ```
/// hitm_base::words! {
///     /// Parts of a day.
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub enum Part {
///         /// Before noon.
///         Morning = "morning",
///         /// After noon.
///         Evening = "evening",
///     }
/// }
///
/// assert_eq!(Part::ALL, [Part::Morning, Part::Evening]);
/// assert_eq!(Part::Evening.id(), "evening");
/// assert_eq!(Part::WORDS[0], ("morning", Part::Morning));
/// ```
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$of_item:meta])+ $item:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$of_item])+ $item,)+
        }

        impl $type {
            /// All of them, in their order.
            pub const ALL: [$type; [$($type::$item),+].len()] = [$($type::$item),+];

            /// All of them, each behind its word.
            pub const WORDS: [(&'static str, $type); $type::ALL.len()] = [$(($word, $type::$item)),+];

            /// The word for it.
            pub const fn id(self) -> &'static str {
                match self {
                    $($type::$item => $word,)+
                }
            }
        }
    };
}

/// Declares an enum whose items are numbered from 0 on, for tables with a place for each.
///
/// ```
/// hitm_base::numbered! {
///     /// Parts of a day.
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub enum Part {
///         /// Before noon.
///         Morning,
///         /// After noon.
///         Evening,
///     }
/// }
///
/// assert_eq!(Part::COUNT, 2);
/// assert_eq!(Part::ALL[Part::Evening as usize], Part::Evening);
/// ```
#[macro_export]
macro_rules! numbered {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$of_item:meta])+ $item:ident,)+ }) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$of_item])+ $item,)+
        }

        impl $type {
            /// Their number.
            pub const COUNT: usize = [$($type::$item),+].len();

            /// All of them, each at the place of its number.
            pub const ALL: [$type; $type::COUNT] = [$($type::$item),+];
        }
    };
}

/// The item that a word stands for.
pub fn of_word<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    let found = words.iter().find(|(known, _)| *known == word);
    found.map(|(_, item)| *item)
}
