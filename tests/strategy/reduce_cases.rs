//! Reductions, gathers and assignments of particular values: sums that wrap, means that divide
//! exactly, no elements, more than 32-bit numbers count, and what is refused.

use std::slice::from_ref;

use crate::model::bytes_of;
use crate::reduce::{HOST, exclusive, fails, row, same_bits, tensor};
use half::bf16;
use umbo_core::collectives::{Assignment, ReduceOp, combine_into, copy_into, gather, reduce};
use umbo_core::error::Status;
use umbo_core::tensor::{DType, Shape, Tensor};

#[test]
fn sums_accumulate_wide_and_integers_wrap() {
    let sum = |components: &[Tensor]| reduce(ReduceOp::Sum, components, None, HOST, None).unwrap();
    let over_axis =
        |tensor: Tensor| reduce(ReduceOp::Sum, &[tensor], Some(&[0]), HOST, None).unwrap();
    let values = [1e8f32, 1.0, -1e8, 1.0];
    same_bits(&sum(&values.map(|value| row(&[value]))), &[2.0f32]);
    same_bits(&over_axis(row(&values)), &[2.0f32]);
    let values = [256.0, 1.0, 1.0, 1.0].map(bf16::from_f32);
    // 259 lies between 258 and 260; the tie goes to the even one.
    same_bits(
        &sum(&values.map(|value| row(&[value]))),
        &[bf16::from_f32(260.0)],
    );
    same_bits(&over_axis(row(&values)), &[bf16::from_f32(260.0)]);
    same_bits(&sum(&[row(&[200u8]), row(&[100u8])]), &[44u8]);
    same_bits(&sum(&[row(&[i32::MAX]), row(&[1i32])]), &[i32::MIN]);
    same_bits(&over_axis(row(&[200u8, 100])), &[44u8]);
    // Denormals stay.
    let smallest = bf16::from_bits(1);
    same_bits(
        &sum(&[row(&[smallest]), row(&[smallest])]),
        &[bf16::from_bits(2)],
    );
}

#[test]
fn means_divide_exactly_and_by_the_whole_count() {
    let mean = |components: &[Tensor], axes: Option<&[i64]>| {
        reduce(ReduceOp::Mean, components, axes, HOST, None).unwrap()
    };
    same_bits(
        &mean(
            &[row(&[0.0f32, 1.0, 2.0, 3.0]), row(&[4.0f32, 5.0])],
            Some(&[0]),
        ),
        &[2.5f32],
    );
    // One component has the dtype of many.
    same_bits(&mean(&[row(&[7i32])], None), &[7.0f64]);
    same_bits(&mean(&[row(&[3i16]), row(&[4i16])], None), &[3.5f32]);
    // Neither the sum nor the count is held in the integers' type.
    let many = row(&vec![255u8; 300]);
    same_bits(&mean(&[many.clone(), many], Some(&[0])), &[255.0f32]);
    same_bits(
        &mean(&[row(&[u64::MAX]), row(&[u64::MAX])], None),
        &[u64::MAX as f64],
    );
    let empty = || row::<i32>(&[]);
    same_bits(&mean(&[row(&[1i32, 2]), empty()], Some(&[0])), &[1.5f64]);
    same_bits(&mean(&[empty(), empty()], Some(&[0])), &[f64::NAN]);
    let sum = reduce(ReduceOp::Sum, &[empty(), empty()], Some(&[0]), HOST, None).unwrap();
    same_bits(&sum, &[0i32]);
    // All axes, and the example with 28 of the reference's guide.
    let parts = [
        tensor(&[0i32, 1, 2, 3], &[4, 1]),
        tensor(&[4i32, 5, 6, 7], &[4, 1]),
    ];
    same_bits(
        &reduce(ReduceOp::Sum, &parts, Some(&[0, 1]), HOST, None).unwrap(),
        &[28i32],
    );
}

