//! A plain model of reductions and gathers, over ndarray, one element at a time.

use half::{bf16, f16};
use ndarray::{ArrayD, Axis, IxDyn, Slice};
use rand::{Rng, RngCore};
use rand_chacha::ChaCha8Rng;
use umbo_core::device::DeviceId;
use umbo_core::tensor::{Element, Shape, Tensor};

/// What the model needs to know of an element type.
pub trait Model: Element {
    type Mean: Element;
    /// Any value (for floats: any of moderate size).
    fn any(random: &mut ChaCha8Rng) -> Self;
    /// A value whose sums are exact in float64 in any order.
    fn simple(random: &mut ChaCha8Rng) -> Self;
    /// The sum over replicas.
    fn sum(values: &[Self]) -> Self;
    /// The mean over replicas.
    fn mean(values: &[Self]) -> Self::Mean;
    /// The sum of simple values.
    fn exact_sum(values: &[Self]) -> Self;
    /// The mean of simple values.
    fn exact_mean(values: &[Self]) -> Self::Mean;
    /// Any value, or one of those that have an order of their own, such as NaN and -0.
    fn special(random: &mut ChaCha8Rng) -> Self;
    /// The smallest value, or the largest one; the quiet NaN if any is NaN; none of none.
    fn extreme(values: &[Self], largest: bool) -> Option<Self>;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($integer:ty => $mean:ty),*) => {$(
        impl Model for $integer {
            type Mean = $mean;
            fn any(random: &mut ChaCha8Rng) -> Self {
                random.next_u64() as $integer
            }
            fn simple(random: &mut ChaCha8Rng) -> Self {
                Self::any(random)
            }
            fn sum(values: &[Self]) -> Self {
                values.iter().map(|&value| value as i128).sum::<i128>() as $integer
            }
            fn mean(values: &[Self]) -> $mean {
                let sum: i128 = values.iter().map(|&value| value as i128).sum();
                (sum as f64 / values.len() as f64) as $mean
            }
            fn exact_sum(values: &[Self]) -> Self {
                Self::sum(values)
            }
            fn exact_mean(values: &[Self]) -> $mean {
                Self::mean(values)
            }
            fn special(random: &mut ChaCha8Rng) -> Self {
                match random.random_range(0..4) {
                    0 => <$integer>::MIN,
                    1 => <$integer>::MAX,
                    _ => Self::any(random),
                }
            }
            fn extreme(values: &[Self], largest: bool) -> Option<Self> {
                let values = values.iter().copied();
                if largest { values.max() } else { values.min() }
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    )*};
}

integers! {
    i8 => f32, u8 => f32, i16 => f32, u16 => f32,
    i32 => f64, u32 => f64, i64 => f64, u64 => f64
}

macro_rules! floats {
    ($($float:ty, $wide:ty, |$value:ident| $widen:expr, |$sum:ident| $narrow:expr;)*) => {$(
        impl Model for $float {
            type Mean = $float;
            fn any(random: &mut ChaCha8Rng) -> Self {
                let digits = random.random_range(-1.0..1.0);
                let $sum = (digits * 10f64.powi(random.random_range(-3..4))) as $wide;
                $narrow
            }
            fn simple(random: &mut ChaCha8Rng) -> Self {
                let $sum = (f64::from(random.random_range(-128..=128)) / 8.0) as $wide;
                $narrow
            }
            fn sum(values: &[Self]) -> Self {
                let wide = values.iter().map(|&$value| $widen);
                let $sum = wide.reduce(|left, right| left + right).unwrap();
                $narrow
            }
            fn mean(values: &[Self]) -> Self {
                let wide = values.iter().map(|&$value| $widen);
                let $sum = wide.reduce(|left, right| left + right).unwrap() / values.len() as $wide;
                $narrow
            }
            fn exact_sum(values: &[Self]) -> Self {
                let wide = values.iter().map(|&$value| $widen as f64);
                let $sum = wide.fold(0.0, |sum, value| sum + value) as $wide;
                $narrow
            }
            fn exact_mean(values: &[Self]) -> Self {
                let wide = values.iter().map(|&$value| $widen as f64);
                let sum = wide.fold(0.0, |sum, value| sum + value);
                Self::rounded(sum / values.len() as f64)
            }
            fn special(random: &mut ChaCha8Rng) -> Self {
                let value = match random.random_range(0..16) {
                    0 => 0.0,
                    1 => -0.0,
                    2 => f32::INFINITY,
                    3 => f32::NEG_INFINITY,
                    4 => f32::from_bits(1 + random.random_range(0..3)),
                    5 => f32::NAN,
                    6 => -f32::NAN,
                    _ => return Self::any(random),
                };
                let $sum = value as $wide;
                $narrow
            }
            fn extreme(values: &[Self], largest: bool) -> Option<Self> {
                let numbers = values.iter().copied();
                if numbers.clone().any(|$value| $widen.is_nan()) {
                    return Some(Self::rounded(f64::NAN));
                }
                match largest {
                    true => numbers.max_by(|left, right| left.total_cmp(right)),
                    false => numbers.min_by(|left, right| left.total_cmp(right)),
                }
            }
            fn plus(self, other: Self) -> Self {
                let left = { let $value = self; $widen };
                let right = { let $value = other; $widen };
                let $sum = left + right;
                $narrow
            }
            fn minus(self, other: Self) -> Self {
                let left = { let $value = self; $widen };
                let right = { let $value = other; $widen };
                let $sum = left - right;
                $narrow
            }
        }
    )*};
}

floats! {
    f16, f32, |value| value.to_f32_const(), |sum| f16::from_f32_const(sum);
    bf16, f32, |value| value.to_f32_const(), |sum| bf16::from_f32_const(sum);
    f32, f64, |value| value as f64, |sum| sum as f32;
    f64, f64, |value| value, |sum| sum;
}

/// A float64 rounded once, by looking for the nearest neighbour.
trait Rounded: Sized {
    fn rounded(value: f64) -> Self;
}

impl Rounded for f64 {
    fn rounded(value: f64) -> f64 {
        value
    }
}

impl Rounded for f32 {
    fn rounded(value: f64) -> f32 {
        value as f32
    }
}

macro_rules! rounded {
    ($($half:ty),*) => {$(
        impl Rounded for $half {
            fn rounded(value: f64) -> $half {
                if value.is_nan() {
                    return <$half>::NAN;
                }
                // The candidates around the doubly rounded value; to even on a tie.
                let near = <$half>::from_f32_const(value as f32).to_bits();
                let candidates = [near.wrapping_sub(1), near, near.wrapping_add(1)];
                let distance = |bits: u16| {
                    (f64::from(<$half>::from_bits(bits).to_f32_const()) - value).abs()
                };
                let nearest = candidates.into_iter().filter(|&bits| distance(bits).is_finite());
                let best = nearest.min_by(|&left, &right| {
                    distance(left).total_cmp(&distance(right)).then((left & 1).cmp(&(right & 1)))
                });
                <$half>::from_bits(best.unwrap_or(near))
            }
        }
    )*};
}

rounded!(f16, bf16);

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Placing {
    Contiguous,
    /// Axes reversed.
    Transposed,
    /// Every second position of a larger tensor, along every axis.
    Sparse,
    /// The middle of a larger tensor along the first axis.
    Part,
}

impl Placing {
    pub const ALL: [Placing; 4] = [
        Placing::Contiguous,
        Placing::Transposed,
        Placing::Sparse,
        Placing::Part,
    ];
}

/// A tensor of `shape` with the elements of `make`, in order of memory, and its model.
pub fn placed<T: Model>(
    shape: &[usize],
    placing: Placing,
    mut make: impl FnMut() -> T,
) -> (Tensor, ArrayD<T>) {
    let mut memory = shape.to_vec();
    match placing {
        Placing::Contiguous => {}
        Placing::Transposed => memory.reverse(),
        Placing::Sparse => memory.iter_mut().for_each(|size| *size *= 2),
        Placing::Part => memory.iter_mut().take(1).for_each(|size| *size += 3),
    }
    let elements = memory.iter().product();
    let data: Vec<T> = (0..elements).map(|_| make()).collect();
    let mut tensor =
        Tensor::from_slice(&data, Shape::new(&memory).unwrap(), DeviceId::HOST).unwrap();
    let mut model = ArrayD::from_shape_vec(IxDyn(&memory), data).unwrap();
    match placing {
        Placing::Contiguous => {}
        Placing::Transposed => {
            let axes: Vec<_> = (0..memory.len()).rev().collect();
            tensor = tensor.transpose(&axes).unwrap();
            model = model.permuted_axes(axes);
        }
        Placing::Sparse => {
            for (axis, &size) in memory.iter().enumerate() {
                tensor = tensor.slice(axis, 0, size, 2).unwrap();
                model.slice_axis_inplace(Axis(axis), Slice::new(0, None, 2));
            }
        }
        Placing::Part => {
            if !memory.is_empty() {
                tensor = tensor.slice(0, 2, 2 + shape[0], 1).unwrap();
                model.slice_axis_inplace(Axis(0), Slice::from(2..2 + shape[0]));
            }
        }
    }
    assert_eq!(&*tensor.shape(), shape);
    (tensor, model)
}

/// The elements of a model in row-major order.
pub fn elements<T: Copy>(model: &ArrayD<T>) -> Vec<T> {
    model.iter().copied().collect()
}

/// The elements of a tensor as bytes, so that NaNs and zeros are compared by their bits.
pub fn bytes_of(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = vec![0; tensor.shape().bytes(tensor.dtype()).unwrap()];
    tensor.copy_to_host(&mut bytes).unwrap();
    bytes
}

/// The elements that make up each result of a reduction of `model` over `axes`, appended to
/// `groups` in row-major order of the results.
pub fn group<T: Copy>(model: &ArrayD<T>, axes: &[usize], groups: &mut Vec<Vec<T>>) {
    let kept: Vec<usize> = (0..model.ndim())
        .filter(|axis| !axes.contains(axis))
        .collect();
    let results: usize = kept.iter().map(|&axis| model.shape()[axis]).product();
    groups.resize_with(results, Vec::new);
    for (index, &value) in model.indexed_iter() {
        let position = kept.iter().fold(0, |position, &axis| {
            position * model.shape()[axis] + index[axis]
        });
        groups[position].push(value);
    }
}

/// Calls a generic function with each numeric element type.
#[macro_export]
macro_rules! for_each_model {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        use half::{bf16, f16};
        $function::<f16>($($argument),*);
        $function::<bf16>($($argument),*);
        $function::<f32>($($argument),*);
        $function::<f64>($($argument),*);
        $function::<i8>($($argument),*);
        $function::<i16>($($argument),*);
        $function::<i32>($($argument),*);
        $function::<i64>($($argument),*);
        $function::<u8>($($argument),*);
        $function::<u16>($($argument),*);
        $function::<u32>($($argument),*);
        $function::<u64>($($argument),*);
    }};
}
