//! One thread, instruction by instruction.

use std::collections::HashSet;

use crate::codes::Code;
use crate::report::Mistake;

use super::kernel::*;
use super::shadow::{Identities, Kind, Who};
use super::shared::{Local, Shared};
use super::types::{Space, mask};
use super::view::{Fault, Finding, Views};

/// Why a thread does not go on by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    Exit,
    /// At an instruction that the block or the warp executes together.
    Together,
    /// It ran for long: others get a turn, for which it may wait.
    Turn,
}

/// Branches that a thread takes before another one goes on.
const TURN: u32 = 100_000;

/// A launch under way.
pub struct Machine<'a> {
    pub kernel: &'a Kernel,
    pub parameters: &'a [u8],
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub global: Views<'a>,
    pub shared: Shared,
    pub local: Local,
    pub identities: Identities,
    /// How often each instruction ran.
    pub counts: Vec<u64>,
    /// How many more may run.
    pub budget: u64,
    /// Mistakes that did not end the launch, once for each instruction.
    pub findings: Vec<(Mistake, String)>,
    pub seen: HashSet<(u32, Mistake)>,
    pub block_number: [u32; 3],
}

/// One thread of a block.
pub struct Thread<'r> {
    pub number: u32,
    pub who: Who,
    pub pc: &'r mut u32,
    pub registers: &'r mut [u64],
}

