//! The instructions that the loops use. They are an argument of every kernel; by default they are
//! chosen once per process.
//!
//! A loop is written once, as a [`Kernel`] whose `run` is inlined, and compiled once per
//! instruction set. All instruction sets give the same bits: no loop depends on the vector width,
//! and a multiplication is fused with an addition only where its product is exact, or where every
//! set rounds the two once ([`crate::matrix`]).

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::dtype::{DType, Element};
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum InstructionSet {
    /// The instructions that every processor of the architecture has.
    Baseline = 1,
    /// AVX2, FMA and F16C (x86-64).
    Avx2 = 2,
    /// The instructions of `Avx2`, and AVX-512 F, BW, DQ and VL (x86-64).
    Avx512 = 3,
}

/// The environment variable that overrides the choice with a name of [`InstructionSet::name`].
/// A name that is unknown, or whose instructions this processor lacks, is as none ([`warn`]).
pub const VARIABLE: &str = "UMBO_INSTRUCTION_SET";

impl InstructionSet {
    /// All sets, the best last.
    pub const ALL: [InstructionSet; 3] = [
        InstructionSet::Baseline,
        InstructionSet::Avx2,
        InstructionSet::Avx512,
    ];

    /// `baseline`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            InstructionSet::Baseline => "baseline",
            InstructionSet::Avx2 => "avx2",
            InstructionSet::Avx512 => "avx512",
        }
    }

    /// Whether this processor has these instructions, and the library loops of them.
    pub fn is_available(self) -> bool {
        match self {
            InstructionSet::Baseline => true,
            #[cfg(all(target_arch = "x86_64", feature = "vectors"))]
            InstructionSet::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(all(target_arch = "x86_64", feature = "vectors"))]
            InstructionSet::Avx512 => {
                InstructionSet::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(all(target_arch = "x86_64", feature = "vectors")))]
            _ => false,
        }
    }
}

/// The permission to use an instruction set. A value exists only for a set that the processor has.
/// Kernels get it as an argument, and so compute with the set that their caller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions(InstructionSet);

impl Instructions {
    /// The instructions that every processor has.
    pub const BASELINE: Instructions = Instructions(InstructionSet::Baseline);

    /// The instructions of `set`.
    ///
    /// Fails with UNAVAILABLE if this processor lacks them.
    pub fn of(set: InstructionSet) -> Result<Instructions> {
        if set.is_available() {
            return Ok(Instructions(set));
        }
        let name = set.name();
        Err(match cfg!(feature = "vectors") {
            true => Error::Unavailable(format!("this processor has no {name}")),
            false => Error::left_out(name, "vectors"),
        })
    }

    /// The instructions of every set that this processor has, the best last.
    pub fn all() -> impl DoubleEndedIterator<Item = Instructions> + Clone {
        let sets = InstructionSet::ALL
            .into_iter()
            .filter(|set| set.is_available());
        sets.map(Instructions)
    }

    /// The instructions that this process uses: the best that the processor has, unless
    /// [`VARIABLE`] names another set. They are chosen at the first call and never change.
    pub fn chosen() -> Instructions {
        static CHOSEN: OnceLock<Instructions> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let wanted = std::env::var(VARIABLE).ok();
            let named = |&Instructions(set): &Instructions| wanted.as_deref() == Some(set.name());
            let best = || Instructions::all().next_back();
            let chosen = Instructions::all().find(named).or_else(best);
            chosen.unwrap_or(Instructions::BASELINE)
        })
    }

    /// The instruction set.
    #[inline(always)]
    pub fn set(self) -> InstructionSet {
        self.0
    }

    /// Whether special loops for the usual cases are worth their code size. They are not for the
    /// baseline of x86-64, which only processors from before 2013 use: there, the general loop
    /// handles every case.
    #[inline(always)]
    pub const fn has_special_loops(self) -> bool {
        cfg!(not(target_arch = "x86_64")) || !matches!(self.0, InstructionSet::Baseline)
    }
}

