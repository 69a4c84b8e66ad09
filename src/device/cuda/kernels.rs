//! Kernels of a card: loaded once, found by name, launched on a stream.

use std::collections::HashMap;
use std::ffi::{CString, c_void};

use cudarc::driver::result;
use cudarc::driver::sys;

use super::card::Card;
use super::gpu::Gpu;
use crate::error::{Error, Result};

/// The kernels on one card. They stay for as long as the process lives.
#[derive(Debug)]
pub struct Kernels {
    functions: HashMap<&'static str, sys::CUfunction>,
}

// SAFETY: functions belong to the card's context, which stays, and every thread may launch them.
unsafe impl Send for Kernels {}
// SAFETY: as above; nothing changes once they are loaded.
unsafe impl Sync for Kernels {}

/// How many blocks of how many threads, and how many bytes of shared memory each has that its code
/// does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks along x, y and z.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes.
    pub shared_bytes: u32,
}

impl Grid {
    /// `blocks` blocks of `threads` threads.
    pub fn new(blocks: u32, threads: u32) -> Grid {
        Grid { blocks: [blocks, 1, 1], threads, shared_bytes: 0 }
    }
}

/// The names of all kernels in a text of PTX, in the order in which they stand there.
fn kernel_names(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.split(".visible .entry ").skip(1).filter_map(|entry| entry.split('(').next())
}

impl Card {
    /// The card's kernels: all those of the PTX, which is the same at each call and loaded at the first.
    pub fn kernels(&self, ptx: impl FnOnce() -> &'static str) -> Result<&Kernels> {
        if let Some(kernels) = self.kernels.get() {
            return Ok(kernels);
        }
        let _entered = self.enter()?;
        let ptx = ptx();
        let image = CString::new(ptx).map_err(|_| Error::Internal("a NUL in the PTX".into()))?;
        // SAFETY: the image is PTX with a NUL at its end, and the card's context is current.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) }
            .map_err(|error| self.failed("loading the kernels", error))?;
        let mut functions = HashMap::new();
        for name in kernel_names(ptx) {
            let text = CString::new(name)
                .map_err(|_| Error::Internal(format!("the kernel name {name:?}")))?;
            // SAFETY: the module was just loaded and stays.
            let function = unsafe { result::module::get_function(module, text) }
                .map_err(|error| self.failed(&format!("finding the kernel {name}"), error))?;
            functions.insert(name, function);
        }
        // Of two threads the slower one has loaded a module for nothing, once in a process.
        Ok(self.kernels.get_or_init(|| Kernels { functions }))
    }
}

impl Gpu {
    /// Queues a kernel. `arguments` are addresses of the arguments, which are copied.
    ///
    /// # Safety
    /// The arguments are those of the kernel, in number, order and type. What the kernel reads and
    /// writes lies on this GPU and stays until the stream has come past the kernel.
    pub unsafe fn launch(
        &self,
        kernels: &Kernels,
        name: &str,
        grid: Grid,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let Some((&name, &function)) = kernels.functions.get_key_value(name) else {
            return Err(Error::Internal(format!("there is no kernel {name}")));
        };
        let _entered = self.card().enter()?;
        let [x, y, z] = grid.blocks;
        let (blocks, threads, shared) = ((x, y, z), (grid.threads, 1, 1), grid.shared_bytes);
        let launched = self.noted((name, "gpu"), 0, || {
            // SAFETY: the function belongs to the card's context, which is current; the rest is the
            // caller's promise.
            unsafe {
                result::launch_kernel(function, blocks, threads, shared, self.stream(), arguments)
            }
        });
        launched.map_err(|error| self.card().failed(&format!("launching {name}"), error))
    }
}
