//! The macro that declares things with names.

/// Declares an enum with the word for each item, as files and the command line have it.
///
/// ```
/// hitm_fields::words! {
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
            pub const ALL: &'static [$type] = &[$($type::$item),+];

            /// The word for it.
            pub const fn id(self) -> &'static str {
                match self {
                    $($type::$item => $word,)+
                }
            }
        }
    };
}
