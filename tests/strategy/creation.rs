//! Making variables: inside of runs and through creators.

use umbo_core::strategy::context::{Scope, enter_creator_scope};
use umbo_core::strategy::variables::creator::VariableRequest;
use umbo_core::strategy::variables::in_place::create_in_place;
use umbo_core::values::initial::Distribution;

use crate::*;

fn new(name: &str) -> NewVariable {
    crate::fresh::new_variable(name, Aggregation::Sum)
}

fn make(name: &str, value: f32) -> Result<Variable> {
    variables::create(None, new(name), Initial::Value(&Tensor::scalar(value)?))
}

#[test]
fn replica_0_makes_it_and_the_others_get_the_same() {
    let s = strategy(3);
    let result = s
        .run(
            &|context| {
                // Two of one name, found by position; digits that make names differ do not count.
                let replica = context.replica() as f32;
                let first = make(if context.replica() == 1 { "v_1" } else { "v" }, replica)?;
                let other = make("layer_1/w", 10.0 + replica)?;
                let second = make("v", 20.0 + replica)?;
                let all = [first, other, second].map(Value::Variable);
                Ok(Some(Value::tuple(all.to_vec()).unwrap()))
            },
            None,
        )
        .unwrap()
        .unwrap();
    let values: Vec<f32> = (0..3)
        .map(|item| match result.item(item).unwrap() {
            Value::Variable(variable) => {
                assert_eq!(variable.device(), DeviceId::HOST);
                assert!(variables::created_in_scope(&s, &variable));
                value_of(&variable)
            }
            other => panic!("{other:?}: the replicas have different variables"),
        })
        .collect();
    assert_eq!(values, [0.0, 10.0, 20.0], "replica 0's initial values");
}

#[test]
fn an_initializer_is_called_once_on_replica_0() {
    let s = strategy(3);
    let calls = AtomicUsize::new(0);
    s.run(
        &|_| {
            let mut fill = |memory: &Tensor| {
                calls.fetch_add(1, Ordering::Relaxed);
                // SAFETY: nobody else has the variable yet.
                unsafe { memory.assume_exclusive() }.copy_from(&Tensor::scalar(7.0f32)?)
            };
            let initial = Initial::Fill {
                dtype: umbo_core::tensor::DType::Float32,
                shape: Shape::scalar(),
                fill: &mut fill,
            };
            assert_eq!(value_of(&variables::create(None, new("v"), initial)?), 7.0);
            Ok(None)
        },
        None,
    )
    .unwrap();
    assert_eq!(calls.into_inner(), 1);
}

#[test]
fn a_variable_of_a_later_replica_alone_is_refused_and_names_the_device() {
    let s = strategy(2);
    let device = "CPU:1";
    let parts = ["mismatching name on device", device, "'v'"];
    // Replica 0 returns without it.
    let result = s.run(
        &|context| {
            if context.replica() == 1 {
                make("v", 1.0)?;
            }
            Ok(None)
        },
        None,
    );
    refused(result, Status::FailedPrecondition, &parts);
    // Replica 0 makes it only after a merge call that the other has not reached.
    let result = s.run(
        &|context| {
            let merge = || {
                let operation = Operation::MergeCall { function: 1 };
                context.synchronize(operation, None, Box::new(|_, _| Ok(None)))
            };
            if context.replica() == 0 {
                merge()?;
                make("v", 1.0)?;
            } else {
                make("v", 1.0)?;
                merge()?;
            }
            Ok(None)
        },
        None,
    );
    refused(result, Status::FailedPrecondition, &parts);
    // One more than replica 0.
    let result = s.run(
        &|context| {
            for _ in 0..=context.replica() {
                make("v", 1.0)?;
            }
            Ok(None)
        },
        None,
    );
    refused(
        result,
        Status::FailedPrecondition,
        &["number 2 of this name"],
    );
    // On replica 0 alone it is accepted.
    s.run(
        &|context| {
            if context.replica() == 0 {
                make("v", 1.0)?;
            }
            Ok(None)
        },
        None,
    )
    .unwrap();
}

