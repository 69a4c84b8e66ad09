//! What does not fit is refused, all of it at once, and nothing is changed.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use umbo_core::checkpoint::{Checkpoint, Number, SavedIterator};
use umbo_core::error::Status;
use umbo_core::input::{Dataset, PassIterator};
use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::MetricKind;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{Gradients, LossReduction, Optimizer};
use umbo_core::strategy::step::merge::{MergeCall, Operation};
use umbo_core::strategy::variables::read;
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::DType;

use crate::scene::{Feature, Folder, Scene, bytes, strategy, values, variable};

#[test]
fn all_that_differs_is_listed_at_once() {
    let folder = Folder::new();
    let path = folder.path("there");
    let scene = Scene::new("momentum", Feature::Accumulation, 1);
    scene.train(2);
    scene.checkpoint.save(&path).unwrap();

    let strategy = strategy(2);
    let checkpoint = Checkpoint::new(&strategy);
    let kernel = variable(&strategy, "kernel", &[3, 5], DType::Float64);
    let bias = variable(&strategy, "bias", &[], DType::Float32);
    checkpoint
        .add("model/dense/kernel", Arc::new(kernel.clone()))
        .unwrap();
    checkpoint
        .add("model/dense/bias", Arc::new(bias.clone()))
        .unwrap();
    checkpoint
        .add(
            "more",
            Arc::new(variable(&strategy, "more", &[2], DType::Float32)),
        )
        .unwrap();
    checkpoint
        .add(
            "optimizer0",
            Optimizer::new(strategy.id(), Box::new(Sgd), 0.1).unwrap(),
        )
        .unwrap();
    let metrics = Metrics::new(&strategy);
    metrics.define("loss", MetricKind::Sum).unwrap();
    metrics.define("new", MetricKind::Sum).unwrap();
    metrics
        .define("matrix", MetricKind::confusion(4).unwrap())
        .unwrap();
    metrics
        .define("accuracy", MetricKind::accuracy(0).unwrap())
        .unwrap();
    checkpoint.add("metrics", metrics).unwrap();
    checkpoint
        .set_number("gradients0", Number::Integer(3))
        .unwrap();
    checkpoint.set_number("epoch", Number::Float(3.0)).unwrap();

    let old_kernel = read(&kernel).unwrap();
    let old_bias = read(&bias).unwrap();
    let error = checkpoint.restore(&path).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    let told = error.to_string();
    for part in [
        "'model/dense/kernel' is float64 here, float32 in the file",
        "'model/dense/kernel' has [3, 5] here, [5, 3] in the file",
        "the file has no variable 'more'",
        "its rule is sgd here, momentum in the file",
        "metric 'loss' is a sum here, a mean in the file",
        "the file has no metric 'new'",
        "metric 'matrix' is a confusion matrix of 4 classes here",
        "metric 'accuracy' is an accuracy here, an accuracy with ignore_index 2 in the file",
        "the file has a metric 'auc', which was not defined",
        "'gradients0' is a number here, gradients in the file",
        "epoch: it is a floating-point number here, an integer in the file",
        "the file has a variable 'model/wide', which was not added",
        "the file has a number 'best loss', which was not added",
        "nothing was changed",
    ] {
        assert!(told.contains(part), "'{part}' is not in: {told}");
    }
    assert_eq!(values(&read(&kernel).unwrap()), values(&old_kernel));
    assert_eq!(values(&read(&bias).unwrap()), values(&old_bias));
    assert_eq!(checkpoint.number("gradients0").unwrap(), Number::Integer(3));
    let lines = told.lines().count() - 1;
    assert!(told.contains(&format!("{lines} mismatches")), "{told}");
}

