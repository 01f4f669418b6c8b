//! `written!` declares a type and its bytes, `records!` the kinds of records.

/// Declares a struct of members, or an enum of alternatives, and how it is written.
///
/// Each member has a meaning, a type and, behind `=>`, its form ([`crate::form`]). A member that a later
/// version added says which one, and its value in files before it.
macro_rules! written {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(checked by $check:path)? {
            $(
                $(#[doc = $doc:literal])+
                $member_vis:vis $member:ident: $type:ty => $form:expr
                    $(, since $since:literal or $default:expr)?;
            )+
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $doc])+ $member_vis $member: $type,)+
        }

        impl $crate::form::Written for $name {
            fn put(&self, out: &mut Vec<u8>) -> Result<(), $crate::EncodeError> {
                $($crate::form::Form::<$type>::put(&$form, &self.$member, out)?;)+
                Ok(())
            }

            fn take(cursor: &mut $crate::wire::Cursor<'_>) -> Result<$name, $crate::form::Stop> {
                $(let $member = written!(@take cursor, $type, $form $(, $default)?);)+
                let whole = $name { $($member),+ };
                $($check(&whole)?;)?
                Ok(whole)
            }

            fn shape() -> $crate::shape::Shape {
                $crate::shape::Shape::Parts(vec![$(
                    written!(@member $member, $type, $form, [$($doc)+], [$($since)?])
                ),+])
            }

            fn time(&self) -> Option<hitm_base::Cycles> {
                None$(.or_else(|| {
                    $crate::form::Form::<$type>::time(&$form, &self.$member)
                }))+
            }
        }
    };

    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident by $tag:expr; {
            $(
                $(#[doc = $doc:literal])+
                $number:literal $variant:ident $({ $(
                    $(#[doc = $member_doc:literal])+
                    $member:ident: $type:ty => $form:expr;
                )+ })? $(since $since:literal)?,
            )+
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[doc = $doc])+ $variant $({ $($(#[doc = $member_doc])+ $member: $type,)+ })?,)+
        }

        impl $crate::form::Written for $name {
            fn put(&self, out: &mut Vec<u8>) -> Result<(), $crate::EncodeError> {
                match self {
                    $($name::$variant { $($($member),+)? } => {
                        $tag.put($number, out);
                        $($($crate::form::Form::<$type>::put(&$form, $member, out)?;)+)?
                    })+
                }
                Ok(())
            }

            fn take(cursor: &mut $crate::wire::Cursor<'_>) -> Result<$name, $crate::form::Stop> {
                Ok(match $tag.take(cursor)? {
                    $($number => $name::$variant {
                        $($($member: $crate::form::Form::<$type>::take(&$form, cursor)?),+)?
                    },)+
                    found => return Err($tag.unknown(found)),
                })
            }

            fn shape() -> $crate::shape::Shape {
                $tag.shape(vec![$($crate::shape::Choice {
                    number: $number,
                    doc: concat!($($doc),+),
                    since: written!(@since $($since)?),
                    members: vec![$($(
                        written!(@member $member, $type, $form, [$($member_doc)+], [])
                    ),+)?],
                }),+])
            }
        }
    };

    (@take $cursor:ident, $type:ty, $form:expr) => {
        $crate::form::Form::<$type>::take(&$form, $cursor)?
    };
    (@take $cursor:ident, $type:ty, $form:expr, $default:expr) => {
        match $cursor.is_at_end() {
            true => $default,
            false => $crate::form::Form::<$type>::take(&$form, $cursor)?,
        }
    };

    (@member $name:ident, $type:ty, $form:expr, [$($doc:literal)+], [$($since:literal)?]) => {
        $crate::shape::Member {
            name: stringify!($name),
            doc: concat!($($doc),+),
            since: written!(@since $($since)?),
            shape: $crate::form::Form::<$type>::shape(&$form),
        }
    };

    (@since) => { 0 };
    (@since $since:literal) => { $since };
}

/// Declares [`Record`](crate::Record): what has an encoding of its own under `apart`; all other kinds with
/// their number, name, type and form; under `beside`, the numbers of kinds that refer to others in their block.
macro_rules! records {
    (
        $(#[$meta:meta])*
        pub enum Record {
            apart { $($apart:tt)+ }
            $(
                $(#[doc = $doc:literal])+
                $number:literal $title:literal $variant:ident($type:ty) => $form:expr
                    $(, since $since:literal)?;
            )+
        }
        beside {
            $(
                $(#[doc = $beside_doc:literal])+
                $beside:literal $beside_title:literal $name:ident => $shape:expr, since $beside_since:literal;
            )+
        }
    ) => {
        $(#[$meta])*
        pub enum Record {
            $($apart)+
            $($(#[doc = $doc])+ $variant($type),)+
        }

        $($(#[doc = $beside_doc])+ pub(crate) const $name: u8 = $beside;)+

        impl Record {
            /// Virtual time of the record, if it carries one.
            pub fn time(&self) -> Option<Cycles> {
                match self {
                    Record::Access { access, .. } => Some(access.time),
                    Record::Callers(_) => None,
                    $(Record::$variant(record) => Form::<$type>::time(&$form, record),)+
                }
            }

            /// Appends the payload and returns the kind; refuses what no recording may hold. Panics on
            /// what has an encoding of its own.
            pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<u8, EncodeError> {
                match self {
                    Record::Access { .. } => panic!("accesses are encoded by push_access"),
                    Record::Callers(_) => panic!("callers are encoded by push_callers"),
                    $(Record::$variant(record) => {
                        Form::<$type>::put(&$form, record, out)?;
                        Ok($number)
                    })+
                }
            }

            /// The record of this kind with this payload; [`Stop::Later`] for kinds that this version does
            /// not know.
            #[inline(never)]
            pub(crate) fn take(kind: u8, payload: &[u8]) -> Result<Record, Stop> {
                let cursor = &mut Cursor::new(payload);
                match kind {
                    0 => Err(Stop::Fault(DecodeFault::Reserved {
                        field: "record kind",
                        found: kind,
                    })),
                    $($number => Form::<$type>::take(&$form, cursor).map(Record::$variant),)+
                    _ => Err(Stop::Later),
                }
            }

            /// All kinds of records but the access, by number.
            pub fn kinds() -> Vec<Kind> {
                let mut kinds = vec![
                    $(Kind {
                        number: $number,
                        title: $title,
                        doc: concat!($($doc),+),
                        since: written!(@since $($since)?),
                        payload: Form::<$type>::shape(&$form),
                    },)+
                    $(Kind {
                        number: $beside,
                        title: $beside_title,
                        doc: concat!($($beside_doc),+),
                        since: $beside_since,
                        payload: $shape,
                    },)+
                ];
                kinds.sort_by_key(|kind| kind.number);
                kinds
            }
        }
    };
}

pub(crate) use {records, written};
