//! What the log is told of datasets that nobody has batched.

use std::sync::Mutex;

use umbo::device::DeviceId;
use umbo::input::{
    Dataset, DistributeOptions, ElementSpec, Generator, LeafSpec, MapOptions, ShuffleOptions,
    Splitting, deal, distribute,
};
use umbo::observe::log::{Level, set_sink};
use umbo::tensor::{DType, Shape, Tensor};
use umbo::values::Value;

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn said() -> Vec<String> {
    std::mem::take(&mut SAID.lock().unwrap())
}

const UNBATCHED: &str = "nothing has batched is split over 2 replicas";
const TWICE: &str = "batched twice";

fn zeros(shape: &[usize]) -> Value {
    Value::Tensor(
        Tensor::zeros(DType::Float32, Shape::new(shape).unwrap(), DeviceId::HOST).unwrap(),
    )
}

/// Rows of four numbers.
fn rows() -> Dataset {
    Dataset::from_tensor_slices(&zeros(&[6, 4])).unwrap()
}

fn batched(dataset: Dataset) -> Dataset {
    dataset.batch(2, false).unwrap()
}

fn rebatched(dataset: Dataset) -> Dataset {
    dataset.rebatch(&[2], false).unwrap()
}

fn padded(dataset: Dataset) -> Dataset {
    dataset.padded_batch(2, false).unwrap()
}

fn mapped(dataset: Dataset) -> Dataset {
    dataset.map(|element| Ok(element.clone()), MapOptions::default()).unwrap()
}

fn shuffled(dataset: Dataset) -> Dataset {
    dataset.shuffle(&ShuffleOptions::default()).unwrap()
}

fn zipped(one: Dataset, other: Dataset) -> Dataset {
    Dataset::zip(&[one, other], None).unwrap()
}

fn joined(one: Dataset, other: Dataset) -> Dataset {
    Dataset::concatenate(&[one, other]).unwrap()
}

struct Nothing;

impl Generator for Nothing {
    fn next(&mut self) -> umbo::error::Result<Option<Value>> {
        Ok(None)
    }

    fn reset(&mut self) -> umbo::error::Result<()> {
        Ok(())
    }
}

fn generated() -> Dataset {
    let spec = ElementSpec::Leaf(LeafSpec { dtype: DType::Float32, shape: vec![None, Some(4)] });
    Dataset::from_generator(spec, || Ok(Box::new(Nothing) as _)).unwrap()
}

/// What makes a pipeline, and what is said of it.
type Pipeline = (fn() -> Dataset, &'static str);

const PIPELINES: [Pipeline; 24] = [
    (rows, UNBATCHED),
    (|| shuffled(rows().take(3).unwrap()), UNBATCHED),
    (|| rows().skip(1).unwrap().repeat(2).unwrap(), UNBATCHED),
    (|| shuffled(rows().shard(2, 1).unwrap()), UNBATCHED),
    (|| shuffled(rows().prefetch(1).unwrap().cache().unwrap()), UNBATCHED),
    (|| zipped(rows(), rows()), UNBATCHED),
    (|| shuffled(zipped(rows().prefetch(1).unwrap(), rows())), UNBATCHED),
    (|| joined(rows(), rows()), UNBATCHED),
    (|| batched(batched(rows())), TWICE),
    (|| padded(padded(rows())), TWICE),
    (|| batched(batched(rows()).repeat(2).unwrap()), TWICE),
    (|| batched(rebatched(rows())).prefetch(1).unwrap(), TWICE),
    (|| rebatched(batched(batched(rows()))), TWICE),
    (|| zipped(batched(batched(rows())), batched(batched(rows()))), TWICE),
    (|| batched(rows()).rebatch(&[3], false).unwrap(), ""),
    (|| batched(zipped(batched(rows()), rows().take(3).unwrap())), ""),
    (|| batched(mapped(batched(rows()))), ""),
    (|| mapped(batched(batched(rows()))), ""),
    (|| shuffled(batched(rows())).repeat(2).unwrap(), ""),
    (|| padded(rows()).prefetch(1).unwrap(), ""),
    (|| zipped(batched(rows()), rebatched(rows())), ""),
    // Whether these are batches is known to the program alone.
    (|| joined(rows(), mapped(rows())), ""),
    (generated, ""),
    (|| Dataset::from_tensors(&zeros(&[4])).unwrap(), ""),
];

#[test]
fn rows_that_nothing_has_batched_or_twice_are_told() {
    let true = crate::is_alone(rows_that_nothing_has_batched_or_twice_are_told) else {
        return;
    };
    let sink = |level, message: &str| {
        assert_eq!(level, Level::Warning);
        SAID.lock().unwrap().push(message.to_owned());
    };
    set_sink(Level::Warning, Box::new(sink));
    let devices: Vec<DeviceId> = (0..2).map(DeviceId::cpu).collect();
    let default = DistributeOptions::default();
    let balanced = DistributeOptions { splitting: Splitting::Balanced, ..default };
    for (number, (make, words)) in PIPELINES.into_iter().enumerate() {
        for (replicas, options) in [(1, &default), (2, &default), (2, &balanced)] {
            let dataset = make();
            distribute(&dataset, replicas, &devices[..replicas], options).unwrap();
            let lines = said();
            // One replica gets whole elements.
            let is_told = words == TWICE || (words == UNBATCHED && replicas == 2);
            assert_eq!(lines.len(), usize::from(is_told), "{number}: {lines:?}");
            assert!(lines.iter().all(|line| line.contains(words)), "{number}: {lines:?}");
        }
        deal(&make(), 2, &devices, &default).unwrap();
        assert_eq!(said(), [""; 0], "{number}");
    }
}