#[test]
fn extremes_of_bool_are_all_and_any() {
    let flags = |bytes: &[u8]| {
        let shape = Shape::new(&[bytes.len()]).unwrap();
        Tensor::from_bytes(DType::Bool, shape, bytes, HOST).unwrap()
    };
    let parts = [flags(&[0, 0, 1, 1]), flags(&[0, 1, 0, 1])];
    for (op, over_replicas, over_both) in [
        (ReduceOp::Min, [0, 0, 0, 1], 0),
        (ReduceOp::Max, [0, 1, 1, 1], 1),
    ] {
        let result = reduce(op, &parts, None, HOST, None).unwrap();
        assert_eq!(result.dtype(), DType::Bool);
        assert_eq!(bytes_of(&result), over_replicas);
        let result = reduce(op, &parts, Some(&[0]), HOST, None).unwrap();
        assert_eq!(bytes_of(&result), [over_both]);
    }
}

#[test]
fn extremes_of_no_elements_are_refused_unless_there_is_no_result() {
    let empty = || row::<f32>(&[]);
    let min = |components: &[Tensor], axes: &[i64]| {
        reduce(ReduceOp::Min, components, Some(axes), HOST, None)
    };
    fails(
        min(&[empty(), empty()], &[0]),
        Status::InvalidArgument,
        &["all components are empty", "MIN"],
    );
    same_bits(&min(&[empty(), row(&[3f32, 2.0])], &[0]).unwrap(), &[2f32]);
    assert_eq!(min(&[empty(), empty()], &[]).unwrap().shape()[0], 0);
    let no_columns = || tensor::<f32>(&[], &[2, 0]);
    assert_eq!(
        min(&[no_columns(), no_columns()], &[0]).unwrap().shape()[0],
        0
    );
}

/// As many elements as no 32-bit number counts. To be run with `make test-large`.
#[test]
#[ignore = "needs 10 GiB of memory"]
fn more_than_two_to_the_31_elements_are_reduced_and_gathered() {
    let count = (1usize << 31) + 77;
    let filled = |last: u8| {
        let tensor = Tensor::zeros(DType::UInt8, Shape::new(&[count]).unwrap(), HOST).unwrap();
        let end = tensor.slice(0, count - 1, count, 1).unwrap();
        exclusive(&end).copy_from(&row(&[last])).unwrap();
        tensor
    };
    let at = |tensor: &Tensor, position: usize| {
        tensor
            .slice(0, position, position + 1, 1)
            .unwrap()
            .to_vec::<u8>()
            .unwrap()[0]
    };
    let parts = [filled(3), filled(4)];
    let sum = reduce(ReduceOp::Sum, &parts, None, HOST, None).unwrap();
    assert_eq!(
        [0, count / 2, count - 2, count - 1].map(|position| at(&sum, position)),
        [0, 0, 0, 7]
    );
    let total = reduce(ReduceOp::Mean, &parts, Some(&[0]), HOST, None).unwrap();
    same_bits(&total, &[(7.0 / (2.0 * count as f64)) as f32]);
    drop(sum);
    let both = gather(&parts, 0, HOST, None).unwrap();
    assert_eq!(both.shape()[0], 2 * count);
    let positions = [count - 2, count - 1, count, 2 * count - 2, 2 * count - 1];
    assert_eq!(
        positions.map(|position| at(&both, position)),
        [0, 3, 0, 0, 4]
    );
}

#[test]
fn reductions_refuse_what_does_not_fit() {
    let sum = |components: &[Tensor], axes: Option<&[i64]>, output: Option<&Tensor>| {
        reduce(ReduceOp::Sum, components, axes, HOST, output.map(exclusive))
    };
    let invalid = Status::InvalidArgument;
    let pair = [row(&[1f32, 2.0]), row(&[3f32, 4.0])];
    fails(sum(&[], None, None), invalid, &["no components"]);
    let uneven = [tensor(&[1f32; 8], &[4, 2]), tensor(&[1f32; 6], &[3, 2])];
    let shapes = ["replica 0 [4, 2]", "replica 1 [3, 2]"];
    fails(
        sum(&uneven, None, None),
        invalid,
        &[shapes[0], shapes[1], "on each replica first"],
    );
    fails(
        sum(&uneven, Some(&[]), None),
        invalid,
        &[shapes[0], shapes[1], "pass axes = {0}"],
    );
    fails(
        sum(&uneven, Some(&[1]), None),
        invalid,
        &["replica 1 [3, 2]", "add 0 to axes"],
    );
    fails(
        sum(&[pair[0].clone(), row(&[1i32, 2])], None, None),
        invalid,
        &["replica 1 int32"],
    );
    fails(
        sum(&[pair[0].clone(), tensor(&[1f32], &[])], None, None),
        invalid,
        &["ranks"],
    );
    fails(
        sum(&pair, Some(&[1]), None),
        Status::OutOfRange,
        &["[-1, 1)"],
    );
    fails(sum(&pair, Some(&[0, -1]), None), invalid, &["twice"]);
    let scalar = Tensor::scalar(1f32).unwrap();
    fails(
        sum(from_ref(&scalar), Some(&[0]), None),
        Status::OutOfRange,
        &["axis"],
    );
    let flags = Tensor::from_bytes(DType::Bool, Shape::new(&[2]).unwrap(), &[0, 1], HOST).unwrap();
    fails(sum(from_ref(&flags), None, None), invalid, &["bool"]);
    fails(sum(from_ref(&flags), Some(&[0]), None), invalid, &["bool"]);
    fails(
        combine_into(Assignment::Add, &mut exclusive(&flags), &flags),
        invalid,
        &["bool"],
    );
    fails(sum(&pair, None, Some(&scalar)), invalid, &["output", "[2]"]);
    fails(
        sum(&pair, None, Some(&row(&[0i32; 2]))),
        invalid,
        &["output", "float32"],
    );
    fails(
        sum(&pair, None, Some(&pair[1])),
        invalid,
        &["output", "replica 1"],
    );
    fails(
        copy_into(&pair[0], &mut exclusive(&scalar)),
        invalid,
        &["[2]"],
    );
}

