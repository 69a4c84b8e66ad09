//! Tensors of these tests: bytes with a layout, that the CPU's kernels and a machine get copies of.

use std::collections::HashMap;

use half::{bf16, f16};
use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::launch::{Address, DevicePlace};
use umbo_core::kernels::layout::{Layout, Shape};
use umbo_core::kernels::view::{Span, SpanMut, View, ViewMut};

use crate::machine::Machine;

/// How many elements of a kind are drawn: a number that no size of a chunk or a tile divides.
const DRAWN: usize = 12_007;

/// Random numbers that are the same in every run.
pub struct Noise {
    state: u64,
    /// The bytes of elements, by type and whether they are tame.
    drawn: HashMap<(u8, bool), Vec<u8>>,
}

impl Noise {
    pub fn new(seed: u64) -> Noise {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Noise {
            state,
            drawn: HashMap::new(),
        }
    }

    pub fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Adds as many elements, tame or not, out of those that are drawn once: from another place at
    /// each call. To draw them all would take longer than the kernels do.
    fn add_elements(&mut self, dtype: DType, tame: bool, mut count: usize, to: &mut Vec<u8>) {
        let key = (dtype as u8, tame);
        let size = dtype.size();
        let draw = |noise: &mut Noise| {
            let element = if tame {
                noise.tame(dtype)
            } else {
                noise.element(dtype)
            };
            element.to_ne_bytes()
        };
        let drawn = self.drawn.remove(&key).unwrap_or_else(|| {
            (0..DRAWN)
                .flat_map(|_| draw(self).into_iter().take(size))
                .collect()
        });
        let mut start = self.below(DRAWN);
        while count > 0 {
            let some = count.min(DRAWN - start);
            to.extend_from_slice(&drawn[start * size..(start + some) * size]);
            (count, start) = (count - some, 0);
        }
        self.drawn.insert(key, drawn);
    }

    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// An element of a type: of any bits, or of those where rounding and range matter.
    pub fn element(&mut self, dtype: DType) -> u64 {
        let any = self.next();
        let kind = self.below(16);
        let (mantissa, width) = match dtype {
            DType::Float16 => (10, 16),
            DType::BFloat16 => (7, 16),
            DType::Float32 => (23, 32),
            DType::Float64 => (52, 64),
            DType::Bool => return any & 1,
            integer => {
                let bits = 8 * integer.size() as u32;
                let mask = u64::MAX >> (64 - bits);
                return mask
                    & match kind {
                        0 => 0,
                        1 => u64::MAX,
                        2 => 1 << (bits - 1),
                        3 => u64::MAX >> (65 - bits),
                        _ => any,
                    };
            }
        };
        let exponents = width - 1 - mantissa;
        let sign = (any >> 63) << (width - 1);
        let bias = (1u64 << (exponents - 1)) - 1;
        let fraction = any & ((1 << mantissa) - 1);
        let infinity = ((1u64 << exponents) - 1) << mantissa;
        sign | match kind {
            0 => 0,
            1 => infinity,
            2 => infinity | 1 << (mantissa - 1),
            3 => infinity - 1,
            4 => fraction,
            5 => 1 + fraction % 3,
            6 => (1 << mantissa) + fraction % 3,
            7 => any & (infinity | fraction),
            // Near 1, with few digits or many: what cancels, and what is a tie.
            8..=10 => ((bias - 2 + any % 4) << mantissa) | fraction,
            11 => ((bias - 8 + (any >> 32) % 16) << mantissa) | (fraction & !0 << (mantissa / 2)),
            _ => ((bias - 1 + (any >> 40) % 3) << mantissa) | fraction,
        }
    }

    /// A number that does not make everything around it infinite or NaN.
    pub fn tame(&mut self, dtype: DType) -> u64 {
        let number = (self.next() >> 11) as f64 / (1u64 << 53) as f64 - 0.4;
        let number = number * 2f64.powi(self.below(12) as i32 - 6);
        match dtype {
            DType::Float16 => f16::from_f64(number).to_bits().into(),
            DType::BFloat16 => bf16::from_f64(number).to_bits().into(),
            DType::Float32 => (number as f32).to_bits().into(),
            DType::Float64 => number.to_bits(),
            _ => self.element(dtype),
        }
    }
}

/// Elements with a layout, some of them before and behind it.
#[derive(Clone)]
pub struct Memory {
    words: Vec<u64>,
    bytes: usize,
    pub dtype: DType,
    pub layout: Layout,
    offset: usize,
}

/// How a tensor lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    Dense,
    /// From the third element of its memory on.
    Shifted,
    /// The axes in the other order.
    Transposed,
    /// Every second element of every axis.
    Spaced,
}

pub const LIES: [Lie; 4] = [Lie::Dense, Lie::Shifted, Lie::Transposed, Lie::Spaced];

impl Memory {
    pub fn new(
        dtype: DType,
        shape: &[usize],
        lie: Lie,
        mut element: impl FnMut() -> u64,
    ) -> Memory {
        let size = dtype.size();
        Memory::of(dtype, shape, lie, |elements, bytes| {
            for _ in 0..elements {
                bytes.extend_from_slice(&element().to_ne_bytes()[..size]);
            }
        })
    }

