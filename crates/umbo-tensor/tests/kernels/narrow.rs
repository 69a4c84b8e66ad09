//! Rounding to 16 bits.

use std::ops::Range;

use half::{bf16, f16};
use umbo_device::DeviceId;
use umbo_kernels::float::half_precision::{f32_to_bf16, f32_to_f16};
use umbo_kernels::float::narrow::narrow;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::streaming;
use umbo_tensor::{DType, Shape, Tensor};

const ELEMENTS: usize = 1000;

/// Numbers of every kind: ties and their neighbours, denormals, infinities, NaNs.
fn number(index: usize) -> f32 {
    const STEP: u32 = 0x9e37_79b9;
    match index % 5 {
        0 => f32::from_bits((index as u32).wrapping_mul(STEP)),
        1 => f32::from_bits((index as u32).wrapping_mul(STEP) & 0xffff_0000 | 1 << 15),
        2 => f32::from_bits((index as u32) << 9),
        3 => f32::from_bits((113 << 23) - (index as u32 + 1) * 0x1234),
        _ => [f32::INFINITY, -f32::NAN, -0.0, 65519.996, 65520.0][index / 5 % 5],
    }
}

fn narrowed(
    instructions: Instructions,
    dtype: DType,
    ranges: &[Range<usize>],
    streaming: bool,
) -> Vec<u16> {
    let shape = Shape::new(&[ELEMENTS]).unwrap();
    let numbers: Vec<f32> = (0..ELEMENTS).map(number).collect();
    let from = Tensor::from_slice(&numbers, shape, DeviceId::HOST).unwrap();
    let to = Tensor::zeros(dtype, shape, DeviceId::HOST).unwrap();
    let span = from.reading().unwrap().span().unwrap();
    // SAFETY: nobody else has the target, which was just made.
    let mut exclusive = unsafe { to.assume_exclusive() };
    let target = exclusive.writing().unwrap().into_span().unwrap();
    for range in ranges {
        // SAFETY: nobody else has the target.
        unsafe { narrow(instructions, span, &target, range.clone(), streaming) };
    }
    streaming::finish();
    match dtype {
        DType::Float16 => to
            .to_vec::<f16>()
            .unwrap()
            .into_iter()
            .map(f16::to_bits)
            .collect(),
        _ => to
            .to_vec::<bf16>()
            .unwrap()
            .into_iter()
            .map(bf16::to_bits)
            .collect(),
    }
}

#[test]
fn every_set_and_split_gives_the_rounding_and_touches_nothing_else() {
    let splits: [&[Range<usize>]; 4] = [
        &[0..ELEMENTS, 3..3],
        &[0..1, 1..64, 64..999],
        &[5..6, 7..7, 33..150, 160..999],
        &[31..33, 300..309, 900..ELEMENTS],
    ];
    let rounded = |dtype, index| match dtype {
        DType::Float16 => f32_to_f16(number(index)).to_bits(),
        _ => f32_to_bf16(number(index)).to_bits(),
    };
    for instructions in Instructions::all() {
        for dtype in [DType::Float16, DType::BFloat16] {
            for (split, streaming) in splits.iter().flat_map(|s| [(s, false), (s, true)]) {
                let expected: Vec<u16> = (0..ELEMENTS)
                    .map(
                        |index| match split.iter().any(|range| range.contains(&index)) {
                            true => rounded(dtype, index),
                            false => 0,
                        },
                    )
                    .collect();
                let found = narrowed(instructions, dtype, split, streaming);
                assert!(
                    found == expected,
                    "{instructions:?} {dtype} {split:?} {streaming}"
                );
            }
        }
    }
}

#[test]
#[should_panic(expected = "end <= elements")]
fn a_range_that_is_too_long_is_refused() {
    narrowed(
        Instructions::chosen(),
        DType::Float16,
        &[0..1, 0..ELEMENTS + 1],
        false,
    );
}
