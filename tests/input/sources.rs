//! Tensor slices, structures, element specs.

use crate::common::{all, counting, fails, ints, numbers, read, rest};
use umbo_core::device::DeviceId;
use umbo_core::error::Status;
use umbo_core::input::{Cardinality, Dataset, ElementSpec, LeafSpec, ShuffleOptions};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

fn leaf(dtype: DType, shape: &[Option<usize>]) -> ElementSpec {
    ElementSpec::Leaf(LeafSpec {
        dtype,
        shape: shape.to_vec(),
    })
}

#[test]
fn slices_keep_the_structure() {
    let x = counting(&[3, 2]);
    let y = Tensor::from_slice(
        &[0.5f32, 1.5, 2.5],
        Shape::new(&[3]).unwrap(),
        DeviceId::HOST,
    );
    let pair = Value::tuple(vec![Value::Tensor(x), Value::Tensor(y.unwrap())]).unwrap();
    let nest = Value::structure(vec![("pair".into(), pair)]).unwrap();
    let dataset = Dataset::from_tensor_slices(&nest).unwrap();
    assert_eq!(dataset.cardinality(), Cardinality::Exact(3));
    let spec = |rows: &[Option<usize>]| {
        let x = leaf(DType::Int32, &[rows, &[Some(2)]].concat());
        let items = ElementSpec::tuple(vec![x, leaf(DType::Float32, rows)]).unwrap();
        ElementSpec::structure(vec![("pair".into(), items)]).unwrap()
    };
    assert_eq!(*dataset.element_spec(), spec(&[]));
    assert_eq!(
        *dataset.batch(2, false).unwrap().element_spec(),
        spec(&[None])
    );
    assert_eq!(
        *dataset.batch(2, true).unwrap().element_spec(),
        spec(&[Some(2)])
    );

    let seen = rest(&dataset.iterator().unwrap(), |element| {
        let y = element
            .at_path("pair.1")
            .unwrap()
            .tensor_of(0)
            .unwrap()
            .clone();
        assert_eq!(y.shape().rank(), 0);
        (ints(element.at_path("pair.0").unwrap()), read::<f32>(&y)[0])
    });
    assert_eq!(
        seen,
        [(vec![0, 1], 0.5), (vec![2, 3], 1.5), (vec![4, 5], 2.5)]
    );
}

#[test]
fn slices_refuse_what_has_none() {
    let slices = |value: Value| Dataset::from_tensor_slices(&value);
    let scalar = Value::Tensor(Tensor::scalar(1i32).unwrap());
    fails(slices(scalar), Status::InvalidArgument, "scalar");
    let uneven = vec![
        Value::Tensor(counting(&[3])),
        Value::Tensor(counting(&[4, 2])),
    ];
    fails(
        slices(Value::tuple(uneven).unwrap()),
        Status::InvalidArgument,
        "3 in tensor 0",
    );
    fails(
        slices(Value::tuple(vec![]).unwrap()),
        Status::InvalidArgument,
        "no tensor",
    );
    let parts = Value::per_replica(vec![counting(&[3])]).unwrap();
    fails(slices(parts), Status::InvalidArgument, "per-replica");
}

#[test]
fn batches_in_order_are_read_only_views_of_the_array() {
    let array = counting(&[10, 3]);
    let dataset = Dataset::from_tensor_slices(&Value::Tensor(array.clone())).unwrap();
    let batches = dataset.skip(1).unwrap().batch(4, false).unwrap();
    let iterator = batches.iterator().unwrap();
    let first = iterator.next().unwrap().unwrap();
    let tensor = first.tensor_of(0).unwrap();
    assert_eq!(tensor.address(), array.slice(0, 1, 5, 1).unwrap().address());
    assert!(tensor.is_read_only());
}

#[test]
fn zip_makes_tuples_and_structs_and_ends_with_the_shortest() {
    let x = numbers(5);
    let y = numbers(3).batch(1, false).unwrap();
    let zipped = Dataset::zip(&[x.clone(), y.clone()], Some(&["x", "y"])).unwrap();
    assert_eq!(zipped.cardinality(), Cardinality::Exact(3));
    let iterator = zipped.iterator().unwrap();
    let seen = rest(&iterator, |element| {
        (
            ints(element.at_path("x").unwrap()),
            ints(element.at_path("y").unwrap()),
        )
    });
    assert_eq!(
        seen,
        [(vec![0], vec![0]), (vec![1], vec![1]), (vec![2], vec![2])]
    );
    assert!(iterator.next().unwrap().is_none());

    let rows = Dataset::zip(&[x.clone(), numbers(2)], None).unwrap();
    assert_eq!(rows.cardinality(), Cardinality::Exact(2));
    let seen = rest(
        &rows.batch(2, false).unwrap().iterator().unwrap(),
        |element| {
            (
                ints(&element.item(0).unwrap()),
                ints(&element.item(1).unwrap()),
            )
        },
    );
    assert_eq!(seen, [(vec![0, 1], vec![0, 1])]);

    fails(Dataset::zip(&[], None), Status::InvalidArgument, "datasets");
    let both = [x, y];
    fails(
        Dataset::zip(&both, Some(&["x"])),
        Status::InvalidArgument,
        "1 names for 2",
    );
    fails(
        Dataset::zip(&both, Some(&["x", "x"])),
        Status::InvalidArgument,
        "twice",
    );
}