    /// One whose bytes, of so many elements, `add` adds.
    fn of(
        dtype: DType,
        shape: &[usize],
        lie: Lie,
        add: impl FnOnce(usize, &mut Vec<u8>),
    ) -> Memory {
        let shape = Shape::new(shape).unwrap();
        let mut strides = vec![0isize; shape.rank()];
        let mut extent = 1isize;
        let axes: Vec<usize> = match lie {
            Lie::Transposed => (0..shape.rank()).collect(),
            _ => (0..shape.rank()).rev().collect(),
        };
        for axis in axes {
            strides[axis] = if lie == Lie::Spaced {
                2 * extent
            } else {
                extent
            };
            extent *= shape[axis].max(1) as isize * if lie == Lie::Spaced { 2 } else { 1 };
        }
        let layout = Layout::strided(shape, &strides).unwrap();
        let offset = if lie == Lie::Dense { 0 } else { 3 };
        let elements = offset + extent as usize + 5;
        let mut bytes = Vec::with_capacity(elements * dtype.size());
        add(elements, &mut bytes);
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        let count = bytes.len();
        // SAFETY: the words have room for as many bytes.
        unsafe {
            words
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), count)
        };
        Memory {
            words,
            bytes: count,
            dtype,
            layout,
            offset,
        }
    }

    /// One of noise.
    pub fn noise(dtype: DType, shape: &[usize], lie: Lie, noise: &mut Noise) -> Memory {
        Memory::of(dtype, shape, lie, |count, to| {
            noise.add_elements(dtype, false, count, to)
        })
    }

    /// A dense one of noise, tame or not.
    pub fn dense(dtype: DType, elements: usize, tame: bool, noise: &mut Noise) -> Memory {
        let draw = |count, to: &mut Vec<u8>| noise.add_elements(dtype, tame, count, to);
        Memory::of(dtype, &[elements], Lie::Dense, draw)
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the words are as many bytes.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.bytes) }
    }

    /// Changes some bytes.
    pub fn write(&mut self, range: std::ops::Range<usize>, bytes: &[u8]) {
        assert!(range.end <= self.bytes && range.len() == bytes.len());
        let first = self.words.as_mut_ptr().cast::<u8>();
        // SAFETY: the range lies within the words.
        unsafe {
            first
                .add(range.start)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
    }

    /// Takes the signs of all elements away, which are floats.
    pub fn make_positive(&mut self) {
        let signs = match self.dtype.size() {
            2 => 0x8000_8000_8000_8000,
            4 => 0x8000_0000_8000_0000,
            _ => 1 << 63,
        };
        self.words.iter_mut().for_each(|word| *word &= !signs);
    }

    pub fn view(&self) -> View<'_> {
        let data = self.bytes()[self.offset * self.dtype.size()..].as_ptr();
        // SAFETY: the layout lies in the memory, which is borrowed.
        unsafe { View::new(data, self.dtype, self.layout) }
    }

    pub fn view_mut(&mut self) -> ViewMut<'_> {
        let data = self.words.as_mut_ptr().cast::<u8>();
        let data = data.wrapping_add(self.offset * self.dtype.size());
        // SAFETY: the layout lies in the memory, which is borrowed by the view alone.
        unsafe { ViewMut::new(data, self.dtype, self.layout) }
    }

    pub fn span(&self) -> Span<'_> {
        self.view().span().unwrap()
    }

    pub fn span_mut(&mut self) -> SpanMut<'_> {
        self.view_mut().into_span().unwrap()
    }

    /// A copy in the memory of a machine.
    pub fn on(&self, machine: &dyn Machine) -> DevicePlace {
        let address = machine.memory(self.bytes());
        let address = address + (self.offset * self.dtype.size()) as Address;
        DevicePlace {
            address,
            dtype: self.dtype,
            layout: self.layout,
        }
    }

    /// Fails unless the machine's copy holds the same, elements around it included; NaNs are alike.
    pub fn check(&self, machine: &dyn Machine, place: &DevicePlace, context: &dyn Fn() -> String) {
        let size = self.dtype.size();
        let first = place.address - (self.offset * size) as Address;
        let found = machine.read(first, self.bytes);
        if found == self.bytes() {
            return;
        }
        let both = found
            .chunks(size)
            .zip(self.bytes().chunks(size))
            .enumerate();
        for (position, (found, expected)) in both {
            if found != expected && !(is_nan(self.dtype, found) && is_nan(self.dtype, expected)) {
                panic!(
                    "{}: element {position} of the memory is {found:x?}, not {expected:x?}",
                    context()
                );
            }
        }
    }
}

fn is_nan(dtype: DType, bytes: &[u8]) -> bool {
    match dtype {
        DType::Float16 => f16::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        DType::BFloat16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        DType::Float32 => f32::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        DType::Float64 => f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        _ => false,
    }
}