#[test]
fn waiting_for_replica_0_ends_with_the_step() {
    let s = strategy(2);
    // Replica 0 fails: its error counts.
    let result = s.run(
        &|context| match context.replica() {
            0 => Err(Error::DataLoss("before the variable".into())),
            _ => make("v", 1.0).map(|_| None),
        },
        None,
    );
    refused(result, Status::DataLoss, &["before the variable"]);
    // The run is given up while replica 0 is busy.
    let limits = Limits {
        deadline: Some(Instant::now() + Duration::from_millis(50)),
        ..Limits::default()
    };
    let result = s.run_within(
        Arc::new(|context: &ReplicaContext| match context.replica() {
            0 => {
                while context.check_live().is_ok() {
                    std::thread::yield_now();
                }
                Ok(None)
            }
            _ => make("v", 1.0).map(|_| None),
        }),
        None,
        limits,
        None,
    );
    refused(result, Status::DeadlineExceeded, &[]);
    s.synchronize().unwrap();
}

/// A variable whose elements are drawn.
fn draw(strategy: Option<&Strategy>, name: &str) -> Result<Variable> {
    let initial = Initial::Drawn {
        dtype: umbo_core::tensor::DType::Float32,
        shape: Shape::new(&[4])?,
        distribution: Distribution::Normal {
            mean: 0.0,
            spread: 1.0,
        },
        seed: 5,
    };
    variables::create(strategy, new(name), initial)
}

fn drawn(variable: &Variable) -> Vec<u32> {
    read(variable)
        .unwrap()
        .to_vec::<f32>()
        .unwrap()
        .into_iter()
        .map(f32::to_bits)
        .collect()
}

/// Variables of one name, made before a run, in it by every replica, by a creator, and after a
/// failure.
fn draw_in_many_ways(s: &Strategy) -> Vec<Vec<u32>> {
    let mut all: Vec<Variable> = ["w", "w", "b", "w_1"]
        .into_iter()
        .map(|name| draw(Some(s), name).unwrap())
        .collect();
    let run = |_: &ReplicaContext| {
        let made = [draw(None, "w")?, draw(None, "w")?, draw(None, "b")?].map(Value::Variable);
        Ok(Some(Value::tuple(made.to_vec()).unwrap()))
    };
    let result = s.run(&run, None).unwrap().unwrap();
    for item in 0..3 {
        let Value::Variable(variable) = result.item(item).unwrap() else {
            panic!("{result:?}")
        };
        all.push(variable.clone());
    }
    // A creator makes a slot of the same name for each variable, and refuses one of them, which is
    // made later.
    let slots = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&slots);
    let owner = s.clone();
    let scope = enter_creator_scope(Arc::new(move |request: &VariableRequest| {
        match request.name().as_str() {
            "slot" => Ok(None),
            "refused" => Err(Error::DataLoss("in the creator".into())),
            _ => {
                kept.lock().unwrap().push(draw(Some(&owner), "slot")?);
                Ok(None)
            }
        }
    }));
    all.extend(["w", "v"].map(|name| draw(Some(s), name).unwrap()));
    assert!(draw(Some(s), "refused").is_err() && draw(Some(s), "refused").is_err());
    drop(scope.exit().unwrap());
    all.extend(slots.lock().unwrap().drain(..));
    all.extend([
        draw(Some(s), "refused").unwrap(),
        draw(Some(s), "refused").unwrap(),
    ]);
    all.iter().map(drawn).collect()
}

#[test]
fn no_two_variables_are_drawn_alike_with_any_number_of_replicas() {
    let one = draw_in_many_ways(&strategy(1));
    for (index, elements) in one.iter().enumerate() {
        assert!(
            one[..index].iter().all(|other| other != elements),
            "variable {index}"
        );
    }
    for replicas in 2..=3 {
        assert_eq!(
            draw_in_many_ways(&strategy(replicas)),
            one,
            "{replicas} replicas"
        );
    }
    // What was refused was not made: the first variable of the name is the one that there would be
    // without refusals.
    let s = strategy(1);
    assert!(one.contains(&drawn(&draw(Some(&s), "refused").unwrap())));
}

#[test]
fn a_variable_needs_a_name() {
    let s = strategy(2);
    let said = ["name: is empty"];
    refused(
        s.scope(|| make("", 1.0)).unwrap(),
        Status::InvalidArgument,
        &said,
    );
    let scope = enter_creator_scope(Arc::new(|request: &VariableRequest| {
        request.describe(|new| new.name = "".into());
        Ok(None)
    }));
    refused(
        s.scope(|| make("v", 1.0)).unwrap(),
        Status::InvalidArgument,
        &said,
    );
    drop(scope.exit().unwrap());
    // SAFETY: the tensor is the variable's alone.
    let made = unsafe { create_in_place(&s, vec![(new(""), Tensor::scalar(1.0f32).unwrap())]) };
    refused(made, Status::InvalidArgument, &["names[0]: name: is empty"]);
}

