//! The place of elements in the memory of a device, in the form in which kernels read it.

use crate::dtype::DType;
use crate::launch::launcher::{Address, plain};
use crate::layout::{Layout, MAX_RANK, Shape};
use crate::strided;

/// Elements in the memory of a device. Unlike a view of the host's memory it guarantees nothing:
/// the functions that use it say what their callers must guarantee.
#[derive(Clone, Copy, Debug)]
pub struct DevicePlace {
    /// The address of the first element.
    pub address: Address,
    /// The element type.
    pub dtype: DType,
    /// Shape and strides.
    pub layout: Layout,
}

impl DevicePlace {
    /// Type and shape.
    pub(super) fn kind(&self) -> (DType, Shape) {
        (self.dtype, self.layout.shape)
    }

    /// The number of elements.
    pub fn elements(&self) -> u64 {
        self.layout.shape.elements() as u64
    }
}

plain! {
    /// A layout with as few axes as possible, in the form in which kernels read it. The innermost
    /// axis is the last.
    pub(super) struct DeviceRuns of 232 bytes {
        axes: u32,
        dense: u32,
        sizes: [u64; MAX_RANK],
        strides: [u64; MAX_RANK],
        factors: [u64; MAX_RANK],
        shifts: [u32; MAX_RANK],
    }
}

impl DeviceRuns {
    /// The runs of a layout.
    pub(super) fn new(layout: &Layout) -> DeviceRuns {
        let runs = strided::Runs::new(layout);
        let mut all = DeviceRuns {
            axes: 0,
            dense: u32::from(runs.is_dense()),
            sizes: [1; MAX_RANK],
            strides: [1; MAX_RANK],
            factors: [0; MAX_RANK],
            shifts: [0; MAX_RANK],
        };
        for (size, stride) in runs.axes().rev() {
            let axis = MAX_RANK - 1 - all.axes as usize;
            (all.sizes[axis], all.strides[axis]) = (size as u64, stride as u64);
            (all.factors[axis], all.shifts[axis]) = divisor(size as u64);
            all.axes += 1;
        }
        all
    }

    /// Whether the elements lie densely, in order.
    pub(super) fn is_dense(&self) -> bool {
        self.dense != 0
    }
}

/// The factor f and the shift s for divisions by `size`: the quotient of any number n and `size` is
/// floor(n · (2^64 + f) / 2^(65 + s)).
pub(super) fn divisor(size: u64) -> (u64, u32) {
    if size <= 1 {
        // The kernels never divide by such a size.
        return (0, 0);
    }
    let digits = size.ilog2();
    if size.is_power_of_two() {
        return (0, digits - 1);
    }
    // The factor has 65 binary digits and is rounded up. The first digit is always 1.
    let power = 1u128 << (64 + digits);
    let size = u128::from(size);
    let doubled = 2 * (power % size);
    let factor = 2 * (power / size) + u128::from(doubled >= size) + 1;
    (factor as u64, digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplications_divide() {
        let powers = (1..64).flat_map(|digits| {
            let power = 1u64 << digits;
            [power - 1, power, power + 1]
        });
        let sizes: Vec<u64> = powers.chain([3, 7, 10, 641, 1_000_003, u64::MAX]).collect();
        for &size in sizes.iter().filter(|&&size| size > 1) {
            let (factor, shift) = divisor(size);
            let near = sizes.iter().flat_map(|&other| {
                [
                    other,
                    other.wrapping_mul(size),
                    other.wrapping_mul(size).wrapping_sub(1),
                ]
            });
            for number in near.chain([0, 1, u64::MAX, u64::MAX - 1]) {
                let part = ((u128::from(number) * u128::from(factor)) >> 64) as u64;
                let quotient = (((number - part) >> 1) + part) >> shift;
                assert_eq!(quotient, number / size, "{number} / {size}");
            }
        }
    }
}
