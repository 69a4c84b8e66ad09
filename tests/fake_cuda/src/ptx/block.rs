//! The threads of a block, and what they do together.

use crate::codes::Code;
use crate::random::Random;
use crate::report::Mistake;

use super::execute::{Machine, Stop, Thread};
use super::kernel::*;
use super::view::Fault;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Runs,
    /// At an instruction that several threads execute together.
    Waits,
    Ended,
}

/// All threads of a block.
struct Block {
    threads: u32,
    states: Vec<State>,
    pcs: Vec<u32>,
    registers: Vec<u64>,
    /// Registers of one thread.
    each: usize,
    order: Vec<u32>,
}

/// Runs all blocks of a launch, in an order drawn by chance.
pub fn run(machine: &mut Machine, random: &mut Random, dynamic_shared: u32) -> Result<(), Fault> {
    let threads: u32 = machine.block.iter().product();
    let blocks: u64 = machine.grid.iter().map(|size| u64::from(*size)).product();
    let each = machine.kernel.initial.len();
    let mut block = Block {
        threads,
        states: vec![State::Runs; threads as usize],
        pcs: vec![0; threads as usize],
        registers: vec![0; each * threads as usize],
        each,
        order: (0..threads).collect(),
    };
    let start = random.below(blocks as usize) as u64;
    let backwards = random.chance(50);
    for index in 0..blocks {
        let at = (start + index) % blocks;
        let at = if backwards { blocks - 1 - at } else { at };
        let [x, y] = [u64::from(machine.grid[0]), u64::from(machine.grid[1])];
        machine.block_number = [(at % x) as u32, (at / x % y) as u32, (at / x / y) as u32];
        machine.shared.clear();
        machine.identities.begin_block(threads);
        block.start(machine, random, dynamic_shared);
        block.run(machine)?;
    }
    Ok(())
}

impl Block {
    fn start(&mut self, machine: &Machine, random: &mut Random, dynamic_shared: u32) {
        self.states.fill(State::Runs);
        self.pcs.fill(0);
        if random.chance(50) {
            self.order.reverse();
        }
        let turn = random.below(self.threads as usize);
        self.order.rotate_left(turn);
        for number in 0..self.threads {
            let registers = self.registers(number);
            registers.copy_from_slice(&machine.kernel.initial);
            for (register, special) in &machine.kernel.specials {
                registers[*register as usize] = value(machine, *special, number, dynamic_shared);
            }
        }
    }

    fn registers(&mut self, thread: u32) -> &mut [u64] {
        let start = thread as usize * self.each;
        &mut self.registers[start..start + self.each]
    }

    fn run(&mut self, machine: &mut Machine) -> Result<(), Fault> {
        loop {
            for at in 0..self.order.len() {
                let number = self.order[at];
                if self.states[number as usize] != State::Runs {
                    continue;
                }
                let start = number as usize * self.each;
                let mut thread = Thread {
                    number,
                    who: machine.identities.who(number),
                    pc: &mut self.pcs[number as usize],
                    registers: &mut self.registers[start..start + self.each],
                };
                self.states[number as usize] = match machine.run(&mut thread)? {
                    Stop::Exit => State::Ended,
                    Stop::Together => State::Waits,
                    Stop::Turn => State::Runs,
                };
            }
            if self.states.iter().all(|state| *state == State::Ended) {
                return Ok(());
            }
            let mut moved = self.states.contains(&State::Runs);
            for warp in 0..self.threads.div_ceil(32) {
                moved |= self.warp(machine, warp)?;
            }
            if !moved && !self.barrier(machine)? {
                return Err(self.stuck(machine));
            }
        }
    }

    /// The threads that wait at an instruction.
    fn waiting(&self, range: std::ops::Range<u32>, pc: u32) -> Vec<u32> {
        range
            .filter(|thread| {
                let at = *thread as usize;
                self.states[at] == State::Waits && self.pcs[at] == pc
            })
            .collect()
    }

    fn release(&mut self, threads: &[u32]) {
        for thread in threads {
            self.states[*thread as usize] = State::Runs;
            self.pcs[*thread as usize] += 1;
        }
    }

    fn get(&self, thread: u32, register: Register) -> u64 {
        self.registers[thread as usize * self.each + register as usize]
    }

    fn set(&mut self, thread: u32, register: Register, value: u64) {
        self.registers[thread as usize * self.each + register as usize] = value;
    }

