//! Launches of kernels.

use std::collections::HashSet;
use std::sync::Arc;

use crate::access;
use crate::codes::{Code, Outcome};
use crate::device;
use crate::driver::Driver;
use crate::handle::Raw;
use crate::operation::{Stamp, Work};
use crate::ptx::execute::Machine;
use crate::ptx::kernel::Kernel;
use crate::ptx::shadow::Identities;
use crate::ptx::shared::Shared;
use crate::ptx::view::{Touched, Views};
use crate::random::Random;
use crate::report::Mistake;
use crate::session::Session;

/// A launch that waits in a stream.
pub struct Launch {
    kernel: Arc<Kernel>,
    grid: [u32; 3],
    threads: u32,
    parameters: Vec<u8>,
}

/// The size of a launch as the program asks for it.
pub struct Size {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
}

/// A launch that takes more branches counts as endless.
const BRANCHES: u64 = 4_000_000_000;

/// Identities of threads start anew when they come near the end of their range.
const IDENTITIES: u32 = 3_000_000_000;

impl Session<'_> {
    /// Puts a launch on a stream. `parameters` gives the bytes of all parameters, or fails.
    pub fn launch(
        &mut self,
        function: Raw,
        size: &Size,
        stream: Raw,
        parameters: impl FnOnce(&Kernel) -> Outcome<Vec<u8>>,
    ) -> Outcome {
        let stream = self.stream(stream)?;
        let function = self.function(function)?.clone();
        let kernel = function.kernel;
        let owner = self.streams.get(stream).map(|stream| stream.context);
        if owner != Some(function.context) {
            let text = format!("{} is launched on a stream of another device", kernel.name);
            return Err(self.misuse(Code::INVALID_HANDLE, &text));
        }
        // Kernels of this project have threads along one axis, and shared memory of their own only.
        let [threads, y, z] = size.block;
        let most = kernel.max_threads.min(device::THREADS_PER_BLOCK);
        let fits = size
            .grid
            .iter()
            .zip(device::GRID)
            .all(|(size, most)| (1..=most).contains(size));
        if !fits || !(1..=most).contains(&threads) || (y, z, size.dynamic_shared) != (1, 1, 0) {
            let Size {
                grid,
                block,
                dynamic_shared,
            } = size;
            let text = format!(
                "{} is launched with a grid of {grid:?} blocks of {block:?} threads and \
                 {dynamic_shared} bytes; a block may have {most} threads",
                kernel.name
            );
            return Err(self.misuse(Code::INVALID_VALUE, &text));
        }
        let parameters = parameters(&kernel)?;
        let name = format!("kernel {}", kernel.name);
        let launch = Launch {
            kernel,
            grid: size.grid,
            threads,
            parameters,
        };
        self.enqueue(stream, &name, Work::Launch(Box::new(launch)))
            .map(drop)
    }
}

impl Driver {
    /// Runs a launch.
    pub fn run_launch(&mut self, stamp: &Arc<Stamp>, context: u32, launch: &Launch) -> Outcome {
        if self.identities > IDENTITIES {
            self.identities = 2;
            self.memory.forget_threads();
        }
        let first = self.identities;
        let kernel = &*launch.kernel;
        let pools = 0..self.pools.len() as u32;
        let pools = pools.filter(|pool| self.is_open(*pool, context)).collect();
        let mut random = Random::new(self.random.below(usize::MAX) as u64);
        let accesses = kernel.accesses.len();
        let mut machine = Machine {
            kernel,
            parameters: &launch.parameters,
            grid: launch.grid,
            threads: launch.threads,
            global: Views::new(&mut self.memory, context as usize, pools, accesses),
            shared: Shared::new(kernel.shared_bytes as usize),
            identities: Identities::new(first),
            budget: BRANCHES,
            findings: vec![],
            seen: HashSet::new(),
            block_number: [0; 3],
        };
        let outcome = machine.run(&mut random);
        let Machine {
            global,
            findings,
            identities,
            ..
        } = machine;
        let touched = global.touched(first);
        self.identities = identities.end();
        for (mistake, text) in findings {
            self.reports
                .add(mistake, &format!("{}: {text}", stamp.describe()));
        }
        for touched in touched {
            self.note_touched(stamp, &touched);
        }
        outcome.map_err(|fault| {
            self.reports.add(
                fault.mistake,
                &format!("{}: {}", stamp.describe(), fault.text),
            );
            fault.code
        })
    }

    /// Compares what a launch read and wrote in a region with what others did.
    fn note_touched(&mut self, stamp: &Arc<Stamp>, touched: &Touched) {
        let Some(region) = self.memory.starting_at(touched.region) else {
            return;
        };
        let mut race = None;
        for (runs, write) in [(&touched.reads, false), (&touched.writes, true)] {
            for run in runs {
                if let Some(conflict) = region.history.access(run.clone(), write, stamp) {
                    race.get_or_insert_with(|| access::race(stamp, write, region, &conflict));
                }
            }
        }
        let start = region.start;
        let is_host = region.device().is_none();
        if let Some(text) = race {
            self.reports.add(Mistake::Race, &text);
        }
        if is_host {
            for run in &touched.writes {
                self.watches
                    .device_wrote(start + run.start, run.end - run.start);
            }
        }
    }
}
