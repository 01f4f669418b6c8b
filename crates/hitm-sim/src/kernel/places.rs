//! Structures of places in simulated memory: each member stands once, with its path in the layout.

/// Declares a structure of the places of some members of an object, and of lists of other places. A member marked
/// `: Opaque` has no modelled content.
macro_rules! places {
    ($(#[$of_type:meta])* $type:ident { $($member:ident $(: $kind:ident)? = $path:literal,)* }
     with { $($(#[$of_list:meta])* $list:ident $(: $of:ident)?,)* }) => {
        $(#[$of_type])*
        pub(in crate::kernel) struct $type {
            $(pub(in crate::kernel) $member: places!(@type $($kind)?),)*
            $($(#[$of_list])* pub(in crate::kernel) $list: Vec<places!(@type $($of)?)>,)*
        }

        impl $type {
            fn within(
                arena: &mut $crate::engine::Arena,
                object: &$crate::engine::Object,
                $($list: Vec<places!(@type $($of)?)>,)*
            ) -> Result<$type, $crate::engine::SimError> {
                Ok($type {
                    $($member: places!(@make arena, object, $path $(, $kind)?),)*
                    $($list,)*
                })
            }
        }
    };
    (@type) => { $crate::engine::Place };
    (@type Opaque) => { $crate::engine::Opaque };
    (@make $arena:ident, $object:ident, $path:literal) => { $arena.place($object, $path)? };
    (@make $arena:ident, $object:ident, $path:literal, Opaque) => { $arena.opaque($object, $path)? };
}

pub(super) use places;