#[test]
fn wrong_sizes_are_refused_by_name() {
    let dataset = numbers(4);
    for size in [0, -1, i64::MIN] {
        fails(
            dataset.batch(size, false),
            Status::InvalidArgument,
            "element_count",
        );
        fails(dataset.prefetch(size), Status::InvalidArgument, "depth");
    }
    fails(dataset.prefetch(i64::MAX), Status::InvalidArgument, "depth");
    fails(dataset.take(-2), Status::InvalidArgument, "count");
    fails(dataset.skip(-2), Status::InvalidArgument, "count");
    fails(dataset.repeat(-2), Status::InvalidArgument, "count");
    fails(dataset.shard(0, 0), Status::InvalidArgument, "shard_count");
    fails(dataset.shard(3, 3), Status::InvalidArgument, "index");
    fails(dataset.shard(3, -1), Status::InvalidArgument, "index");
    let options = ShuffleOptions {
        buffer_size: -1,
        ..Default::default()
    };
    fails(
        dataset.shuffle(&options),
        Status::InvalidArgument,
        "buffer_capacity",
    );
    let endless = dataset.repeat(-1).unwrap();
    let whole = ShuffleOptions::default();
    fails(endless.shuffle(&whole), Status::InvalidArgument, "endless");
    let deep = Dataset::from_tensor_slices(&Value::Tensor(counting(&[1; 8]))).unwrap();
    let deep = deep.batch(1, false).unwrap();
    fails(deep.batch(1, false), Status::InvalidArgument, "dimensions");
}

#[test]
fn sizes_beyond_memory_fail_while_iterating_or_fit() {
    let batches = numbers(3).batch(i64::MAX, false).unwrap();
    assert_eq!(all(&batches), [[0, 1, 2]]);
    let options = ShuffleOptions {
        buffer_size: i64::MAX,
        ..Default::default()
    };
    assert_eq!(all(&numbers(3).shuffle(&options).unwrap()).len(), 3);
    let endless = numbers(3)
        .repeat(-1)
        .unwrap()
        .batch(i64::MAX, false)
        .unwrap();
    fails(endless.iterator(), Status::ResourceExhausted, "memory");
}

#[test]
fn ranges_of_numbers() {
    let read = |start, stop, step| {
        let dataset = Dataset::range(start, stop, step).unwrap();
        let iterator = dataset.iterator().unwrap();
        let seen: Vec<i64> = rest(&iterator, |element| read(element.tensor_of(0).unwrap())[0]);
        assert_eq!(dataset.cardinality(), Cardinality::Exact(seen.len() as u64));
        seen
    };
    assert_eq!(read(0, 4, 1), [0, 1, 2, 3]);
    assert_eq!(read(1, 8, 3), [1, 4, 7]);
    assert_eq!(read(5, 0, -2), [5, 3, 1]);
    assert_eq!(read(3, 3, 1), [0i64; 0]);
    assert_eq!(read(3, 0, 1), [0i64; 0]);
    assert_eq!(
        read(i64::MIN, i64::MAX, i64::MAX),
        [i64::MIN, -1, i64::MAX - 1]
    );
    assert_eq!(read(i64::MAX - 1, i64::MAX, 5), [i64::MAX - 1]);
    let all = Dataset::range(i64::MIN, i64::MAX, 1).unwrap();
    assert_eq!(all.cardinality(), Cardinality::Exact(u64::MAX));
    fails(Dataset::range(0, 4, 0), Status::InvalidArgument, "step");
}

#[test]
fn elements_that_the_caller_has_made() {
    let one = counting(&[2]);
    let two = counting(&[3]);
    let nest = Value::tuple(vec![
        Value::Tensor(one.clone()),
        Value::Tensor(counting(&[])),
    ])
    .unwrap();
    let dataset = Dataset::from_tensors(&nest).unwrap();
    assert_eq!(dataset.cardinality(), Cardinality::Exact(1));
    assert_eq!(dataset.element_spec().to_string(), "(int32 [2], int32 [])");
    let iterator = dataset.repeat(2).unwrap().iterator().unwrap();
    let element = iterator.next().unwrap().unwrap().item(0).unwrap();
    let tensor = element.tensor_of(0).unwrap();
    assert_eq!(
        (tensor.address(), tensor.is_read_only()),
        (one.address(), true)
    );
    assert!(iterator.next().unwrap().is_some());
    assert!(iterator.next().unwrap().is_none());

    let several = Dataset::elements(&[one.clone(), two]).unwrap();
    assert_eq!(several.element_spec().to_string(), "int32 [?]");
    assert_eq!(all(&several), [vec![0, 1], vec![0, 1, 2]]);
    let invalid = Status::InvalidArgument;
    fails(Dataset::elements(&[]), invalid, "tensors");
    fails(
        Dataset::elements(&[one.clone(), counting(&[1, 2])]),
        invalid,
        "tensor 1",
    );
    fails(
        Dataset::from_tensors(&Value::tuple(vec![]).unwrap()),
        invalid,
        "no tensor",
    );
    let parts = Value::per_replica(vec![one.clone(), one]).unwrap();
    fails(
        Dataset::from_tensors(&parts),
        invalid,
        "a per-replica value",
    );
}
