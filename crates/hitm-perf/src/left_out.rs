//! Counts of what could not be used, by reason.

/// Declares a structure of counts, each with the words that follow its number.
macro_rules! left_out {
    ($(#[$of:meta])* $name:ident: $($(#[$doc:meta])+ $reason:ident, $words:literal;)+) => {
        $(#[$of])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$doc])+ pub $reason: u64,)+
        }

        impl $name {
            /// Each count that is not zero, in words.
            pub fn describe(&self) -> Vec<String> {
                let counts = [$((self.$reason, $words)),+];
                let seen = counts.into_iter().filter(|(count, _)| *count > 0);
                seen.map(|(count, words)| format!("{count} {words}"))
                    .collect()
            }
        }
    };
}

pub(crate) use left_out;
