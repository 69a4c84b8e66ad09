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

/// Rows of four numbers.
fn rows() -> Dataset {
    let array = Tensor::zeros(DType::Float32, Shape::new(&[6, 4]).unwrap(), DeviceId::HOST);
    Dataset::from_tensor_slices(&Value::Tensor(array.unwrap())).unwrap()
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

/// A pipeline, and what makes it.
type Pipeline = (&'static str, fn() -> Dataset);

#[test]
fn rows_that_nothing_has_batched_or_twice_are_told_once() {
    let true = crate::is_alone(rows_that_nothing_has_batched_or_twice_are_told_once) else {
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
    let shuffle = |of: &Dataset| of.shuffle(&ShuffleOptions::default()).unwrap();
    let unbatched: [Pipeline; 9] = [
        ("rows", rows),
        ("take", || rows().take(3).unwrap()),
        ("skip", || rows().skip(1).unwrap()),
        ("repeat", || rows().repeat(2).unwrap()),
        ("shard", || rows().shard(2, 1).unwrap()),
        ("prefetch", || rows().prefetch(1).unwrap().cache().unwrap()),
        ("zip", || Dataset::zip(&[rows(), rows()], None).unwrap()),
        ("zip of streams", || Dataset::zip(&[rows().prefetch(1).unwrap(), rows()], None).unwrap()),
        ("concatenate", || Dataset::concatenate(&[rows(), rows()]).unwrap()),
    ];
    for (name, make) in unbatched {
        for options in [&default, &balanced] {
            let dataset = shuffle(&make());
            for _ in 0..3 {
                distribute(&dataset, 2, &devices, options).unwrap();
            }
            let said = said();
            assert_eq!(said.len(), 1, "{name}: {said:?}");
            let words = [
                "nothing has batched",
                "over 2 replicas",
                "batch the dataset before distributing it",
            ];
            assert!(words.iter().all(|words| said[0].contains(words)), "{}", said[0]);
        }
        // Nothing is split.
        distribute(&make(), 1, &devices[..1], &default).unwrap();
        deal(&make(), 2, &devices, &default).unwrap();
        assert_eq!(said(), [""; 0], "{name}");
    }
    let same = |element: &Value| Ok(element.clone());
    let batched = || rows().batch(2, false).unwrap();
    let twice: [Pipeline; 6] = [
        ("batch", || rows().batch(2, false).unwrap().batch(3, false).unwrap()),
        ("padded batch", || rows().padded_batch(2, false).unwrap().padded_batch(2, true).unwrap()),
        ("repeat", || rows().batch(2, false).unwrap().repeat(2).unwrap().batch(2, false).unwrap()),
        ("rebatch", || {
            rows().rebatch(&[2], false).unwrap().batch(2, false).unwrap().prefetch(1).unwrap()
        }),
        ("rebatch behind", || {
            let twice = rows().batch(2, false).unwrap().batch(2, false).unwrap();
            twice.rebatch(&[1], false).unwrap()
        }),
        ("zip", || {
            let twice = || rows().batch(2, false).unwrap().batch(2, false).unwrap();
            Dataset::zip(&[twice(), twice()], None).unwrap()
        }),
    ];
    for (name, make) in twice {
        for replicas in [1, 2] {
            let dataset = make();
            for _ in 0..2 {
                distribute(&dataset, replicas, &devices[..replicas], &default).unwrap();
            }
            let lines = said();
            assert!(lines.len() == 1 && lines[0].contains("batched twice"), "{name}: {lines:?}");
            let mapped = make().map(same, MapOptions::default()).unwrap();
            distribute(&mapped, replicas, &devices[..replicas], &default).unwrap();
        }
        deal(&make(), 2, &devices, &default).unwrap();
        assert_eq!(said(), [""; 0], "{name}");
    }
    // Batches of another size.
    for dataset in [
        batched().rebatch(&[3], false).unwrap(),
        Dataset::zip(&[batched(), rows().take(3).unwrap()], None).unwrap().batch(2, false).unwrap(),
        batched().map(same, MapOptions::default()).unwrap().batch(2, false).unwrap(),
    ] {
        distribute(&dataset, 2, &devices, &default).unwrap();
        assert_eq!(said(), [""; 0], "{dataset:?}");
    }
    let spec = ElementSpec::Leaf(LeafSpec { dtype: DType::Float32, shape: vec![None, Some(4)] });
    let known = rows().batch(2, false).unwrap();
    for dataset in [
        shuffle(&known).repeat(2).unwrap(),
        rows().padded_batch(2, false).unwrap().prefetch(1).unwrap(),
        rows().rebatch(&[2], false).unwrap(),
        // Whether these are batches is known to the program alone.
        rows().map(same, MapOptions::default()).unwrap(),
        Dataset::from_generator(spec, || Ok(Box::new(Nothing) as _)).unwrap(),
        Dataset::from_tensors(&Value::Tensor(
            Tensor::zeros(DType::Float32, Shape::new(&[4]).unwrap(), DeviceId::HOST).unwrap(),
        ))
        .unwrap(),
        Dataset::concatenate(&[rows(), rows().map(same, MapOptions::default()).unwrap()]).unwrap(),
        Dataset::zip(&[known, rows().rebatch(&[2], false).unwrap()], None).unwrap(),
    ] {
        distribute(&dataset, 2, &devices, &default).unwrap();
        assert_eq!(said(), [""; 0], "{dataset:?}");
    }
}
