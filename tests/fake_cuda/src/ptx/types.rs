//! The types of PTX.

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Type {
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    Bf16,
    F32,
    F64,
    Predicate,
}

use Type::*;

impl Type {
    /// The type of a modifier, without its dot.
    pub fn named(name: &str) -> Option<Type> {
        Some(match name {
            "b8" => B8,
            "b16" => B16,
            "b32" => B32,
            "b64" => B64,
            "u8" => U8,
            "u16" => U16,
            "u32" => U32,
            "u64" => U64,
            "s8" => S8,
            "s16" => S16,
            "s32" => S32,
            "s64" => S64,
            "f16" => F16,
            "bf16" => Bf16,
            "f32" => F32,
            "f64" => F64,
            "pred" => Predicate,
            _ => return None,
        })
    }

    pub fn bytes(self) -> u32 {
        match self {
            B8 | U8 | S8 | Predicate => 1,
            B16 | U16 | S16 | F16 | Bf16 => 2,
            B32 | U32 | S32 | F32 => 4,
            B64 | U64 | S64 | F64 => 8,
        }
    }

    pub fn is_signed(self) -> bool {
        matches!(self, S8 | S16 | S32 | S64)
    }

    /// The low bits that the type has.
    pub fn mask(self) -> u64 {
        mask(self.bytes())
    }
}

/// So many bytes of ones.
pub fn mask(bytes: u32) -> u64 {
    if bytes >= 8 { u64::MAX } else { (1 << (bytes * 8)) - 1 }
}

/// Where memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// An address that says by itself in which of the others it is.
    Generic,
    Global,
    Constant,
    Shared,
    Local,
    Parameter,
}

impl Space {
    pub fn named(name: &str) -> Option<Space> {
        Some(match name {
            "global" => Space::Global,
            "const" => Space::Constant,
            "shared" => Space::Shared,
            "local" => Space::Local,
            "param" => Space::Parameter,
            _ => return None,
        })
    }
}
