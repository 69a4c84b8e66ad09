//! Which instructions the loops use, chosen once per process.
//!
//! A loop is written once, as a [`Kernel`] whose `run` is inlined, and compiled once per
//! instruction set. All of them give the same bits: no loop depends on the vector width, and
//! nothing is contracted into fused multiply-adds.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence};

use crate::error::{Error, Result};

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum InstructionSet {
    /// What every processor of the architecture has.
    Baseline = 1,
    /// AVX2 and F16C (x86-64).
    Avx2 = 2,
    /// AVX-512 F, BW, DQ and VL beside those (x86-64).
    Avx512 = 3,
}

/// The environment variable that overrides the choice with a name of [`InstructionSet::name`].
/// A name that is unknown, or whose instructions this processor lacks, is ignored.
pub const VARIABLE: &str = "UMBO_INSTRUCTION_SET";

/// The set in use; 0 before the first use. Only sets that the processor has are ever stored.
static SELECTED: AtomicU8 = AtomicU8::new(0);

impl InstructionSet {
    /// All sets, the best last.
    pub const ALL: [InstructionSet; 3] =
        [InstructionSet::Baseline, InstructionSet::Avx2, InstructionSet::Avx512];

    /// `baseline`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            InstructionSet::Baseline => "baseline",
            InstructionSet::Avx2 => "avx2",
            InstructionSet::Avx512 => "avx512",
        }
    }

    /// Whether this processor has these instructions.
    pub fn is_available(self) -> bool {
        match self {
            InstructionSet::Baseline => true,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => {
                is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => {
                InstructionSet::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}

/// The set in use: the best that the processor has, unless [`VARIABLE`] or [`select`] say
/// otherwise.
pub fn selected() -> InstructionSet {
    match SELECTED.load(Ordering::Relaxed) {
        1 => InstructionSet::Baseline,
        2 => InstructionSet::Avx2,
        3 => InstructionSet::Avx512,
        _ => {
            let mut available = InstructionSet::ALL.into_iter().filter(|set| set.is_available());
            let best = available.clone().next_back().unwrap_or(InstructionSet::Baseline);
            let wanted = std::env::var(VARIABLE).ok();
            let chosen = available.find(|set| wanted.as_deref() == Some(set.name()));
            let chosen = chosen.unwrap_or(best);
            SELECTED.store(chosen as u8, Ordering::Relaxed);
            chosen
        }
    }
}

/// Uses this set from now on, in the whole process. Results do not depend on it.
///
/// Fails with UNAVAILABLE if this processor lacks the instructions.
pub fn select(set: InstructionSet) -> Result<()> {
    if !set.is_available() {
        return Err(Error::Unavailable(format!("this processor has no {}", set.name())));
    }
    SELECTED.store(set as u8, Ordering::Relaxed);
    Ok(())
}

/// A loop to be compiled for each instruction set.
pub trait Kernel {
    /// Runs the loop. Implementations are `#[inline(always)]`, and so is what they call in the
    /// loop: only then is it compiled with the instructions of the set.
    fn run(self);
}

/// Runs a loop with the instructions in use.
#[inline]
pub fn dispatch(kernel: impl Kernel) {
    if cfg!(loom) {
        // Its models run no loops, and one set is built sooner than three.
        return kernel.run();
    }
    match selected() {
        InstructionSet::Baseline => kernel.run(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `selected` only gives sets that the processor has.
        InstructionSet::Avx2 => unsafe { run_avx2(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        InstructionSet::Avx512 => unsafe { run_avx512(kernel) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => kernel.run(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
fn run_avx2(kernel: impl Kernel) {
    kernel.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn run_avx512(kernel: impl Kernel) {
    kernel.run();
}

/// To be called at the end of a loop over blocks of elements. It costs nothing, and keeps compilers from
/// turning the loop into one that gathers single elements of many blocks, which is several times slower.
#[inline(always)]
pub fn keep_to_blocks() {
    compiler_fence(Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_selected_is_available() {
        assert!(selected().is_available());
        for set in InstructionSet::ALL {
            assert_eq!(select(set).is_ok(), set.is_available());
        }
        assert!(selected().is_available());
    }
}