/// What creators of a test saw.
type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, name: &'static str) -> Scope {
    let log = Arc::clone(log);
    enter_creator_scope(Arc::new(move |request: &VariableRequest| {
        let device = request.device().map(|device| device.canonical_name());
        log.lock().unwrap().push(format!(
            "{name} {} {}",
            request.description().name,
            if device.is_some() {
                "placed"
            } else {
                "not placed"
            }
        ));
        request.describe(|new| new.name = format!("{}{name}", new.name).into());
        Ok(None)
    }))
}

#[test]
fn creators_run_from_the_inside_out_around_the_strategys_own() {
    let s = strategy(2);
    let log = Log::default();
    let outer = note(&log, "B");
    let scope = s.enter_scope().unwrap();
    let inner = note(&log, "A");
    let v = make("v", 1.0).unwrap();
    assert_eq!(v.name(), "vAB");
    assert_eq!(
        log.lock().unwrap().split_off(0),
        ["A v not placed", "B vA placed"]
    );
    // In a run only replica 0 asks them.
    let result = s.run(
        &|context| {
            let inside = (context.replica() == 0).then(|| note(&log, "C"));
            let v = make("v", 1.0)?;
            inside.map_or(Ok(()), |scope| scope.exit().map(drop))?;
            Ok(Some(Value::Variable(v)))
        },
        None,
    );
    let Ok(Some(Value::Variable(v))) = result else {
        panic!("{result:?}")
    };
    assert_eq!(v.name(), "vCAB");
    log.lock().unwrap().clear();
    // The same with every replica on a thread of its own.
    let limits = Limits {
        deadline: Some(Instant::now() + Duration::from_secs(60)),
        ..Limits::default()
    };
    let run = |_: &ReplicaContext| Ok(Some(Value::Variable(make("v", 1.0)?)));
    let result = s.run_within(Arc::new(run), None, limits, None);
    let Ok(Some(Value::Variable(v))) = result else {
        panic!("{result:?}")
    };
    assert_eq!(v.name(), "vAB");
    // A scope cannot be left while one that was entered inside is open.
    refused(
        scope.exit().map(drop),
        Status::FailedPrecondition,
        &["innermost"],
    );
    drop(inner.exit().unwrap());
    refused(inner.exit().map(drop), Status::NotFound, &["left already"]);
    drop(scope.exit().unwrap());
    log.lock().unwrap().clear();
    variables::create(
        Some(&s),
        new("v"),
        Initial::Value(&Tensor::scalar(1.0f32).unwrap()),
    )
    .unwrap();
    assert_eq!(log.lock().unwrap().split_off(0), ["B v placed"]);
    drop(outer.exit().unwrap());
    assert_eq!(make("v", 1.0).unwrap().name(), "v");
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn a_creator_can_change_or_replace_what_is_made() {
    let s = strategy(2);
    let stand_in = s.scope(|| make("stand-in", 3.0)).unwrap().unwrap();
    let replacement = stand_in.clone();
    let scope = enter_creator_scope(Arc::new(move |request: &VariableRequest| {
        let description = request.description();
        match description.name.as_str() {
            "replaced" => Ok(Some(replacement.clone())),
            "made by hand" => {
                assert_eq!(request.initial_value().to_vec::<f32>()?, [1.0]);
                request.set_initial_value(Tensor::from_slice(
                    &[4i32, 5],
                    Shape::new(&[2])?,
                    DeviceId::HOST,
                )?);
                request.describe(|new| {
                    new.trainable = Some(false);
                    new.aggregation = Aggregation::OnlyFirstReplica;
                });
                let made = request.next()?;
                assert_eq!(made.shape(), Shape::new(&[2])?);
                // Returning none gives what `next` made.
                Ok(None)
            }
            _ => Err(Error::DataLoss("in the creator".into())),
        }
    }));
    let made = s.scope(|| make("replaced", 1.0)).unwrap().unwrap();
    assert!(made.is_same(&stand_in));
    let made = s.scope(|| make("made by hand", 1.0)).unwrap().unwrap();
    assert_eq!(read(&made).unwrap().to_vec::<i32>().unwrap(), [4, 5]);
    assert_eq!(made.spec().aggregation, Aggregation::OnlyFirstReplica);
    assert!(!made.spec().trainable);
    refused(
        s.scope(|| make("other", 1.0)).unwrap(),
        Status::DataLoss,
        &["in the creator"],
    );
    drop(scope.exit().unwrap());
}
