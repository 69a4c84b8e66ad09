//! The kernels for GPUs, and what launches them.
//!
//! Their source, in `source`, is one file for several compilers. clang makes [`PTX`] of it, which is
//! committed and embedded, so that building the library needs no CUDA: `scripts/build_ptx.sh`
//! makes it anew. Tests compile the same source as C++ and compare every kernel with the CPU's: the
//! bits are the same, but for those of a NaN.
//!
//! A launcher checks what it is given, puts tables together that say where everything lies, and
//! queues kernels at a [`Queue`]. It knows nothing of the driver.

mod axes;
mod copy;
mod entries;
mod gradient;
mod measure;
mod on_gpu;
mod place;
mod queue;
mod replicas;
mod row_copies;
mod rows;
mod treated;
mod update;
mod words;

pub use entries::Extent;
pub use gradient::{Contribution, Gradient};
pub use measure::Measured;
pub use on_gpu::{OnGpu, Reserved, on_gpu};
pub use place::Place;
pub use queue::{Address, Grid, Launcher, Queue, THREADS, Thresholds};
pub use replicas::Reduction;
pub use row_copies::RowCopy;
pub use rows::TablePart;
pub use treated::Treated;
pub use update::{TableRows, Update};
pub use words::float64_is_slow;

use std::io::Read;
use std::sync::LazyLock;

use lzma_rust2::LzmaReader;

/// The kernels, as PTX that drivers since CUDA 9 compile for GPUs since Volta. It is unpacked when it is
/// first asked for.
pub static PTX: LazyLock<String> = LazyLock::new(|| unpacked(0));

/// Those beside them for GPUs whose float64 units are few ([`float64_is_slow`]).
pub static PTX_OF_WORDS: LazyLock<String> = LazyLock::new(|| unpacked(1));

/// One of the texts that were packed when the library was built, which have a NUL between them.
fn unpacked(which: usize) -> String {
    let packed: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ptx.lzma"));
    let mut texts = String::new();
    let read = LzmaReader::new_mem_limit(packed, u32::MAX, None)
        .and_then(|mut texts_of| texts_of.read_to_string(&mut texts));
    read.expect("it was packed when the library was built");
    texts.split('\0').nth(which).expect("there are two").to_owned()
}

/// The names of all kernels of a module, in the order in which they stand there.
pub fn kernel_names(ptx: &'static str) -> impl Iterator<Item = &'static str> {
    let entries = ptx.split(".visible .entry ").skip(1);
    entries.filter_map(|entry| entry.split('(').next())
}

/// The modules that a GPU of this compute capability needs, with the names of their kernels.
pub fn modules(capability: (u32, u32)) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut needed = vec![PTX.as_str()];
    if float64_is_slow(capability) {
        needed.push(&PTX_OF_WORDS);
    }
    needed.into_iter().map(|ptx| (ptx, kernel_names(ptx).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_named() {
        for (ptx, most) in [(PTX.as_str(), 300), (PTX_OF_WORDS.as_str(), 30)] {
            let count = kernel_names(ptx).count();
            assert_eq!(count, ptx.matches(".entry").count());
            assert!(kernel_names(ptx).all(|name| name.starts_with("umbo_")));
            assert!((10..most).contains(&count), "{count}");
        }
        assert!(kernel_names(&PTX_OF_WORDS).all(|name| name.ends_with("_f32_words")));
    }

    #[test]
    fn gpus_with_few_float64_units_get_more() {
        for (capability, count) in [
            ((8, 0), 1),
            ((9, 0), 1),
            ((10, 0), 1),
            ((8, 6), 2),
            ((8, 9), 2),
            ((10, 3), 2),
            ((12, 0), 2),
        ] {
            assert_eq!(modules(capability).len(), count, "{capability:?}");
        }
    }
}
