//! Many reductions in one call are one piece of work for the workers.

use umbo_core::collectives::ReduceOp;
use umbo_core::device::DeviceId;
use umbo_core::executor::workers;
use umbo_core::strategy::values::collective::{Destination, ReductionOptions};
use umbo_core::strategy::{Options, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

const REPLICAS: usize = 2;

/// A per-replica value of `count` numbers that tell leaves, replicas and positions apart.
fn leaf(number: usize, count: usize) -> Value {
    let shape = Shape::new(&[count]).unwrap();
    let part = |replica: usize| {
        let values = (0..count).map(|at| number * 7 + replica * 3 + at);
        let tensor = if number.is_multiple_of(2) {
            let values: Vec<f32> = values.map(|value| value as f32).collect();
            Tensor::from_slice(&values, shape, DeviceId::HOST)
        } else {
            let values: Vec<u8> = values.map(|value| value as u8).collect();
            Tensor::from_slice(&values, shape, DeviceId::HOST)
        };
        Value::Tensor(tensor.unwrap())
    };
    Value::per_replica_of((0..REPLICAS).map(part).collect()).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    let tensor = value.tensor_of(0).unwrap();
    let mut bytes = vec![0; tensor.bytes()];
    tensor.copy_to_host(&mut bytes).unwrap();
    bytes
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Nest(nest) => nest.items(),
        other => panic!("{} is no tuple", other.kind_name()),
    }
}

#[test]
fn a_list_enters_the_workers_once() {
    let true = crate::is_alone(a_list_enters_the_workers_once) else {
        return;
    };
    let options = Options {
        cpu_replicas: REPLICAS,
        ..Options::default()
    };
    let strategy = Strategy::new(&options).unwrap();
    // Sizes around the workers' blocks, none, and some that are worth workers alone.
    let sizes = [
        1, 63, 64, 65, 0, 1000, 4096, 4097, 20_000, 100_000, 5, 300_000,
    ];
    let leaves: Vec<Value> = sizes
        .iter()
        .enumerate()
        .map(|(number, &count)| leaf(number, count))
        .collect();
    let how = ReductionOptions::default();
    // So that workers take part whether they have parked or not.
    workers::fix_costs(Some(workers::Costs::NONE));
    for op in ReduceOp::ALL {
        workers::set_count(1).unwrap();
        let expected: Vec<Vec<u8>> = leaves
            .iter()
            .map(|leaf| bytes(&strategy.reduce(op, leaf, &how).unwrap()))
            .collect();
        for count in [2, 3, 5] {
            workers::set_count(count).unwrap();
            let before = workers::entries();
            let nest = strategy
                .reduce(op, &Value::tuple(leaves.clone()).unwrap(), &how)
                .unwrap();
            assert_eq!(workers::entries(), before + 1);
            assert_eq!(items(&nest).iter().map(bytes).collect::<Vec<_>>(), expected);

            let to = |_| Destination::Device(DeviceId::HOST);
            let pairs: Vec<(Value, Destination)> = leaves
                .iter()
                .enumerate()
                .map(|(number, leaf)| (leaf.clone(), to(number)))
                .collect();
            let before = workers::entries();
            let list = strategy.batch_reduce_to(op, &pairs).unwrap();
            assert_eq!(workers::entries(), before + 1);
            assert_eq!(items(&list).iter().map(bytes).collect::<Vec<_>>(), expected);
        }
    }
    // One leaf that cannot be reduced, and nothing is.
    let mut pairs: Vec<(Value, Destination)> = leaves
        .iter()
        .map(|leaf| (leaf.clone(), Destination::Like(leaf.clone())))
        .collect();
    let list = strategy.batch_reduce_to(ReduceOp::Sum, &pairs).unwrap();
    for (copies, leaf) in items(&list).iter().zip(&leaves) {
        let sum = bytes(&strategy.reduce(ReduceOp::Sum, leaf, &how).unwrap());
        for replica in 0..REPLICAS {
            assert_eq!(bytes(&copies.component(replica).unwrap()), sum);
        }
    }
    let bools = Tensor::zeros(DType::Bool, Shape::new(&[1]).unwrap(), DeviceId::HOST).unwrap();
    let bools = Value::per_replica_of(vec![Value::Tensor(bools.clone()), Value::Tensor(bools)]);
    pairs.push((bools.unwrap(), Destination::Device(DeviceId::HOST)));
    let before = workers::entries();
    strategy.batch_reduce_to(ReduceOp::Sum, &pairs).unwrap_err();
    assert_eq!(workers::entries(), before);
}