/// Logs a warning if [`VARIABLE`] names no instructions that this processor has.
pub fn warn() {
    let Some(given) = std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) else {
        return;
    };
    let has_name = |set: &InstructionSet| given == set.name();
    let problem = match InstructionSet::ALL.iter().find(|set| has_name(set)) {
        Some(set) if set.is_available() => return,
        Some(_) if cfg!(not(feature = "vectors")) => "this library was built without",
        Some(_) => "this processor lacks",
        None => "is not known",
    };
    log::log(Level::Warning, || {
        let shown: String = given.to_string_lossy().chars().take(80).collect();
        format!(
            "{VARIABLE} is '{shown}', which {problem}; baseline, avx2 and avx512 are possible \
             where the processor has them. It is ignored"
        )
    });
}

/// A loop that is compiled for each instruction set.
pub trait Kernel {
    /// The widest instructions that the loop is compiled for. Processors with wider ones run it
    /// with these. Loops that no training step waits for, such as sums of integers, are
    /// compiled once, for the baseline.
    const WIDEST: InstructionSet = InstructionSet::Avx512;

    /// Whether only processors with [special loops](Instructions::has_special_loops) run this
    /// kernel, so that it need not be compiled for the baseline.
    const IS_SPECIAL: bool = false;

    /// Runs the loop with `instructions`, which are known when the loop is compiled.
    /// Implementations are `#[inline(always)]`, and so are the functions that they call in the
    /// loop. Only then does the compiler use the instructions of the set for them.
    fn run(self, instructions: Instructions);
}

/// The widest instructions for a loop over floats of type `T`. AVX-512 brings little to float64,
/// whose loops wait for memory, divisions and roots with AVX2 already.
pub const fn widest_for<T: Element>() -> InstructionSet {
    match T::DTYPE {
        DType::Float64 => InstructionSet::Avx2,
        _ => InstructionSet::Avx512,
    }
}

/// The widest instructions for a loop that serves floats in some steps, and other types hardly
/// ever.
pub const fn widest_unless_rare(is_rare: bool) -> InstructionSet {
    match is_rare {
        true => InstructionSet::Baseline,
        false => InstructionSet::Avx2,
    }
}

/// Runs a loop with these instructions.
#[inline]
pub fn dispatch<K: Kernel>(instructions: Instructions, kernel: K) {
    // Matched on constants, so that what a loop is not compiled for is not made first.
    match (instructions.set(), K::WIDEST) {
        #[cfg(all(target_arch = "x86_64", feature = "vectors"))]
        (InstructionSet::Avx512, InstructionSet::Avx512) => {
            // SAFETY: there are such instructions only where the processor has them.
            unsafe { run_avx512(kernel) }
        }
        #[cfg(all(target_arch = "x86_64", feature = "vectors"))]
        (
            InstructionSet::Avx2 | InstructionSet::Avx512,
            InstructionSet::Avx2 | InstructionSet::Avx512,
        ) => {
            // SAFETY: as above, and AVX-512 comes with AVX2.
            unsafe { run_avx2(kernel) }
        }
        _ if const { !K::IS_SPECIAL || Instructions::BASELINE.has_special_loops() } => {
            kernel.run(Instructions::BASELINE);
        }
        _ => unreachable!("a special loop is not run with the baseline"),
    }
}

#[cfg(all(target_arch = "x86_64", feature = "vectors"))]
#[target_feature(enable = "avx2,f16c,fma")]
fn run_avx2(kernel: impl Kernel) {
    kernel.run(Instructions(InstructionSet::Avx2));
}

#[cfg(all(target_arch = "x86_64", feature = "vectors"))]
#[target_feature(enable = "avx2,f16c,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn run_avx512(kernel: impl Kernel) {
    kernel.run(Instructions(InstructionSet::Avx512));
}

/// Called at the end of a loop over blocks of elements. The call costs nothing. It keeps compilers
/// from turning the loop into one that gathers single elements of many blocks, which is several
/// times slower.
#[inline(always)]
pub fn keep_to_blocks() {
    compiler_fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_instructions_for_the_sets_that_the_processor_has() {
        for set in InstructionSet::ALL {
            let instructions = Instructions::of(set).ok();
            assert_eq!(
                instructions.map(Instructions::set),
                set.is_available().then_some(set)
            );
        }
        assert_eq!(
            Instructions::all().next().unwrap().set(),
            InstructionSet::Baseline
        );
        assert!(Instructions::all().any(|instructions| instructions == Instructions::chosen()));
    }
}
