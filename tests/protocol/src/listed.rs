//! Enumerations that are packed as numbers and counted by kind: both need the list of their values.

/// Declares an enumeration without fields, and `ALL`, its values in the order of their numbers.
macro_rules! listed {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$note:meta])* $value:ident,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$note])* $value,)*
        }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$value,)*];
        }
    };
}
