//! A launch: block by block, thread by thread, instruction by instruction.

use std::collections::HashSet;

use crate::codes::Code;
use crate::random::Random;
use crate::report::Mistake;

use super::instructions::Function;
use super::kernel::*;
use super::shadow::{Identities, Kind};
use super::shared::Shared;
use super::view::{Fault, Finding, Views};

/// A launch under way.
pub struct Machine<'a> {
    pub kernel: &'a Kernel,
    pub parameters: &'a [u8],
    pub grid: [u32; 3],
    pub threads: u32,
    pub global: Views<'a>,
    pub shared: Shared,
    pub identities: Identities,
    /// How many more branches may be taken.
    pub budget: u64,
    /// Mistakes that did not end the launch, once for each instruction.
    pub findings: Vec<(Mistake, String)>,
    pub seen: HashSet<(u32, Mistake)>,
    pub block_number: [u32; 3],
}

/// One thread of a block.
struct Thread<'r> {
    number: u32,
    identity: u32,
    pc: u32,
    registers: &'r mut [u64],
}

/// Where a thread is that has ended.
const ENDED: u32 = u32::MAX;

impl Machine<'_> {
    /// Runs all blocks, in an order drawn by chance.
    pub fn run(&mut self, random: &mut Random) -> Result<(), Fault> {
        let blocks: u64 = self.grid.iter().map(|size| u64::from(*size)).product();
        let mut order: Vec<u32> = (0..self.threads).collect();
        let mut registers = vec![0; self.kernel.initial.len() * self.threads as usize];
        let start = random.below(blocks as usize) as u64;
        let backwards = random.chance(50);
        for index in 0..blocks {
            let at = (start + index) % blocks;
            let at = if backwards { blocks - 1 - at } else { at };
            let [x, y] = [u64::from(self.grid[0]), u64::from(self.grid[1])];
            self.block_number = [(at % x) as u32, (at / x % y) as u32, (at / x / y) as u32];
            self.shared.clear();
            self.identities.begin_block(self.threads);
            if random.chance(50) {
                order.reverse();
            }
            order.rotate_left(random.below(self.threads as usize));
            self.block(&order, &mut registers)?;
        }
        Ok(())
    }

    /// Runs the threads of a block from barrier to barrier.
    fn block(&mut self, order: &[u32], registers: &mut [u64]) -> Result<(), Fault> {
        let kernel = self.kernel;
        for (number, registers) in (0..).zip(registers.chunks_exact_mut(kernel.initial.len())) {
            registers.copy_from_slice(&kernel.initial);
            for (register, special) in &kernel.specials {
                let value = match special {
                    Special::Thread => number,
                    Special::BlockSize => self.threads,
                    Special::Block(axis) => self.block_number[*axis],
                };
                registers[*register as usize] = value.into();
            }
        }
        let mut places = vec![0; order.len()];
        loop {
            for &number in order {
                let pc = places[number as usize];
                if pc != ENDED {
                    let each = kernel.initial.len();
                    let registers = &mut registers[number as usize * each..][..each];
                    let identity = self.identities.of(number);
                    let thread = Thread {
                        number,
                        identity,
                        pc,
                        registers,
                    };
                    places[number as usize] = self.thread(thread)?;
                }
            }
            let Some(first) = places.iter().position(|place| *place != ENDED) else {
                return Ok(());
            };
            let place = places[first];
            if let Some(other) = places.iter().find(|other| **other != place) {
                let text = match *other {
                    ENDED => "threads of the block ended before this barrier".into(),
                    other => format!("other threads are at {}", self.place(other, first as u32)),
                };
                self.find(place, first as u32, Mistake::Barrier, &text);
            }
            for place in places.iter_mut().filter(|place| **place != ENDED) {
                *place += 1;
            }
            self.identities.begin_epoch(self.threads);
        }
    }

    /// Where an instruction stands, in words.
    fn place(&self, pc: u32, thread: u32) -> String {
        let (line, text) = &self.kernel.texts[pc as usize];
        let [x, y, z] = self.block_number;
        let name = &self.kernel.name;
        format!("{text} in line {line} of {name}, thread {thread} of block ({x}, {y}, {z})")
    }

    /// Notes a mistake that does not end the launch.
    fn find(&mut self, pc: u32, thread: u32, mistake: Mistake, text: &str) {
        if self.seen.insert((pc, mistake)) {
            let text = format!("{}: {text}", self.place(pc, thread));
            self.findings.push((mistake, text));
        }
    }

    /// Runs a thread until it ends or is at a barrier, and says where it is then.
    fn thread(&mut self, mut thread: Thread) -> Result<u32, Fault> {
        let kernel = self.kernel;
        loop {
            let pc = thread.pc;
            let Some(instruction) = kernel.code.get(pc as usize) else {
                return Ok(ENDED);
            };
            thread.pc += 1;
            let registers = &mut *thread.registers;
            if (registers[instruction.guard as usize] == 0) != instruction.inverted {
                continue;
            }
            let a = registers[instruction.a as usize];
            match instruction.operation {
                Operation::Compute(function) => {
                    let b = instruction.b as usize;
                    let c = instruction.c as usize;
                    registers[instruction.d as usize] = match function {
                        Function::One(function) => function(a),
                        Function::Two(function) => function(a, registers[b]),
                        Function::Three(function) => function(a, registers[b], registers[c]),
                    };
                }
                Operation::Branch(target) => {
                    // Every loop has a branch: here the budget is kept.
                    self.budget = self.budget.saturating_sub(1);
                    if self.budget == 0 {
                        let text = "the launch takes too many instructions".into();
                        let code = Code::LAUNCH_TIMEOUT;
                        let fault = Fault {
                            code,
                            mistake: Mistake::Misuse,
                            text,
                        };
                        return Err(self.fault(pc, thread.number, fault));
                    }
                    thread.pc = target;
                }
                Operation::Load(number) => self.load(&mut thread, pc, number, a)?,
                Operation::Store(number) => self.store(&thread, pc, number, a)?,
                Operation::Barrier => return Ok(pc),
                Operation::Exit => return Ok(ENDED),
            }
        }
    }

    fn fault(&self, pc: u32, thread: u32, fault: Fault) -> Fault {
        Fault {
            text: format!("{}: {}", self.place(pc, thread), fault.text),
            ..fault
        }
    }

    /// Where the bytes of an access are, after all checks.
    fn reach(
        &mut self,
        thread: &Thread,
        pc: u32,
        number: u32,
        base: u64,
        kind: Kind,
    ) -> Result<*mut u8, Fault> {
        let access = &self.kernel.accesses[number as usize];
        let address = base.wrapping_add(access.offset as u64);
        let bytes = u64::from(access.bytes) * access.registers.len() as u64;
        if address & (bytes - 1) != 0 {
            let text = format!("{address:#x} is no multiple of {bytes}");
            return Err(self.fault(
                pc,
                thread.number,
                Fault {
                    code: Code::MISALIGNED_ADDRESS,
                    mistake: Mistake::Misaligned,
                    text,
                },
            ));
        }
        let kind = if access.volatile {
            Kind::Volatile
        } else {
            kind
        };
        let me = thread.identity;
        let reached = match access.space {
            Space::Global => self
                .global
                .access(&self.identities, me, number, address, bytes, kind),
            Space::Shared => self
                .shared
                .access(&self.identities, me, address, bytes, kind),
            Space::Parameter => match self.parameters.get(address as usize..) {
                Some(rest) if kind == Kind::Read && rest.len() as u64 >= bytes => {
                    Ok((rest.as_ptr().cast_mut(), None))
                }
                _ => {
                    let text = format!("{bytes} bytes at {address} of the parameters");
                    Err(Fault {
                        code: Code::ILLEGAL_ADDRESS,
                        mistake: Mistake::OutOfBounds,
                        text,
                    })
                }
            },
        };
        let (data, finding) = reached.map_err(|fault| self.fault(pc, thread.number, fault))?;
        if let Some(finding) = finding {
            self.note(finding, thread, pc, access.space, address);
        }
        Ok(data)
    }

    #[cold]
    fn note(&mut self, finding: Finding, thread: &Thread, pc: u32, space: Space, address: u64) {
        let (mistake, state) = match (finding, space) {
            (Finding::Uninitialised, _) => (Mistake::Uninitialised, "which nothing wrote"),
            (Finding::Race, Space::Shared) => (
                Mistake::SharedRace,
                "which another thread uses with no barrier between",
            ),
            (Finding::Race, _) => (
                Mistake::ThreadRace,
                "which another thread of the launch uses too",
            ),
        };
        let text = format!("{address:#x} of {space:?} memory, {state}");
        self.find(pc, thread.number, mistake, &text);
    }

    fn load(&mut self, thread: &mut Thread, pc: u32, number: u32, base: u64) -> Result<(), Fault> {
        let data = self.reach(thread, pc, number, base, Kind::Read)?;
        let access = &self.kernel.accesses[number as usize];
        let bytes = access.bytes as usize;
        for (at, register) in access.registers.iter().enumerate() {
            let mut value = [0; 8];
            // SAFETY: `reach` found all bytes of the access.
            unsafe { copy(data.add(at * bytes), value.as_mut_ptr(), bytes) };
            let mut value = u64::from_le_bytes(value);
            if let Some(width) = access.extends {
                let unused = 64 - 8 * access.bytes;
                value = ((value << unused) as i64 >> unused) as u64 & mask(width);
            }
            thread.registers[*register as usize] = value;
        }
        Ok(())
    }

    fn store(&mut self, thread: &Thread, pc: u32, number: u32, base: u64) -> Result<(), Fault> {
        let data = self.reach(thread, pc, number, base, Kind::Write)?;
        let access = &self.kernel.accesses[number as usize];
        let bytes = access.bytes as usize;
        for (at, register) in access.registers.iter().enumerate() {
            let value = thread.registers[*register as usize].to_le_bytes();
            // SAFETY: `reach` found all bytes of the access, which may be written.
            unsafe { copy(value.as_ptr(), data.add(at * bytes), bytes) };
        }
        Ok(())
    }
}

/// Copies an element, of a size that the compiler knows.
///
/// # Safety
/// So many bytes, 1, 2, 4 or 8, can be read and written.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => to.write(from.read()),
            2 => to
                .cast::<u16>()
                .write_unaligned(from.cast::<u16>().read_unaligned()),
            4 => to
                .cast::<u32>()
                .write_unaligned(from.cast::<u32>().read_unaligned()),
            _ => to
                .cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned()),
        }
    }
}
