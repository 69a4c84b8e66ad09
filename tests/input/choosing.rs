//! Elements that are chosen by a function of the program, and rows of elements.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Status};
use umbo_core::input::{Cardinality, Dataset, DistributeOptions, distribute};
use umbo_core::values::Value;

use crate::common::{all, counting, fails, ints, numbers, parts, rest};

fn number(element: &Value) -> i32 {
    ints(element)[0]
}

fn even(dataset: &Dataset) -> Dataset {
    dataset
        .filter(|element| Ok(number(element) % 2 == 0))
        .unwrap()
}

#[test]
fn a_filter_keeps_what_its_function_keeps() {
    let kept = even(&numbers(9));
    assert_eq!(all(&kept), [[0], [2], [4], [6], [8]]);
    assert_eq!(kept.element_spec(), numbers(9).element_spec());
    assert_eq!(kept.cardinality(), Cardinality::Unknown);
    assert_eq!(even(&numbers(0)).cardinality(), Cardinality::Exact(0));
    let endless = even(&numbers(3).repeat(-1).unwrap());
    assert_eq!(endless.cardinality(), Cardinality::Endless);
    assert_eq!(all(&endless.take(5).unwrap()), [[0], [2], [0], [2], [0]]);
    let none = numbers(9).filter(|_| Ok(false)).unwrap();
    assert_eq!(all(&none), Vec::<Vec<i32>>::new());
}

/// Each element is asked about once, also in batches, which are kept or left out as a whole.
#[test]
fn a_filter_asks_once_for_each_element() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let keeps = move |element: &Value| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(ints(element).contains(&4))
    };
    let kept = numbers(10).batch(3, false).unwrap().filter(keeps).unwrap();
    assert_eq!(all(&kept), [[3, 4, 5]]);
    assert_eq!(calls.load(Ordering::Relaxed), 4);
}

#[test]
fn a_filter_whose_function_fails_goes_on_behind_the_element() {
    let keeps = |element: &Value| match number(element) {
        3 => Err(Error::precondition("three")),
        other => Ok(other > 1),
    };
    let iterator = numbers(6).filter(keeps).unwrap().iterator().unwrap();
    assert_eq!(ints(&iterator.next().unwrap().unwrap()), [2]);
    fails(iterator.next(), Status::FailedPrecondition, "three");
    assert_eq!(rest(&iterator, ints), [[4], [5]]);
}

/// Shards of what is left, and batches of it that are split over replicas.
#[test]
fn what_is_left_is_divided() {
    let kept = even(&numbers(12));
    assert_eq!(all(&kept.shard(2, 1).unwrap()), [[2], [6], [10]]);
    let devices = [DeviceId::cpu(0), DeviceId::cpu(1)];
    let batches = kept.batch(4, false).unwrap();
    let distributed = distribute(&batches, 2, &devices, &DistributeOptions::default()).unwrap();
    let steps = rest(&distributed.iterator().unwrap(), parts);
    let expected = [[vec![0, 2], vec![4, 6]], [vec![8], vec![10]]];
    assert_eq!(steps, expected);
}

#[test]
fn rows_become_elements() {
    let batches = numbers(10).batch(4, false).unwrap();
    let rows = batches.unbatch().unwrap();
    assert_eq!(all(&rows), all(&numbers(10)));
    assert_eq!(rows.element_spec(), numbers(10).element_spec());
    assert_eq!(rows.cardinality(), Cardinality::Unknown);
    let full = numbers(10).batch(4, true).unwrap().unbatch().unwrap();
    assert_eq!(full.cardinality(), Cardinality::Exact(8));
    assert_eq!(all(&full), all(&numbers(8)));
    let nothing = numbers(3).batch(4, true).unwrap().unbatch().unwrap();
    assert_eq!(nothing.cardinality(), Cardinality::Exact(0));
    let endless = full.repeat(-1).unwrap().batch(3, true).unwrap();
    let endless = endless.unbatch().unwrap();
    assert_eq!(endless.cardinality(), Cardinality::Endless);
    assert_eq!(
        all(&endless.skip(5).unwrap().take(4).unwrap()),
        [[5], [6], [7], [0]]
    );
}

/// The rows of all tensors of a nest, which are views of them; batches without rows make none.
#[test]
fn rows_of_nests_are_nests_of_rows() {
    let pair = Value::tuple(vec![
        Value::Tensor(counting(&[3, 2])),
        Value::structure(vec![("a".into(), Value::Tensor(counting(&[3])))]).unwrap(),
    ]);
    let element = Dataset::from_tensors(&pair.unwrap()).unwrap();
    let rows = element.unbatch().unwrap();
    assert_eq!(rows.cardinality(), Cardinality::Exact(3));
    let read = |row: &Value| {
        let inner = row.item(1).unwrap();
        (ints(&row.item(0).unwrap()), ints(&inner.item(0).unwrap()))
    };
    let came = rest(&rows.iterator().unwrap(), read);
    let expected = [0, 1, 2].map(|row| (vec![2 * row, 2 * row + 1], vec![row]));
    assert_eq!(came, expected);
    let with_empty = numbers(5).batch(2, false).unwrap();
    let with_empty = with_empty.rebatch(&[0, 2, 0, 0, 1], false).unwrap();
    assert_eq!(all(&with_empty.unbatch().unwrap()), all(&numbers(5)));
}

#[test]
fn what_has_no_rows_is_refused() {
    fails(
        numbers(3).unbatch(),
        Status::InvalidArgument,
        "its elements contain a scalar",
    );
    let unequal = Value::tuple(vec![
        Value::Tensor(counting(&[3])),
        Value::Tensor(counting(&[2])),
    ]);
    let unequal = Dataset::from_tensors(&unequal.unwrap()).unwrap();
    fails(
        unequal.unbatch(),
        Status::InvalidArgument,
        "differ in their number of rows",
    );
}
