//! Sums of rows.

use umbo_device::DeviceId;
use umbo_kernels::instruction_set::Instructions;
use umbo_kernels::rows::order::RowOrder;
use umbo_kernels::rows::sum::{RowPart, RowSums};
use umbo_tensor::{Element, Shape, Tensor};

fn rows<T: Element>(values: &[T], width: usize) -> Tensor {
    let shape = Shape::new(&[values.len() / width, width]).unwrap();
    Tensor::from_slice(values, shape, DeviceId::HOST).unwrap()
}

fn summed(order: &RowOrder, before: Option<&Tensor>, parts: &[(&Tensor, f64)]) -> Vec<f64> {
    summed_by(Instructions::chosen(), order, before, parts)
}

fn summed_by(
    instructions: Instructions,
    order: &RowOrder,
    before: Option<&Tensor>,
    parts: &[(&Tensor, f64)],
) -> Vec<f64> {
    let width = parts[0].0.shape()[1];
    let shape = Shape::new(&[order.rows(), width]).unwrap();
    let sums = Tensor::from_slice(&vec![7.0; shape.elements()], shape, DeviceId::HOST).unwrap();
    let parts: Vec<RowPart> = parts
        .iter()
        .map(|&(part, factor)| RowPart {
            values: part.span().unwrap(),
            rows: part.shape()[0],
            factor,
        })
        .collect();
    let accumulated = before.map(|before| before.span().unwrap());
    // SAFETY: nobody else has the sums.
    unsafe {
        let to = sums.assume_exclusive().into_span().unwrap();
        RowSums::new(order, accumulated, &parts, width).write_to(instructions, &to);
    }
    sums.reading().unwrap().as_slice().unwrap().to_vec()
}

fn order(rows: &[usize]) -> RowOrder {
    let mut order = RowOrder::default();
    order.start(rows.len()).unwrap();
    order.add_rows(rows);
    order.sort(100);
    order
}

#[test]
fn entries_are_added_with_their_factors() {
    let a = rows(&[1.0f32, 2.0, 3.0, 4.0], 2);
    let b = rows(&[5.0f32, 6.0], 2);
    let empty = rows::<f32>(&[], 2);
    let parts = [(&a, 1.0), (&empty, 9.0), (&b, 0.5)];
    assert_eq!(
        summed(&order(&[8, 3, 8]), None, &parts),
        [3.0, 4.0, 3.5, 5.0]
    );
    let before = rows(&[100.0, 200.0], 2);
    let sums = summed(&order(&[8, 8, 3, 8]), Some(&before), &parts);
    assert_eq!(sums, [3.0, 4.0, 103.5, 205.0]);
}

/// 1e8 + 1 − 1e8 is 0 in float32.
#[test]
fn sums_are_wider_than_float32() {
    let part = rows(&[1e8f32, 1.0, -1e8], 1);
    assert_eq!(summed(&order(&[0, 0, 0]), None, &[(&part, 1.0)]), [1.0]);
}

#[test]
fn workers_and_instruction_sets_give_the_same_bits() {
    const ENTRIES: usize = 3000;
    const WIDTH: usize = 33;
    let noise = |index: usize| ((index * 7919) % 1009) as f32 / 1009.0 - 0.3;
    let values: Vec<f32> = (0..ENTRIES * WIDTH).map(noise).collect();
    let part = rows(&values, WIDTH);
    // A third of all entries name one row.
    let named: Vec<usize> = (0..ENTRIES)
        .map(|index| if index % 3 == 0 { 5 } else { index % 97 })
        .collect();
    let order = order(&named);
    let mut results = Vec::new();
    for instructions in Instructions::all() {
        results.push(summed_by(instructions, &order, None, &[(&part, 1.0 / 3.0)]));
    }
    let mut expected = vec![0.0; 97 * WIDTH];
    for (entry, &row) in named.iter().enumerate() {
        for element in 0..WIDTH {
            expected[row * WIDTH + element] +=
                1.0 / 3.0 * f64::from(values[entry * WIDTH + element]);
        }
    }
    assert!(results.iter().all(|result| *result == expected));
}
