//! Structures of places in simulated memory: each member stands once, with its path in the layout.

/// Declares a structure of the places of some members of an object, and of lists of other places.
macro_rules! places {
    ($(#[$of_type:meta])* $type:ident { $($member:ident = $path:literal,)* }
     with { $($(#[$of_list:meta])* $list:ident,)* }) => {
        $(#[$of_type])*
        pub(in crate::kernel) struct $type {
            $(pub(in crate::kernel) $member: $crate::engine::Place,)*
            $($(#[$of_list])* pub(in crate::kernel) $list: Vec<$crate::engine::Place>,)*
        }

        impl $type {
            fn within(
                arena: &mut $crate::engine::Arena,
                object: &$crate::engine::Object,
                $($list: Vec<$crate::engine::Place>,)*
            ) -> Result<$type, $crate::engine::SimError> {
                Ok($type {
                    $($member: arena.place(object, $path)?,)*
                    $($list,)*
                })
            }
        }
    };
}

pub(super) use places;
