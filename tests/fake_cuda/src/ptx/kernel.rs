//! A kernel ready to be executed: names have become numbers.

use super::instructions::Function;

/// A register of a thread by its number.
pub type Register = u32;

/// Where memory is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Space {
    #[default]
    Global,
    Shared,
    Parameter,
}

#[derive(Clone, Copy)]
pub enum Operation {
    Compute(Function),
    /// The address is in `a`; the number is that of an `Access`.
    Load(u32),
    Store(u32),
    Branch(u32),
    /// All threads of the block meet.
    Barrier,
    Exit,
}

#[derive(Clone, Copy)]
pub struct Instruction {
    pub operation: Operation,
    /// It runs if this register is zero exactly if `inverted`.
    pub guard: Register,
    pub inverted: bool,
    pub d: Register,
    pub a: Register,
    pub b: Register,
    pub c: Register,
}

/// What a load or a store does beside its address.
#[derive(Clone, Default)]
pub struct Access {
    pub space: Space,
    pub offset: i64,
    /// Bytes of one element.
    pub bytes: u32,
    /// One or two registers.
    pub registers: Vec<Register>,
    /// A loaded element is signed and is extended by its sign to so many bytes.
    pub extends: Option<u32>,
    /// Other threads may access the same bytes.
    pub volatile: bool,
}

/// A value that the place of a thread decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    Thread,
    BlockSize,
    Block(usize),
}

/// One parameter: where it lies among all of them, and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    pub offset: u32,
    pub bytes: u32,
}

#[derive(Default)]
pub struct Kernel {
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub parameter_bytes: u32,
    pub code: Vec<Instruction>,
    /// What each instruction is and where it stands, for reports.
    pub texts: Vec<(u32, Box<str>)>,
    pub accesses: Vec<Access>,
    /// The registers of a thread when it starts.
    pub initial: Vec<u64>,
    pub specials: Vec<(Register, Special)>,
    pub shared_bytes: u32,
    pub max_threads: u32,
}

/// So many bytes of ones.
pub fn mask(bytes: u32) -> u64 {
    if bytes >= 8 {
        u64::MAX
    } else {
        (1 << (bytes * 8)) - 1
    }
}
