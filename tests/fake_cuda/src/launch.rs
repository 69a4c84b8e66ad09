//! Launches of kernels.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use crate::access;
use crate::codes::{Code, Outcome};
use crate::device;
use crate::driver::Driver;
use crate::handle::Raw;
use crate::operation::{Stamp, Work};
use crate::ptx::block;
use crate::ptx::execute::Machine;
use crate::ptx::kernel::Kernel;
use crate::ptx::shadow::Identities;
use crate::ptx::shared::{Local, Shared};
use crate::ptx::view::{Touched, Views};
use crate::random::Random;
use crate::report::Mistake;
use crate::session::Session;

/// A launch that waits in a stream.
pub struct Launch {
    kernel: Arc<Kernel>,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    parameters: Vec<u8>,
}

/// The size of a launch as the program asks for it.
pub struct Size {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
}

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
        let too_large = |sizes: [u32; 3], limits: [u32; 3]| {
            sizes.iter().zip(limits).any(|(size, limit)| *size == 0 || *size > limit)
        };
        let threads = size.block.iter().try_fold(1u32, |all, size| all.checked_mul(*size));
        let most = kernel.max_threads.min(device::THREADS_PER_BLOCK);
        if too_large(size.grid, device::GRID)
            || too_large(size.block, device::BLOCK)
            || threads.is_none_or(|threads| threads > most)
        {
            let text = format!(
                "{} is launched with a grid of {:?} blocks of {:?} threads; a block may have {most}",
                kernel.name, size.grid, size.block
            );
            return Err(self.misuse(Code::INVALID_VALUE, &text));
        }
        if size.dynamic_shared > function.dynamic_shared {
            let text = format!(
                "{} is launched with {} bytes of shared memory beside its own {}; {} are allowed",
                kernel.name, size.dynamic_shared, kernel.static_shared, function.dynamic_shared
            );
            return Err(self.misuse(Code::INVALID_VALUE, &text));
        }
        let parameters = parameters(&kernel)?;
        let name = format!("kernel {}", kernel.name);
        let launch = Launch {
            kernel,
            grid: size.grid,
            block: size.block,
            dynamic_shared: size.dynamic_shared,
            parameters,
        };
        self.enqueue(stream, &name, Work::Launch(Box::new(launch))).map(drop)
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
        let threads = launch.block.iter().product();
        let peers = self.contexts[context as usize].peers.iter().map(|id| *id as usize).collect();
        let pools = self.pools_open_to(context);
        let mut random = Random::new(self.random.below(usize::MAX) as u64);
        let shared = (kernel.static_shared + launch.dynamic_shared) as usize;
        let mut machine = Machine {
            kernel,
            parameters: &launch.parameters,
            grid: launch.grid,
            block: launch.block,
            global: Views::new(
                &mut self.memory,
                context as usize,
                peers,
                pools,
                kernel.accesses.len(),
            ),
            shared: Shared::new(shared),
            local: Local::new(kernel.local, threads),
            identities: Identities::new(first),
            counts: vec![0; kernel.code.len()],
            budget: self.branches,
            findings: vec![],
            seen: HashSet::new(),
            block_number: [0; 3],
        };
        let outcome = block::run(&mut machine, &mut random, launch.dynamic_shared);
        let Machine { global, counts, findings, identities, .. } = machine;
        let touched = global.touched(first);
        self.identities = identities.end();
        self.checked.add(&launch.kernel, &counts);
        if self.executed.add(&launch.kernel, &counts) {
            self.tell_launched(&launch.kernel.name);
        }
        for (mistake, text) in findings {
            self.reports.add(mistake, &format!("{}: {text}", stamp.describe()));
        }
        for touched in touched {
            self.note_touched(stamp, &touched);
        }
        outcome.map_err(|fault| {
            self.reports.add(fault.mistake, &format!("{}: {}", stamp.describe(), fault.text));
            fault.code
        })
    }

    /// Adds the name of a kernel to the file that was asked for.
    fn tell_launched(&self, name: &str) {
        let Some(path) = &self.settings.launched else { return };
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        // Without the file whoever asked for it sees that it is not there.
        let _ = file.and_then(|mut file| writeln!(file, "{name}"));
    }

    /// Compares what a launch read and wrote in a region with what others did.
    fn note_touched(&mut self, stamp: &Arc<Stamp>, touched: &Touched) {
        let Some(region) = self.memory.starting_at(touched.region) else { return };
        let mut race = None;
        for (runs, write) in [(&touched.reads, false), (&touched.writes, true)] {
            for run in runs {
                if let Some(conflict) = region.history.access(run.clone(), write, stamp) {
                    race.get_or_insert_with(|| access::race(stamp, write, region, &conflict));
                }
            }
        }
        let (start, is_host) = (region.start, region.device().is_none());
        if let Some(text) = race {
            self.reports.add(Mistake::Race, &text);
        }
        if is_host {
            for run in &touched.writes {
                self.watches.device_wrote(start + run.start, run.end - run.start);
            }
        }
    }
}

/// How often the instructions of each kernel ran.
#[derive(Default)]
pub struct Executed(BTreeMap<String, Vec<(u32, Box<str>, u64)>>);

impl Executed {
    /// Adds the counts of one launch; true if it is the first of this kernel.
    fn add(&mut self, kernel: &Kernel, counts: &[u64]) -> bool {
        let first = !self.0.contains_key(&kernel.name);
        let texts = || kernel.texts.iter().map(|(line, text)| (*line, text.clone(), 0)).collect();
        let all = self.0.entry(kernel.name.clone()).or_insert_with(texts);
        // Another module may have another kernel of the same name.
        let same = all.len() == kernel.texts.len()
            && all
                .iter()
                .zip(&kernel.texts)
                .all(|(known, new)| known.0 == new.0 && known.1 == new.1);
        if !same {
            *all = texts();
        }
        for (known, count) in all.iter_mut().zip(counts) {
            known.2 += count;
        }
        first
    }

    /// How many instructions ran whose text begins with a prefix.
    pub fn count(&self, prefix: &str) -> u64 {
        let all = self.0.values().flatten();
        all.filter(|(_, text, _)| text.starts_with(prefix)).map(|(.., count)| count).sum()
    }

    /// Instructions of a kernel that never ran, one a line.
    pub fn never(&self, kernel: &str) -> Option<String> {
        let all = self.0.get(kernel)?;
        // The end of a function has no text.
        let never = all.iter().filter(|(_, text, count)| *count == 0 && !text.is_empty());
        Some(never.map(|(line, text, _)| format!("{line} {text}\n")).collect())
    }
}