impl Machine<'_> {
    /// Where an instruction stands, in words.
    pub fn place(&self, pc: u32, thread: u32) -> String {
        let (line, text) = &self.kernel.texts[pc as usize];
        let [x, y, z] = self.block_number;
        format!(
            "{} in line {line} of {}, thread {thread} of block ({x}, {y}, {z})",
            text, self.kernel.name
        )
    }

    /// Notes a mistake that does not end the launch.
    pub fn find(&mut self, pc: u32, thread: u32, mistake: Mistake, text: &str) {
        if self.seen.insert((pc, mistake)) {
            let text = format!("{}: {text}", self.place(pc, thread));
            self.findings.push((mistake, text));
        }
    }

    fn fault(&self, pc: u32, thread: u32, fault: Fault) -> Fault {
        Fault { text: format!("{}: {}", self.place(pc, thread), fault.text), ..fault }
    }

    /// Runs a thread until it ends or needs others.
    pub fn run(&mut self, thread: &mut Thread) -> Result<Stop, Fault> {
        let kernel = self.kernel;
        let mut turn = TURN;
        loop {
            let pc = *thread.pc;
            let instruction = &kernel.code[pc as usize];
            let registers = &mut *thread.registers;
            if (registers[instruction.guard as usize] == 0) != instruction.inverted {
                *thread.pc += 1;
                continue;
            }
            self.counts[pc as usize] += 1;
            let a = registers[instruction.a as usize];
            match instruction.operation {
                Operation::Unary(function) => registers[instruction.d as usize] = function(a),
                Operation::Binary(function) => {
                    registers[instruction.d as usize] =
                        function(a, registers[instruction.b as usize]);
                }
                Operation::Ternary(function) => {
                    let b = registers[instruction.b as usize];
                    let c = registers[instruction.c as usize];
                    registers[instruction.d as usize] = function(a, b, c);
                }
                Operation::Branch(target) => {
                    // Every loop has a branch: here the budget is kept.
                    self.budget = self.budget.saturating_sub(1);
                    if self.budget == 0 {
                        let text = "the launch takes too many instructions".into();
                        let fault =
                            Fault { code: Code::LAUNCH_TIMEOUT, mistake: Mistake::Misuse, text };
                        return Err(self.fault(pc, thread.number, fault));
                    }
                    *thread.pc = target;
                    turn -= 1;
                    if turn == 0 {
                        return Ok(Stop::Turn);
                    }
                    continue;
                }
                Operation::Load(number) => self.load(thread, pc, number, a)?,
                Operation::Store(number) => self.store(thread, pc, number, a)?,
                Operation::Atomic(number) => self.atomic(thread, pc, number, a)?,
                Operation::Fence => self.identities.fence(),
                Operation::Exit => return Ok(Stop::Exit),
                Operation::Trap => {
                    let text = "a trap".into();
                    let fault = Fault { code: Code::LAUNCH_FAILED, mistake: Mistake::Misuse, text };
                    return Err(self.fault(pc, thread.number, fault));
                }
                Operation::Barrier
                | Operation::BarrierReduce(_)
                | Operation::WarpBarrier
                | Operation::Shuffle(_)
                | Operation::Vote(_)
                | Operation::Reduce(_)
                | Operation::ActiveMask => return Ok(Stop::Together),
            }
            *thread.pc += 1;
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
        let bytes = u64::from(access.bytes * access.count);
        if address & (bytes - 1) != 0 {
            let text = format!("{address:#x} is no multiple of {bytes}");
            let fault =
                Fault { code: Code::MISALIGNED_ADDRESS, mistake: Mistake::Misaligned, text };
            return Err(self.fault(pc, thread.number, fault));
        }
        let kind = if access.shared_use { Kind::Atomic } else { kind };
        let (space, address) = match access.space {
            Space::Generic if address & SHARED_WINDOW != 0 => {
                (Space::Shared, address & !SHARED_WINDOW)
            }
            Space::Generic if address & LOCAL_WINDOW != 0 => {
                (Space::Local, address & !LOCAL_WINDOW)
            }
            Space::Generic => (Space::Global, address),
            // Parameters of calls lie in local memory.
            Space::Parameter if address & LOCAL_WINDOW != 0 => {
                (Space::Local, address & !LOCAL_WINDOW)
            }
            space => (space, address),
        };
        let reached = match space {
            Space::Shared => self.shared.access(&self.identities, thread.who, address, bytes, kind),
            Space::Local => self.local.access(thread.number, address, bytes).map(|at| (at, None)),
            Space::Parameter => {
                let end = address.checked_add(bytes).filter(|_| kind == Kind::Read);
                match end.filter(|end| *end <= self.parameters.len() as u64) {
                    // It is only read: the kind was looked at above.
                    Some(_) => Ok((self.parameters[address as usize..].as_ptr().cast_mut(), None)),
                    None => {
                        let text = format!("{bytes} bytes at {address} of the parameters");
                        let code = Code::ILLEGAL_ADDRESS;
                        Err(Fault { code, mistake: Mistake::OutOfBounds, text })
                    }
                }
            }
            _ => self.global.access(&self.identities, thread.who, number, address, bytes, kind),
        };
        let (data, finding) = reached.map_err(|fault| self.fault(pc, thread.number, fault))?;
        if let Some(finding) = finding {
            self.note(finding, thread, pc, space, address, bytes);
        }
        Ok(data)
    }

    #[cold]
    fn note(
        &mut self,
        finding: Finding,
        thread: &Thread,
        pc: u32,
        space: Space,
        address: u64,
        bytes: u64,
    ) {
        let memory = if space == Space::Shared { "shared" } else { "global" };
        let (mistake, what) = match finding {
            Finding::Uninitialised => (Mistake::Uninitialised, "which nothing wrote"),
            Finding::Race if space == Space::Shared => {
                (Mistake::SharedRace, "which another thread uses with no barrier between")
            }
            Finding::Race => (Mistake::ThreadRace, "which another thread of the launch uses too"),
        };
        let text = format!("{bytes} bytes at {address:#x} of {memory} memory, {what}");
        self.find(pc, thread.number, mistake, &text);
    }

    fn load(&mut self, thread: &mut Thread, pc: u32, number: u32, base: u64) -> Result<(), Fault> {
        let data = self.reach(thread, pc, number, base, Kind::Read)?;
        let access = &self.kernel.accesses[number as usize];
        let bytes = access.bytes as usize;
        for index in 0..access.count as usize {
            // SAFETY: `reach` found all bytes of the access.
            let value = unsafe { read(data.add(index * bytes), bytes) };
            let value = match access.extend {
                Some(extend) => extend(value),
                None => value,
            };
            thread.registers[access.registers[index] as usize] = value;
        }
        Ok(())
    }

    fn store(&mut self, thread: &mut Thread, pc: u32, number: u32, base: u64) -> Result<(), Fault> {
        let data = self.reach(thread, pc, number, base, Kind::Write)?;
        let access = &self.kernel.accesses[number as usize];
        let bytes = access.bytes as usize;
        for index in 0..access.count as usize {
            let value = thread.registers[access.registers[index] as usize];
            // SAFETY: `reach` found all bytes of the access, which may be written.
            unsafe { write(data.add(index * bytes), bytes, value) };
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        thread: &mut Thread,
        pc: u32,
        number: u32,
        base: u64,
    ) -> Result<(), Fault> {
        let data = self.reach(thread, pc, number, base, Kind::Atomic)?;
        let access = &self.kernel.accesses[number as usize];
        let instruction = &self.kernel.code[pc as usize];
        let bytes = access.bytes as usize;
        let operand = thread.registers[instruction.b as usize];
        // SAFETY: `reach` found all bytes of the access.
        let old = unsafe { read(data, bytes) };
        let new = match access.combine {
            Some(combine) => combine(old, operand),
            None if old == operand & mask(access.bytes) => thread.registers[instruction.c as usize],
            None => old,
        };
        // SAFETY: `reach` found all bytes of the access, which may be written.
        unsafe { write(data, bytes, new) };
        thread.registers[instruction.d as usize] = old;
        if access.space != Space::Shared {
            self.identities.tell();
        }
        Ok(())
    }
}

/// # Safety
///
/// `bytes` bytes at `at` can be read; they are 1, 2, 4 or 8.
#[inline]
unsafe fn read(at: *const u8, bytes: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => u64::from(at.read()),
            2 => u64::from(at.cast::<u16>().read_unaligned()),
            4 => u64::from(at.cast::<u32>().read_unaligned()),
            _ => at.cast::<u64>().read_unaligned(),
        }
    }
}

/// # Safety
///
/// `bytes` bytes at `at` can be written; they are 1, 2, 4 or 8.
#[inline]
unsafe fn write(at: *mut u8, bytes: usize, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => at.write(value as u8),
            2 => at.cast::<u16>().write_unaligned(value as u16),
            4 => at.cast::<u32>().write_unaligned(value as u32),
            _ => at.cast::<u64>().write_unaligned(value),
        }
    }
}
