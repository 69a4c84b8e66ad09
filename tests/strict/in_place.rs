//! Variables in the library's memory and over the program's own: a callback that writes one through
//! a view fails, and nothing is left of what it wrote.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use half::{bf16, f16};
use umbo_core::collectives::{Assignment, ReduceOp};
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result, Status};
use umbo_core::strategy::ReplicaContext;
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::limits::Limits;
use umbo_core::strategy::variables::in_place::create_in_place;
use umbo_core::strategy::variables::{self, Initial, NewVariable};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use crate::found;
use crate::scene::{Scene, Setting, put};
use crate::views::{numbers, view};

const VALUES: [f32; 3] = [0.1, -0.7, 1.3];

const VIEWS: [DType; 3] = [DType::Float32, DType::Float16, DType::BFloat16];

fn new_variable() -> (NewVariable, Tensor) {
    let new = crate::fresh::new_variable("own", Aggregation::OnlyFirstReplica);
    let initial = Tensor::from_slice(&VALUES, Shape::new(&[3]).unwrap(), DeviceId::HOST);
    (new, initial.unwrap())
}

fn over_own_memory(scene: &Scene) -> Variable {
    // SAFETY: nobody else has the memory; that it is written through views is what is tested.
    unsafe { create_in_place(&scene.strategy, vec![new_variable()]) }
        .unwrap()
        .remove(0)
}

fn in_the_librarys(scene: &Scene) -> Variable {
    let (new, initial) = new_variable();
    variables::create(Some(&scene.strategy), new, Initial::Value(&initial)).unwrap()
}

fn rounded(dtype: DType) -> Vec<f32> {
    let round = |value: f32| match dtype {
        DType::Float16 => f16::from_f32(value).to_f32(),
        DType::BFloat16 => bf16::from_f32(value).to_f32(),
        _ => value,
    };
    VALUES.map(round).to_vec()
}

/// Steps begin anew: all replicas see what the variable is.
#[track_caller]
fn is_whole(scene: &Arc<Scene>, variable: &Variable, after: &str) {
    assert_eq!(
        numbers(&variables::read(variable).unwrap()),
        VALUES,
        "{after}"
    );
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let of_step = Arc::clone(&wrong);
    let variable = variable.clone();
    let look = move |context: &ReplicaContext| {
        for dtype in VIEWS {
            let seen = numbers(view(context, &variable, dtype)?);
            if seen != rounded(dtype) {
                of_step
                    .lock()
                    .unwrap()
                    .push((context.replica(), dtype, seen));
            }
        }
        Ok(None)
    };
    scene.run(Arc::new(look)).unwrap();
    let wrong = wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{after}: {wrong:?}");
}

fn meet(context: &ReplicaContext) -> Result<()> {
    let one = Tensor::from_slice(&[1.0f32], Shape::new(&[1])?, DeviceId::HOST)?;
    context
        .all_reduce(ReduceOp::Sum, Value::Tensor(one))
        .map(drop)
}

fn settings() -> impl Iterator<Item = Setting> {
    let plain = [
        Setting {
            replicas: 1,
            ..Setting::PLAIN
        },
        Setting::PLAIN,
        Setting {
            shares_devices: true,
            ..Setting::PLAIN
        },
    ];
    plain.into_iter().flat_map(|plain| {
        [(false, false), (false, true), (true, false), (true, true)].map(
            |(is_nested, is_bounded)| Setting {
                is_nested,
                is_bounded,
                ..plain
            },
        )
    })
}

/// What the one that writes does beside that, and when the others look.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nothing,
    /// It writes behind its scratch memory, too.
    Fence,
    /// It fails by itself.
    Failure,
    /// The others get their views when it has written.
    EarlyWrite,
    /// It and the others have assigned the variable before, and look at what they have assigned.
    Assignment,
}

#[test]
fn writes_through_views_are_put_back() {
    for (setting, is_own) in settings().flat_map(|setting| [(setting, false), (setting, true)]) {
        let scene = Scene::new(setting);
        let variable = if is_own {
            over_own_memory(&scene)
        } else {
            in_the_librarys(&scene)
        };
        for dtype in VIEWS {
            for writer in 0..setting.replicas {
                for beside in [
                    Beside::Nothing,
                    Beside::Fence,
                    Beside::Failure,
                    Beside::EarlyWrite,
                    Beside::Assignment,
                ] {
                    let case = format!("{setting:?}, {is_own}, {dtype}, {writer}, {beside:?}");
                    let failed = scene.run(writing(&variable, dtype, writer, beside));
                    match beside {
                        Beside::Failure => {
                            let text = failed.unwrap_err().to_string();
                            assert!(text.contains("on purpose"), "{case}: {text}");
                        }
                        Beside::Fence => drop(found(failed, &["outside of its scratch memory"])),
                        _ => {
                            let written = "written through a view of it, which is for reading";
                            let way_out = "submit gradients, or assign";
                            found(failed, &["variable 'own' (float32 [3])", written, way_out]);
                        }
                    }
                    is_whole(&scene, &variable, &case);
                }
            }
        }
    }
}

fn writing(
    variable: &Variable,
    dtype: DType,
    writer: usize,
    beside: Beside,
) -> Arc<umbo_core::strategy::ReplicaFunction> {
    let variable = variable.clone();
    Arc::new(move |context: &ReplicaContext| {
        if beside == Beside::Assignment {
            for number in [4.0f32, 5.0] {
                let value = Tensor::from_slice(&[number; 3], Shape::new(&[3])?, DeviceId::HOST)?;
                variables::assign(&variable, Assignment::Assign, &Value::Tensor(value))?;
                assert_eq!(numbers(view(context, &variable, dtype)?), [number; 3]);
            }
        }
        let is_writer = context.replica() == writer;
        if !is_writer && beside != Beside::EarlyWrite {
            view(context, &variable, dtype)?;
        }
        meet(context)?;
        if is_writer {
            put(view(context, &variable, dtype)?.address(), dtype, 1, 7.0);
            if beside == Beside::Fence {
                put(context.scratch(8)?, DType::Float32, 2, 1.0);
            }
        }
        meet(context)?;
        if !is_writer {
            view(context, &variable, dtype)?;
        }
        match beside {
            Beside::Failure if is_writer => Err(Error::precondition("on purpose")),
            _ => Ok(None),
        }
    })
}

/// A replica that is late reads and writes until it is back.
#[test]
fn what_a_late_replica_has_written_is_put_back() {
    let setting = Setting {
        is_bounded: true,
        ..Setting::PLAIN
    };
    for dtype in VIEWS {
        let scene = Scene::new(setting);
        let variable = over_own_memory(&scene);
        let go_on = Arc::new(AtomicBool::new(false));
        let of_run = variable.clone();
        let free = Arc::clone(&go_on);
        let token = Cancellation::new();
        let cancels = token.clone();
        let step = move |context: &ReplicaContext| {
            let view = view(context, &of_run, dtype)?;
            if context.replica() == 1 {
                cancels.cancel();
                while !free.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                put(view.address(), dtype, 0, 7.0);
            }
            Ok(None)
        };
        let limits = Limits {
            cancellation: Some(token),
            ..Limits::default()
        };
        let late = scene
            .strategy
            .run_within(Arc::new(step), None, limits, None)
            .unwrap_err();
        assert_eq!(late.status(), Status::Cancelled, "{late}");
        go_on.store(true, Ordering::Release);
        scene.strategy.synchronize().unwrap();
        is_whole(&scene, &variable, &dtype.to_string());
    }
}