#[test]
fn names_differ_and_a_clash_names_both() {
    let strategy = strategy(1);
    let one = variable(&strategy, "w", &[2], DType::Float32);
    let other = variable(&strategy, "w", &[3], DType::Float32);
    let checkpoint = Checkpoint::new(&strategy);
    checkpoint.add("w", Arc::new(one.clone())).unwrap();
    let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.1).unwrap();
    let told = checkpoint
        .add("w", Arc::clone(&optimizer) as _)
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("the optimizer would be saved as 'w'"),
        "{told}"
    );
    assert!(told.contains("a variable that was added before"), "{told}");
    assert!(checkpoint.set_number("w", Number::Integer(1)).is_err());
    checkpoint.set_number("rate", Number::Float(0.5)).unwrap();
    let refused = checkpoint.counter("rate").map(drop).unwrap_err();
    assert_eq!(refused.status(), Status::InvalidArgument, "{refused}");
    assert_eq!(
        checkpoint.counter("none").map(drop).unwrap_err().status(),
        Status::NotFound
    );
    for name in ["", "__metadata__", &"x".repeat(5000)] {
        let added = checkpoint.add(name, Arc::new(other.clone()));
        assert_eq!(added.unwrap_err().status(), Status::InvalidArgument);
    }
    // Gradients of a variable of the same name, which was not added.
    let gradients = |variable: &_| {
        let variables = vec![Clone::clone(variable)];
        let devices = strategy.compute_devices();
        Gradients::new(
            strategy.id(),
            devices,
            variables,
            LossReduction::Sum,
            Default::default(),
        )
        .unwrap()
    };
    checkpoint.add("gradients", gradients(&other)).unwrap();
    let folder = Folder::new();
    let told = checkpoint
        .save(&folder.path("file"))
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("two variables would be saved as 'w'"),
        "{told}"
    );
    assert!(told.contains("[2]") && told.contains("[3]"), "{told}");
    assert!(folder.names().is_empty());
}

#[test]
fn tensors_of_one_name_are_refused_and_both_owners_named() {
    let folder = Folder::new();
    let scene = Scene::new("momentum", Feature::Plain, 1);
    scene.train(1);
    let clash = variable(&scene.strategy, "x", &[1], DType::Float32);
    scene
        .checkpoint
        .add("optimizer0/model/wide/momentum", Arc::new(clash))
        .unwrap();
    let told = scene
        .checkpoint
        .save(&folder.path("file"))
        .unwrap_err()
        .to_string();
    assert!(told.contains("optimizer 'optimizer0'"), "{told}");
    assert!(
        told.contains("variable 'optimizer0/model/wide/momentum'"),
        "{told}"
    );
    assert!(folder.names().is_empty());
}

#[test]
fn objects_of_other_strategies_are_refused() {
    let one = strategy(1);
    let other = strategy(2);
    let checkpoint = Checkpoint::new(&one);
    let foreign = variable(&other, "w", &[2], DType::Float32);
    assert!(checkpoint.add("w", Arc::new(foreign)).is_err());
    assert!(checkpoint.add("m", Metrics::new(&other)).is_err());
    let optimizer = Optimizer::new(other.id(), Box::new(Sgd), 0.1).unwrap();
    let told = checkpoint.add("o", optimizer).unwrap_err();
    assert_eq!(told.status(), Status::InvalidArgument);
    assert!(told.to_string().contains("a strategy other than"), "{told}");
}

/// Variables of the default strategy, which steps do not cover, may be added.
#[test]
fn variables_of_the_default_strategy_are_restored() {
    let folder = Folder::new();
    let strategy = strategy(2);
    let path = folder.path("file");
    let default = Strategy::default_strategy();
    let plain = variable(&default, "plain", &[4], DType::Float32);
    let own_variable = variable(&strategy, "own", &[2], DType::Float32);
    let checkpoint = Checkpoint::new(&strategy);
    checkpoint.add("plain", Arc::new(plain.clone())).unwrap();
    checkpoint
        .add("own", Arc::new(own_variable.clone()))
        .unwrap();
    checkpoint.save(&path).unwrap();
    let before = values(&read(&plain).unwrap());
    let zeros = variable(&default, "zeros", &[4], DType::Float32);
    let twice = umbo_core::values::Value::Variable(zeros);
    use umbo_core::collectives::Assignment;
    umbo_core::strategy::variables::assign(&plain, Assignment::Add, &twice).unwrap();
    assert_ne!(values(&read(&plain).unwrap()), before);
    checkpoint.restore(&path).unwrap();
    assert_eq!(values(&read(&plain).unwrap()), before);
}