    /// Executes what lanes of a warp do together, where all that take part have arrived.
    fn warp(&mut self, machine: &mut Machine, warp: u32) -> Result<bool, Fault> {
        let lanes = warp * 32..(warp * 32 + 32).min(self.threads);
        let mut moved = false;
        for thread in lanes.clone() {
            if self.states[thread as usize] != State::Waits {
                continue;
            }
            let pc = self.pcs[thread as usize];
            let instruction = machine.kernel.code[pc as usize];
            let here = self.waiting(lanes.clone(), pc);
            let members = match instruction.operation {
                Operation::ActiveMask => {
                    let mask = here.iter().fold(0, |mask, lane| mask | 1 << (lane % 32));
                    for lane in &here {
                        self.set(*lane, instruction.d, mask);
                    }
                    self.release(&here);
                    moved = true;
                    continue;
                }
                Operation::WarpBarrier => instruction.a,
                Operation::Vote(_) | Operation::Reduce(_) => instruction.b,
                Operation::Shuffle(number) => machine.kernel.shuffles[number as usize].members,
                _ => continue,
            };
            let mask = self.get(thread, members) as u32;
            if mask >> (thread % 32) & 1 == 0 {
                let text = "a thread is not among those that it names";
                machine.find(pc, thread, Mistake::Barrier, text);
                return Err(self.stuck(machine));
            }
            // Lanes that the block does not have take part in nothing.
            let wanted: Vec<u32> =
                lanes.clone().filter(|lane| mask >> (lane % 32) & 1 != 0).collect();
            if !wanted.iter().all(|lane| here.contains(lane)) {
                continue;
            }
            if wanted.iter().any(|lane| self.get(*lane, members) as u32 != mask) {
                let text = "threads that execute it together name different threads";
                machine.find(pc, thread, Mistake::Barrier, text);
            }
            self.together(machine, pc, &wanted);
            machine.identities.begin_warp(warp);
            self.release(&wanted);
            moved = true;
        }
        Ok(moved)
    }

    fn together(&mut self, machine: &mut Machine, pc: u32, lanes: &[u32]) {
        let instruction = machine.kernel.code[pc as usize];
        let d = instruction.d;
        match instruction.operation {
            Operation::Vote(combine) => {
                let votes: Vec<bool> =
                    lanes.iter().map(|lane| self.get(*lane, instruction.a) != 0).collect();
                let result = combined(combine, lanes, &votes);
                for lane in lanes {
                    self.set(*lane, d, result);
                }
            }
            Operation::Reduce(function) => {
                let values = lanes.iter().map(|lane| self.get(*lane, instruction.a));
                let result = values.reduce(function).unwrap_or(0);
                for lane in lanes {
                    self.set(*lane, d, result);
                }
            }
            Operation::Shuffle(number) => {
                let shuffle = machine.kernel.shuffles[number as usize];
                let mut results = vec![];
                for lane in lanes {
                    let b = self.get(*lane, instruction.b) as u32;
                    let c = self.get(*lane, instruction.c) as u32;
                    let (from, valid) = source(shuffle.mode, lane % 32, b, c);
                    let from = lane - lane % 32 + from;
                    let from = if valid { from } else { *lane };
                    if !lanes.contains(&from) {
                        let text = format!("lane {} does not take part", from % 32);
                        machine.find(pc, *lane, Mistake::Barrier, &text);
                    }
                    let value = if from < self.threads { self.get(from, instruction.a) } else { 0 };
                    results.push((*lane, value, valid));
                }
                for (lane, value, valid) in results {
                    self.set(lane, d, value);
                    if let Some(register) = shuffle.valid {
                        self.set(lane, register, u64::from(valid));
                    }
                }
            }
            _ => {}
        }
    }

    /// Lets threads pass a barrier at which all that it waits for have arrived; false if there is
    /// none.
    fn barrier(&mut self, machine: &mut Machine) -> Result<bool, Fault> {
        let barrier = |block: &Block, thread: u32| {
            let instruction = machine.kernel.code[block.pcs[thread as usize] as usize];
            match instruction.operation {
                Operation::Barrier | Operation::BarrierReduce(_) => Some((
                    block.get(thread, instruction.a),
                    block.get(thread, instruction.b) as usize,
                )),
                _ => None,
            }
        };
        let waits: Vec<(u32, u64, usize)> = (0..self.threads)
            .filter(|thread| self.states[*thread as usize] == State::Waits)
            .filter_map(|thread| barrier(self, thread).map(|(id, count)| (thread, id, count)))
            .collect();
        for (first, id, count) in &waits {
            let here: Vec<u32> = waits
                .iter()
                .filter(|(_, other, _)| other == id)
                .map(|(thread, ..)| *thread)
                .collect();
            let alive = self.states.iter().filter(|state| **state != State::Ended).count();
            let wanted = if *count == 0 { alive } else { *count };
            if here.len() < wanted {
                continue;
            }
            let pc = self.pcs[*first as usize];
            if *count == 0 && alive < self.threads as usize {
                let text = "threads of the block ended before this barrier";
                machine.find(pc, *first, Mistake::Barrier, text);
            }
            if let Some(other) = here.iter().find(|other| self.pcs[**other as usize] != pc) {
                let text = format!(
                    "other threads of the block are at another barrier: {}",
                    machine.place(self.pcs[*other as usize], *other)
                );
                machine.find(pc, *first, Mistake::Barrier, &text);
            }
            self.combine(machine, &here);
            self.release(&here);
            machine.identities.begin_epoch(self.threads);
            return Ok(true);
        }
        Ok(false)
    }

