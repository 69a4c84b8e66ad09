//! Umbo: central-storage data-parallel training for C and C++.
//!
//! Variables live on one parameter device; a callback is replicated over all compute devices;
//! per-replica values are reduced and gathered; updates are applied centrally. The product is a
//! C library, `include/umbo/umbo.h`; this crate is its inside, and its tests' way in.
//!
//! The modules, from the top down. Each uses only what stands below it:
//!
//! - [`ffi`]: the C layer. Checks and converts, decides nothing.
//! - [`equivalence`]: whether a training step does the same on one replica and on many.
//! - [`training`]: a pass over a dataset, step by step.
//! - [`checkpoint`]: what training needs to go on later, in a file.
//! - [`input`]: datasets, their transformations, and their distribution over replicas.
//!   [`optimizer`]: gradients, update rules, the fused central update.
//!   [`metrics`]: what accumulates over steps.
//! - [`strategy`]: scopes and contexts, steps on all replicas, merge calls, the commit point.
//! - [`collectives`]: reducing, gathering and copying tensors across devices.
//! - [`values`]: nests, indexed slices, per-replica values, the storage of variables.
//!   [`cluster`]: what a process is told of the cluster that it is part of.
//! - [`tensor`]: elements of one dtype on one device.
//! - [`kernels`]: the loops over memory, element types, shapes and strides.
//! - [`device`]: names, the registry of devices, memory.
//! - [`executor`]: all threads and the processors that they run on, the worker set.
//! - [`observe`], [`error`]: what goes on, and what goes wrong. [`text`]: names that C reads, too.
//!
//! `unsafe` has few homes, which say so: who reads another module need not look for it there.
//!
//! # Where to begin
//!
//! - [`strategy::Strategy`] makes replicas, and `Strategy::run` is a step: read [`strategy`] first.
//! - [`values::variable::Variable`] is what a step changes, and [`strategy::commit`] where it does so.
//! - [`optimizer`] turns what replicas submit into updates; [`kernels`] computes them.
//! - [`ffi`] shows how a C function calls all of this.
//!
//! `docs/internals/architecture.md` has the words, the way of a call through the modules, and where to change what.
//! Builds for debugging check invariants (`debug_assert!`).

#![deny(unsafe_code)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "these pages are for those who change the core: they are made with private items"
)]

/// Declares an enum with a list of all its variants, `ALL`.
macro_rules! listed {
    (
        $(#[$about:meta])*
        $visibility:vis enum $Enum:ident {
            $($(#[$documentation:meta])* $Variant:ident = $number:literal,)+
        }
    ) => {
        $(#[$about])*
        $visibility enum $Enum {
            $($(#[$documentation])* $Variant = $number,)+
        }

        impl $Enum {
            /// All variants, in the order of their numbers.
            $visibility const ALL: [$Enum; [$($Enum::$Variant),+].len()] = [$($Enum::$Variant),+];
        }
    };
}

/// The error for a wrong value, shape, dtype or name of an argument: the argument's name, then the message as for
/// `format!`.
macro_rules! invalid {
    ($argument:expr, $($problem:tt)+) => {
        $crate::error::Error::invalid($argument, format!($($problem)+))
    };
}

/// The error for an axis, index or position that is out of range: as `invalid!`.
macro_rules! out_of_range {
    ($argument:expr, $($problem:tt)+) => {
        $crate::error::Error::out_of_range($argument, format!($($problem)+))
    };
}

pub mod checkpoint;
pub mod cluster;
pub mod collectives;
pub mod device;
pub mod equivalence;
pub mod error;
pub mod executor;
pub mod ffi;
pub mod files;
pub mod input;
pub mod kernels;
pub mod metrics;
pub mod observe;
pub mod optimizer;
pub mod strategy;
pub mod tensor;
pub mod text;
pub mod training;
pub mod values;
