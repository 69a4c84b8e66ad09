//! How many blocks of a kernel a processor holds, and what kernels need.

use crate::codes::{Code, Outcome};
use crate::device::*;
use crate::handle::Raw;
use crate::ptx::kernel::Kernel;
use crate::session::Session;

const MAX_THREADS: u32 = 0;
const SHARED: u32 = 1;
const CONSTANT: u32 = 2;
const LOCAL: u32 = 3;
const REGISTER_COUNT: u32 = 4;
const PTX_VERSION: u32 = 5;
const BINARY_VERSION: u32 = 6;
const CACHE_MODE: u32 = 7;
const DYNAMIC_SHARED: u32 = 8;
const CARVEOUT: u32 = 9;

fn blocks(kernel: &Kernel, threads: u32, dynamic_shared: usize) -> u32 {
    if threads == 0 || threads > kernel.max_threads.min(THREADS_PER_BLOCK) {
        return 0;
    }
    let warps = threads.div_ceil(WARP);
    let by_threads = THREADS_PER_MULTIPROCESSOR / (warps * WARP);
    let by_registers = REGISTERS / (kernel.register_count * warps * WARP).max(1);
    let shared = u64::from(kernel.static_shared + SHARED_RESERVED) + dynamic_shared as u64;
    let by_shared = (u64::from(SHARED_PER_MULTIPROCESSOR) / shared) as u32;
    by_threads.min(by_registers).min(by_shared).min(BLOCKS_PER_MULTIPROCESSOR)
}

impl Session<'_> {
    pub fn function_attribute(&mut self, attribute: u32, raw: Raw) -> Outcome<i32> {
        let (major, minor) = self.settings.capability;
        let function = self.function(raw)?;
        let kernel = &function.kernel;
        Ok(match attribute {
            MAX_THREADS => kernel.max_threads.min(THREADS_PER_BLOCK) as i32,
            SHARED => kernel.static_shared as i32,
            LOCAL => kernel.local as i32,
            REGISTER_COUNT => kernel.register_count as i32,
            PTX_VERSION | BINARY_VERSION => major * 10 + minor,
            CONSTANT | CACHE_MODE => 0,
            DYNAMIC_SHARED => function.dynamic_shared as i32,
            CARVEOUT => function.carveout,
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    pub fn set_function_attribute(&mut self, raw: Raw, attribute: u32, value: i32) -> Outcome {
        let function = self.function(raw)?;
        let room = SHARED_PER_BLOCK_OPT_IN.saturating_sub(function.kernel.static_shared) as i32;
        match attribute {
            DYNAMIC_SHARED if (0..=room).contains(&value) => {
                function.dynamic_shared = value as u32;
            }
            CARVEOUT if (-1..=100).contains(&value) => function.carveout = value,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    /// Blocks of so many threads that one processor holds at once.
    pub fn occupancy(&mut self, raw: Raw, threads: i32, dynamic_shared: usize) -> Outcome<i32> {
        let threads = u32::try_from(threads).map_err(|_| Code::INVALID_VALUE)?;
        let function = self.function(raw)?;
        Ok(blocks(&function.kernel, threads, dynamic_shared) as i32)
    }

    /// The size of blocks that fills the device best, and how many of them do.
    pub fn best_block(
        &mut self,
        raw: Raw,
        dynamic_shared: impl Fn(i32) -> usize,
        limit: i32,
    ) -> Outcome<(i32, i32)> {
        let kernel = &self.function(raw)?.kernel;
        let limit = if limit > 0 { limit as u32 } else { u32::MAX };
        let most = kernel.max_threads.min(THREADS_PER_BLOCK).min(limit);
        let sizes = (1..=most / WARP).map(|warps| warps * WARP).chain([most]);
        let held = |threads: u32| blocks(kernel, threads, dynamic_shared(threads as i32));
        let best = sizes.max_by_key(|threads| held(*threads) * threads).unwrap_or(most);
        Ok(((held(best) * MULTIPROCESSORS) as i32, best as i32))
    }
}