    fn combine(&mut self, machine: &Machine, here: &[u32]) {
        let votes: Vec<bool> = here
            .iter()
            .map(|thread| {
                let instruction = machine.kernel.code[self.pcs[*thread as usize] as usize];
                self.get(*thread, instruction.c) != 0
            })
            .collect();
        for thread in here {
            let instruction = machine.kernel.code[self.pcs[*thread as usize] as usize];
            if let Operation::BarrierReduce(combine) = instruction.operation {
                self.set(*thread, instruction.d, combined(combine, here, &votes));
            }
        }
    }

    /// Threads wait for others that do not come.
    fn stuck(&self, machine: &Machine) -> Fault {
        let waits = |thread: &u32| self.states[*thread as usize] == State::Waits;
        let thread = (0..self.threads).find(waits).unwrap_or(0);
        let text = format!(
            "{}: the threads that it waits for do not arrive",
            machine.place(self.pcs[thread as usize], thread)
        );
        Fault { code: Code::LAUNCH_TIMEOUT, mistake: Mistake::Barrier, text }
    }
}

fn combined(combine: Combine, threads: &[u32], votes: &[bool]) -> u64 {
    match combine {
        Combine::All => u64::from(votes.iter().all(|vote| *vote)),
        Combine::Any => u64::from(votes.iter().any(|vote| *vote)),
        Combine::Uniform => u64::from(votes.iter().all(|vote| *vote == votes[0])),
        Combine::Count => votes.iter().filter(|vote| **vote).count() as u64,
        Combine::Ballot => threads
            .iter()
            .zip(votes)
            .filter(|(_, vote)| **vote)
            .fold(0, |mask, (thread, _)| mask | 1 << (thread % 32)),
    }
}

/// The lane that a shuffle reads, and whether it is one of its segment.
fn source(mode: ShuffleMode, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (b, clamp, segments) = (b & 31, c & 31, c >> 8 & 31);
    let most = lane & segments | clamp & !segments;
    let least = lane & segments;
    match mode {
        ShuffleMode::Up => (lane.wrapping_sub(b) & 31, lane as i32 - b as i32 >= most as i32),
        ShuffleMode::Down => ((lane + b) & 31, lane + b <= most),
        ShuffleMode::Butterfly => (lane ^ b, lane ^ b <= most),
        ShuffleMode::Index => {
            let from = least | b & !segments;
            (from & 31, from <= most)
        }
    }
}

fn value(machine: &Machine, special: Special, thread: u32, dynamic_shared: u32) -> u64 {
    let [x, y, _] = machine.block;
    let lane = thread % 32;
    let value = match special {
        Special::Thread(axis) => [thread % x, thread / x % y, thread / x / y][axis],
        Special::BlockSize(axis) => machine.block[axis],
        Special::Block(axis) => machine.block_number[axis],
        Special::GridSize(axis) => machine.grid[axis],
        Special::Lane => lane,
        Special::Warp => thread / 32,
        Special::Warps => machine.block.iter().product::<u32>().div_ceil(32),
        Special::MaskEqual => 1 << lane,
        Special::MaskLess => (1 << lane) - 1,
        Special::MaskLessEqual => (1u32 << lane) | ((1 << lane) - 1),
        Special::MaskGreater => !((1u32 << lane) | ((1 << lane) - 1)),
        Special::MaskGreaterEqual => !((1 << lane) - 1),
        Special::DynamicShared => dynamic_shared,
        Special::TotalShared => dynamic_shared + machine.kernel.static_shared,
        Special::Processor => machine.block_number[0] % crate::device::MULTIPROCESSORS,
        Special::Processors => crate::device::MULTIPROCESSORS,
    };
    u64::from(value)
}