#[test]
fn gathers_refuse_what_does_not_fit_and_take_any_dtype() {
    let invalid = Status::InvalidArgument;
    let all = |components: &[Tensor], axis| gather(components, axis, HOST, None);
    let parts = [tensor(&[1f32; 6], &[2, 3]), tensor(&[1f32; 8], &[2, 4])];
    fails(
        all(&parts, 0),
        invalid,
        &["replica 0 [2, 3]", "replica 1 [2, 4]"],
    );
    fails(all(&parts, 2), Status::OutOfRange, &["[-2, 2)"]);
    fails(
        all(&[parts[0].clone(), row(&[1f32])], 0),
        invalid,
        &["ranks", "replica 1 [1]"],
    );
    fails(
        all(&[row(&[1f32]), row(&[1i8])], 0),
        invalid,
        &["replica 1 int8"],
    );
    fails(
        all(&[Tensor::scalar(1f32).unwrap()], 0),
        invalid,
        &["scalars"],
    );
    fails(
        gather(&parts, 1, HOST, Some(exclusive(&parts[0]))),
        invalid,
        &["output"],
    );
    let huge = Shape::new(&[0, 1 << 40]).unwrap();
    let huge = Tensor::zeros(DType::Float32, huge, HOST).unwrap();
    fails(all(&vec![huge; 1 << 23], 1), invalid, &["shape"]);
    let flags = |bytes: &[u8]| {
        Tensor::from_bytes(
            DType::Bool,
            Shape::new(&[bytes.len()]).unwrap(),
            bytes,
            HOST,
        )
        .unwrap()
    };
    let result = all(&[flags(&[1, 0]), flags(&[]), flags(&[1])], 0).unwrap();
    assert_eq!(
        (result.dtype(), bytes_of(&result)),
        (DType::Bool, vec![1, 0, 1])
    );
}

#[test]
fn assignments_may_share_memory() {
    let base = row(&[1i32, 2, 3, 4]);
    let low = base.slice(0, 0, 3, 1).unwrap();
    let high = base.slice(0, 1, 4, 1).unwrap();
    combine_into(Assignment::Assign, &mut exclusive(&high), &low).unwrap();
    same_bits(&base, &[1i32, 1, 2, 3]);
    combine_into(Assignment::Add, &mut exclusive(&base), &base).unwrap();
    same_bits(&base, &[2i32, 2, 4, 6]);
    combine_into(Assignment::Assign, &mut exclusive(&base), &base).unwrap();
    combine_into(Assignment::Subtract, &mut exclusive(&low), &high).unwrap();
    same_bits(&base, &[0i32, -2, -2, 6]);
    assert_eq!(base.to_vec::<i32>().unwrap(), [0, -2, -2, 6]);
    fails(base.to_vec::<f32>(), Status::InvalidArgument, &["int32"]);
    fails(
        base.copy_to_host(&mut [0; 3]),
        Status::InvalidArgument,
        &["16"],
    );
}
