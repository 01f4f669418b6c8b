//! The macro that declares quantities.

/// Declares a struct together with the quantities that are reported of it, or a table of quantities of a type that
/// exists.
///
/// ```text
/// fields! {
///     /// Meaning of the struct.
///     #[derive(Debug)]
///     pub struct Line in line {                        // the struct, and the name of its fields
///         /// Meaning, for readers of the code and of the format alike.
///         pub lost_cycles: u64 => cycles "lost";       // a member that is reported, its kind and title
///         pub nodes: Vec<Node> => words "nodes", |line| texts(&line.nodes);  // reported in another form
///         pub rows: Vec<Row>;                          // a member that is not
///         name => name "object", |line| line.name();   // worked out
///         pub seed: u64 => recorded number "seed";     // samples do not have it
///         ..Counts: hitm_count, load_count "reads";    // fields of everything that has counts
///     }
/// }
/// fields! {
///     /// Meaning of the table.
///     pub source for SourceCounts { ... }
/// }
/// fields! {
///     /// Meaning of the table, whose fields others take over.
///     pub Counts for T: Counted { ... }
/// }
/// ```
///
/// Each field is a constant: `line::lost_cycles`, whose name is its id; `line::ALL` has them in
/// order. A field without an expression has its member's value. Kinds: `count`, `cycles`, `share`, `bytes`, `offset`,
/// `address`, `khz`, `nanos`, `decimal`; `number`, a plain number; `label`, short words; `words` and `name`, which
/// narrow tables shorten. `recorded` or `sampled` before the kind is for fields of such runs only; `known` is for texts
/// that are none when they are empty.
#[macro_export]
macro_rules! fields {
    (
        $(#[$meta:meta])*
        $vis:vis struct $type:ident in $table:ident { $($body:tt)* }
    ) => {
        $crate::fields!(@parse
            (struct $(#[$meta])* $vis $type) ($vis $table $type, concat!("Fields of a [`", stringify!($type), "`].")) () () $($body)*
        );
    };
    (
        #[doc = $doc:literal]
        $vis:vis $table:ident for $item:ident: $bound:path { $($body:tt)* }
    ) => {
        $crate::fields!(@parse (table) ($vis $table $item: $bound, $doc) () () $($body)*);
    };
    (
        #[doc = $doc:literal]
        $vis:vis $table:ident for $type:ty { $($body:tt)* }
    ) => {
        $crate::fields!(@parse (table) ($vis $table $type, $doc) () () $($body)*);
    };

    // Nothing is left: the struct and its fields, or the fields alone.
    (@parse
        (struct $(#[$meta:meta])* $vis:vis $type:ident) $table:tt ($($member:tt)*) ($($field:tt)*)
    ) => {
        $(#[$meta])*
        $vis struct $type { $($member)* }
        $crate::fields!(@table $table $($field)*);
    };
    (@parse (table) $table:tt () ($($field:tt)*)) => {
        $crate::fields!(@table $table $($field)*);
    };

    // Fields of everything that has something in common.
    (@parse $head:tt $table:tt $members:tt ($($field:tt)*)
        ..$from:ident: $($id:ident $($title:literal)?),+; $($rest:tt)*
    ) => {
        $crate::fields!(@parse $head $table $members
            ($($field)* $({ from $from; $id $($title)? })+) $($rest)*);
    };
    // A member that is reported, in its own form and in another one.
    (@parse $head:tt $table:tt ($($member:tt)*) ($($field:tt)*)
        $(#[doc = $doc:literal])+ $vis:vis $id:ident: $type:ty => $($kind:ident)+ $title:literal; $($rest:tt)*
    ) => {
        $crate::fields!(@parse $head $table
            ($($member)* $(#[doc = $doc])+ $vis $id: $type,)
            ($($field)* { ($($doc)+) $id ($($kind)+) $title, |item| &item.$id }) $($rest)*);
    };
    (@parse $head:tt $table:tt ($($member:tt)*) ($($field:tt)*)
        $(#[doc = $doc:literal])+ $vis:vis $id:ident: $type:ty
            => $($kind:ident)+ $title:literal, |$item:ident| $value:expr; $($rest:tt)*
    ) => {
        $crate::fields!(@parse $head $table
            ($($member)* $(#[doc = $doc])+ $vis $id: $type,)
            ($($field)* { ($($doc)+) $id ($($kind)+) $title, |$item| $value }) $($rest)*);
    };
    // A member that is not.
    (@parse $head:tt $table:tt ($($member:tt)*) $fields:tt
        $(#[doc = $doc:literal])+ $vis:vis $id:ident: $type:ty; $($rest:tt)*
    ) => {
        $crate::fields!(@parse $head $table
            ($($member)* $(#[doc = $doc])+ $vis $id: $type,) $fields $($rest)*);
    };
    // A field that is no member of this struct, or whose struct is declared elsewhere.
    (@parse $head:tt $table:tt $members:tt ($($field:tt)*)
        $(#[doc = $doc:literal])+ $id:ident => $($kind:ident)+ $title:literal, |$item:ident| $value:expr; $($rest:tt)*
    ) => {
        $crate::fields!(@parse $head $table $members
            ($($field)* { ($($doc)+) $id ($($kind)+) $title, |$item| $value }) $($rest)*);
    };
    (@parse $head:tt $table:tt $members:tt ($($field:tt)*)
        $(#[doc = $doc:literal])+ $id:ident => $($kind:ident)+ $title:literal; $($rest:tt)*
    ) => {
        $crate::fields!(@parse $head $table $members
            ($($field)* { ($($doc)+) $id ($($kind)+) $title, |item| &item.$id }) $($rest)*);
    };

    (@parse $head:tt $table:tt $members:tt $fields:tt $($rest:tt)+) => {
        compile_error!(concat!("expected a member or field with its meaning: ", stringify!($($rest)+)));
    };

    (@table ($vis:vis $table:ident $item:ident: $bound:path, $doc:expr) $($field:tt)*) => {
        #[doc = $doc]
        #[derive(Debug)]
        $vis struct $table<$item>(std::marker::PhantomData<$item>);

        #[allow(non_upper_case_globals, reason = "a field has the name of its key in JSON")]
        impl<$item: $bound> $table<$item> {
            $($crate::fields!(@constant $vis $item, $field);)*
        }
    };
    (@table ($vis:vis $table:ident $type:ty, $doc:expr) $($field:tt)*) => {
        #[doc = $doc]
        #[allow(non_camel_case_types, reason = "it stands before fields as a module would")]
        #[derive(Debug)]
        $vis enum $table {}

        #[allow(non_upper_case_globals, reason = "a field has the name of its key in JSON")]
        impl $table {
            $($crate::fields!(@constant $vis $type, $field);)*

            /// All of them, in the order of JSON.
            #[allow(dead_code, reason = "some tables are used field by field")]
            $vis const ALL: &'static [$crate::Field<$type>] = &[$($crate::fields!(@name $field)),*];
        }
    };
    (@constant $vis:vis $type:ty, { from $from:ident; $id:ident $($title:literal)? }) => {
        #[doc = concat!("One of `", stringify!($from), "`.")]
        $vis const $id: $crate::Field<$type> = $from::<$type>::$id$(.titled($title))?;
    };
    (@constant $vis:vis $type:ty, { ($($doc:literal)+) $id:ident ($($kind:ident)+) $title:literal, |$item:ident| $value:expr }) => {
        $(#[doc = $doc])+
        $vis const $id: $crate::Field<$type> = $crate::fields!(@runs ($($kind)+) (
            stringify!($id),
            $title,
            concat!($($doc),+),
            |$item: &$type| $crate::fields!(@value ($($kind)+) $value),
        ));
    };
    (@name { from $from:ident; $id:ident $($title:literal)? }) => { Self::$id };
    (@name { $doc:tt $id:ident $($rest:tt)* }) => { Self::$id };

    (@runs (recorded $($kind:ident)+) $field:tt) => {
        $crate::fields!(@runs ($($kind)+) $field).only($crate::Runs::Recorded)
    };
    (@runs (sampled $($kind:ident)+) $field:tt) => {
        $crate::fields!(@runs ($($kind)+) $field).only($crate::Runs::Sampled)
    };
    (@runs (known $kind:ident) $field:tt) => { $crate::fields!(@runs ($kind) $field) };
    (@runs ($kind:ident) ($id:expr, $title:expr, $doc:expr, $value:expr,)) => {
        $crate::Field::new($id, $title, $crate::fields!(@kind $kind), $doc, $value)
    };
    (@value (recorded $($kind:ident)+) $value:expr) => { $crate::fields!(@value ($($kind)+) $value) };
    (@value (sampled $($kind:ident)+) $value:expr) => { $crate::fields!(@value ($($kind)+) $value) };
    (@value (known $kind:ident) $value:expr) => { $crate::Value::text_or_missing(&$value) };
    (@value ($kind:ident) $value:expr) => { $crate::Reported::value(&$value) };

    (@kind count) => { $crate::Kind::new($crate::Unit::Count, $crate::Align::Right) };
    (@kind cycles) => { $crate::Kind::new($crate::Unit::Cycles, $crate::Align::Right) };
    (@kind share) => { $crate::Kind::new($crate::Unit::Share, $crate::Align::Right) };
    (@kind bytes) => { $crate::Kind::new($crate::Unit::Bytes, $crate::Align::Right) };
    (@kind offset) => { $crate::Kind::new($crate::Unit::Offset, $crate::Align::Right) };
    (@kind address) => { $crate::Kind::new($crate::Unit::Address, $crate::Align::Right) };
    (@kind khz) => { $crate::Kind::new($crate::Unit::Kilohertz, $crate::Align::Right) };
    (@kind nanos) => { $crate::Kind::new($crate::Unit::Nanos, $crate::Align::Right) };
    (@kind decimal) => { $crate::Kind::new($crate::Unit::Decimal, $crate::Align::Right) };
    (@kind number) => { $crate::Kind::new($crate::Unit::None, $crate::Align::Right) };
    (@kind label) => { $crate::Kind::new($crate::Unit::None, $crate::Align::Left) };
    (@kind words) => { $crate::Kind::new($crate::Unit::None, $crate::Align::Words) };
    (@kind name) => { $crate::Kind::new($crate::Unit::None, $crate::Align::Name) };
}

#[cfg(test)]
mod tests {
    use crate::{Runs, Value};

    /// Anything that has a count.
    trait Counted {
        fn count(&self) -> u64;
    }

    fields! {
        /// The fields of everything that has a count.
        Counts for T: Counted {
            /// Number of them.
            hitm_count => count "HITM", |item| item.count();
        }
    }

    fields! {
        /// A line.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct Line in line {
            /// Cycles that threads lost
            /// in two lines of words.
            pub(crate) lost_cycles: u64 => recorded cycles "lost";
            /// Place where it lies.
            addr: [u64; 1] => address "line", |line| line.addr[0];
            /// Its threads.
            threads: Vec<String>;
            /// Number of threads, if any.
            thread_count => count "threads", |line| (!line.threads.is_empty()).then_some(line.threads.len());
            ..Counts: hitm_count "found HITM";
            /// Its place, if known.
            place: String => sampled known label "place";
        }
    }

    impl Counted for Line {
        fn count(&self) -> u64 {
            7
        }
    }

    fields! {
        /// Of an address.
        addr for std::ops::Range<u64> {
            /// First byte.
            start => address "from";
            /// True if there is none.
            is_empty => label "empty", |range| range.is_empty();
            /// A word of Rust.
            r#type => label "type", |_range| "addresses";
        }
    }

    #[test]
    fn fields_have_the_names_meanings_and_values_of_their_declarations() {
        let one = Line {
            lost_cycles: 1_234_567,
            addr: [0x40],
            threads: Vec::new(),
            place: String::new(),
        };
        let ids: Vec<&str> = line::ALL.iter().map(|field| field.id).collect();
        assert_eq!(
            ids,
            ["lost_cycles", "addr", "thread_count", "hitm_count", "place"]
        );
        assert_eq!(
            line::lost_cycles.description(),
            "Cycles that threads lost in two lines of words"
        );
        assert_eq!(
            (line::lost_cycles.of, line::addr.of),
            (Runs::Recorded, Runs::All)
        );
        assert!(!line::lost_cycles.is_of(true) && line::addr.is_of(true));
        let texts: Vec<String> = line::ALL.iter().map(|field| field.text(&one)).collect();
        assert_eq!(texts, ["1,234,567", "0x40", "-", "7", "-"]);
        assert_eq!(line::hitm_count.title, "found HITM");
        assert_eq!(line::lost_cycles.cell(&one), "1.235M");
        assert_eq!((line::thread_count.value)(&one), Value::Missing);
        assert_eq!((addr::is_empty.value)(&(3..3)), Value::Flag(true));
        assert_eq!(addr::start.text(&(3..3)), "0x3");
        assert_eq!(addr::r#type.id, "type");
    }
}