/// A step in flight is refused by name: on another thread, and on this one.
#[test]
fn a_step_in_flight_is_refused() {
    let folder = Folder::new();
    let path = folder.path("file");
    let scene = Scene::new("adam", Feature::Plain, 2);
    scene.train(3);
    scene.checkpoint.save(&path).unwrap();
    let checkpoint = &scene.checkpoint;
    // The callbacks of step 4.
    let inside = |context: &ReplicaContext| {
        for refused in [checkpoint.save(&path), checkpoint.restore(&path)] {
            let error = refused.unwrap_err();
            assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
            assert!(error.to_string().contains("step 4"), "{error}");
        }
        let checkpoint_in_step = Arc::clone(checkpoint);
        let file = path.clone();
        let merged = move |_: &Strategy, _: &mut [&mut MergeCall]| {
            for refused in [
                checkpoint_in_step.save(&file),
                checkpoint_in_step.restore(&file),
            ] {
                let error = refused.unwrap_err();
                assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
                assert!(error.to_string().contains("step 4"), "{error}");
            }
            Ok(None)
        };
        context.synchronize(Operation::MergeCall { function: 1 }, None, Box::new(merged))?;
        Ok(None)
    };
    scene.strategy.run(&inside, None).unwrap();
    // Another thread, while step 5 runs.
    std::thread::scope(|scope| {
        let (begun, has_begun) = mpsc::channel();
        let (end, may_end) = mpsc::channel::<()>();
        let may_end = std::sync::Mutex::new(may_end);
        let strategy = &scene.strategy;
        let running = scope.spawn(move || {
            let slow = |context: &ReplicaContext| {
                if context.replica() == 0 {
                    begun.send(()).unwrap();
                    let _ = may_end
                        .lock()
                        .unwrap()
                        .recv_timeout(Duration::from_secs(60));
                }
                Ok(None)
            };
            strategy.run(&slow, None).unwrap();
        });
        has_begun.recv().unwrap();
        let before = scene.bits();
        let error = checkpoint.restore(&path).unwrap_err();
        assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
        assert!(error.to_string().contains("step 5"), "{error}");
        assert_eq!(scene.bits(), before);
        // Saving waits for it.
        let saving = scope.spawn(|| checkpoint.save(&folder.path("later")));
        drop(end);
        running.join().unwrap();
        saving.join().unwrap().unwrap();
    });
    scene.checkpoint.restore(&path).unwrap();
    scene.checkpoint.save(&folder.path("again")).unwrap();
    assert!(bytes(&path) == bytes(&folder.path("again")));
}

/// An iterator over other data is told with all else, and one that had moved already goes back.
#[test]
fn iterators_go_back_if_anything_does_not_fit() {
    let folder = Folder::new();
    let path = folder.path("there");
    let numbers = |stop| Arc::new(Dataset::range(0, stop, 1).unwrap().iterator().unwrap());
    let strategy = strategy(1);
    let checkpoint_of = |first: &Arc<PassIterator>, second: &Arc<PassIterator>| {
        let checkpoint = Checkpoint::new(&strategy);
        for (name, iterator) in [("first", first), ("second", second)] {
            checkpoint
                .add(name, Arc::new(SavedIterator(Arc::clone(iterator))))
                .unwrap();
        }
        checkpoint
    };
    let next = |iterator: &PassIterator| {
        let element = iterator.next().unwrap().unwrap();
        element.tensor_of(0).unwrap().to_vec::<i64>().unwrap()[0]
    };
    let first = numbers(10);
    let second = numbers(10);
    let saved = checkpoint_of(&first, &second);
    for _ in 0..4 {
        next(&first);
        next(&second);
    }
    saved.save(&path).unwrap();
    let same = numbers(10);
    let other = numbers(11);
    assert_eq!((next(&same), next(&other)), (0, 0));
    let target = checkpoint_of(&same, &other);
    target.set_number("missing", Number::Integer(0)).unwrap();
    let told = target.restore(&path).unwrap_err();
    assert_eq!(told.status(), Status::InvalidArgument);
    assert!(told.to_string().contains("2 mismatches"), "{told}");
    assert!(told.to_string().contains("second: "), "{told}");
    assert_eq!((next(&same), next(&other)), (1, 1));
    checkpoint_of(&same, &second).restore(&path).unwrap();
    assert_eq!((next(&same), next(&second)), (4, 4));
}
