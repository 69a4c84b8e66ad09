//! A kernel ready to be executed: names have become numbers.

use super::types::Space;

/// Addresses of shared and local memory that stand among all others begin here.
pub const SHARED_WINDOW: u64 = 1 << 56;
pub const LOCAL_WINDOW: u64 = 1 << 57;

pub type Unary = fn(u64) -> u64;
pub type Binary = fn(u64, u64) -> u64;
pub type Ternary = fn(u64, u64, u64) -> u64;

/// A register of a thread by its number.
pub type Register = u32;

#[derive(Clone, Copy)]
pub enum Operation {
    Unary(Unary),
    Binary(Binary),
    Ternary(Ternary),
    /// The address is in `a`; the number is that of an `Access`.
    Load(u32),
    Store(u32),
    /// The address is in `a`, operands in `b` and `c`.
    Atomic(u32),
    Branch(u32),
    /// All threads of a block; `a` is the barrier, `b` how many threads, 0 for all.
    Barrier,
    /// A barrier that also combines the predicates in `c`.
    BarrierReduce(Combine),
    /// The threads of a warp that `a` names.
    WarpBarrier,
    /// `d` gets `a` of another lane: `b` says which; `c` has the segments; the number is that of a
    /// `Shuffle`.
    Shuffle(u32),
    /// Combines the predicates `a` of the lanes in mask `b`.
    Vote(Combine),
    /// Combines the integers `a` of the lanes in mask `b`; the function is the combination.
    Reduce(Binary),
    /// `d` gets the mask of the lanes that run.
    ActiveMask,
    Fence,
    Exit,
    Trap,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Combine {
    All,
    Any,
    Uniform,
    Ballot,
    Count,
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

/// What a load, a store or an atomic operation does beside its address.
#[derive(Clone)]
pub struct Access {
    pub space: Space,
    pub offset: i64,
    /// Bytes of one element.
    pub bytes: u32,
    pub count: u32,
    pub registers: [Register; 4],
    /// What is done to a loaded element.
    pub extend: Option<Unary>,
    /// What an atomic operation makes of the old value and its operand.
    pub combine: Option<Binary>,
    /// A compare-and-swap.
    pub swap: bool,
    /// Other threads may access the same bytes: volatile, relaxed, acquire, release.
    pub shared_use: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShuffleMode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy)]
pub struct Shuffle {
    pub mode: ShuffleMode,
    /// The lanes that take part.
    pub members: Register,
    /// Gets whether the other lane was there.
    pub valid: Option<Register>,
}

/// A value that the place of a thread decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    Thread(usize),
    BlockSize(usize),
    Block(usize),
    GridSize(usize),
    Lane,
    Warp,
    Warps,
    MaskEqual,
    MaskLess,
    MaskLessEqual,
    MaskGreater,
    MaskGreaterEqual,
    DynamicShared,
    TotalShared,
    /// The processor that runs the block, of so many.
    Processor,
    Processors,
}

/// One parameter: where it lies among all of them, and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    pub offset: u32,
    pub bytes: u32,
}

pub struct Kernel {
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub parameter_bytes: u32,
    pub code: Vec<Instruction>,
    /// What each instruction is and where it stands: for reports and counts.
    pub texts: Vec<(u32, Box<str>)>,
    pub accesses: Vec<Access>,
    pub shuffles: Vec<Shuffle>,
    /// The registers of a thread when it starts.
    pub initial: Vec<u64>,
    pub specials: Vec<(Register, Special)>,
    /// Shared memory that does not depend on the launch, and what it is aligned to.
    pub static_shared: u32,
    pub local: u32,
    pub max_threads: u32,
    /// Registers as a compiler would count them, roughly.
    pub register_count: u32,
}
