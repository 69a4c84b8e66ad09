//! Mistakes of one callback in one step: each is found, named, and forgotten.

use std::cell::Cell;
use std::sync::Arc;

use umbo_core::error::Result;
use umbo_core::optimizer::apply;
use umbo_core::strategy::ReplicaContext;
use umbo_core::tensor::{DType, Shape};

use crate::found;
use crate::scene::{Extra, Extras, Scene, Setting, TABLE, VARIABLES, put};
use crate::settings;

/// A mistake, and what the message says of it.
struct Mistake {
    name: String,
    extras: Extras,
    says: Vec<String>,
    /// It is none for a replica whose contribution nobody reads.
    needs_weight: bool,
    /// It is none for a buffer that begins with zeros.
    needs_overwrite: bool,
}

/// Has replica `replica` do something.
fn only(
    replica: usize,
    act: impl Fn(&ReplicaContext, &Scene) -> Result<()> + Send + Sync + 'static,
) -> Extra {
    Arc::new(move |context, scene| match context.replica() == replica {
        true => act(context, scene),
        false => Ok(()),
    })
}

fn both(one: Extra, other: Extra) -> Extra {
    Arc::new(move |context, scene| {
        one(context, scene)?;
        other(context, scene)
    })
}

thread_local! {
    /// The address of a buffer, which a program has also when it may not use it any more.
    static NOTED: Cell<*mut u8> = const { Cell::new(std::ptr::null_mut()) };
}

/// Notes where the gradient buffer of a variable is.
fn note(replica: usize, index: usize) -> Extra {
    only(replica, move |context, scene| {
        let step = context.step_id();
        NOTED.set(
            scene
                .gradients
                .view(replica, step, index, scene.setting.mode)?
                .address(),
        );
        Ok(())
    })
}

/// Writes an element of the buffer that was noted, or one beside it.
fn write_noted(replica: usize, element: isize) -> Extra {
    only(replica, move |_, scene| {
        put(NOTED.get(), scene.setting.dtype(), element, 1000.0);
        Ok(())
    })
}

fn mistake(name: String, extras: Extras, says: &[String]) -> Mistake {
    Mistake {
        name,
        extras,
        says: says.to_vec(),
        needs_weight: false,
        needs_overwrite: false,
    }
}

/// All of them, made by replica `replica`.
fn all(replica: usize, setting: &Setting) -> Vec<Mistake> {
    let mut all = Vec::new();
    let dtype = setting.dtype();
    let size = setting.dtype().size();
    let who = format!("replica {replica}");
    for (index, (name, shape)) in VARIABLES[..TABLE].iter().enumerate() {
        let elements = shape.iter().product::<usize>() as isize;
        let says = |place: String| {
            [
                who.clone(),
                format!("'{name}'"),
                "gradient buffer".into(),
                place,
            ]
        };
        for distance in [1, 5, 256 / size as isize] {
            let last = elements - 1 + distance;
            for (element, place) in [
                (
                    last,
                    format!("past its end, at byte {}", last * size as isize),
                ),
                (
                    -distance,
                    format!(
                        "before its beginning, at byte -{}",
                        (distance - 1) * size as isize + 1
                    ),
                ),
            ] {
                for after in [false, true] {
                    let note = note(replica, index);
                    let write = write_noted(replica, element);
                    let extras = match after {
                        false => Extras {
                            before: Some(both(note, write)),
                            ..Extras::default()
                        },
                        true => Extras {
                            before: Some(note),
                            after: Some(write),
                            ..Extras::default()
                        },
                    };
                    let name =
                        format!("element {element} of the gradient of {name}, late: {after}");
                    all.push(mistake(name, extras, &says(place.clone())));
                }
            }
        }
    }
    // Elements inside of the gradient, after it was submitted.
    let note = note(replica, 3);
    let write = write_noted(replica, 63);
    all.push(mistake(
        "a gradient after it was submitted".into(),
        Extras {
            before: Some(note),
            after: Some(write),
            ..Extras::default()
        },
        &[
            who.clone(),
            "'bias'".into(),
            "after it had submitted it".into(),
        ],
    ));
    // Elements that are left out.
    for (variable, element, says) in [
        (0, 14, "element 14;"),
        (2, 0, "element 0;"),
        (3, 0, "element 0;"),
        (TABLE, 5, "element 5 of the rows;"),
    ] {
        let name = VARIABLES[variable].0;
        all.push(Mistake {
            needs_weight: true,
            needs_overwrite: variable != TABLE,
            ..mistake(
                format!("element {element} of {name} is not written"),
                Extras {
                    left_out: Some((replica, variable, element)),
                    ..Extras::default()
                },
                &[who.clone(), format!("'{name}'"), says.into()],
            )
        });
    }
    // Rows of the table.
    for (part, dtype, elements) in [("row numbers", DType::Int64, 3), ("rows", dtype, 9)] {
        for element in [elements, -1] {
            let write = only(replica, move |context, scene| {
                let added = scene.gradients.add_rows_in(context, TABLE, 3)?;
                for row in 0..3 {
                    put(added.indices.address(), DType::Int64, row, 1.0);
                }
                for at in 0..9 {
                    put(added.values.address(), scene.setting.dtype(), at, 1.0);
                }
                let to = if part == "rows" {
                    &added.values
                } else {
                    &added.indices
                };
                put(to.address(), dtype, element, 6.0);
                Ok(())
            });
            let side = if element < 0 {
                "before its beginning"
            } else {
                "past its end"
            };
            all.push(mistake(
                format!("element {element} of the {part}"),
                Extras {
                    before: Some(write),
                    ..Extras::default()
                },
                &[who.clone(), "'table'".into(), part.into(), side.into()],
            ));
        }
    }
    // Scratch memory and new tensors.
    for bytes in [0usize, 1, 100, 4096] {
        for behind in [true, false] {
            let at = if behind { bytes as isize } else { -1 };
            let write = only(replica, move |context, _| {
                let memory = context.scratch(bytes)?;
                // SAFETY: in the fence.
                unsafe { memory.offset(at).write(1) };
                Ok(())
            });
            let place = match behind {
                true => format!("past its end, at byte {bytes}"),
                false => "before its beginning, at byte -1".into(),
            };
            all.push(mistake(
                format!("byte {at} of {bytes} bytes of scratch memory"),
                Extras {
                    first: Some(write.clone()),
                    ..Extras::default()
                },
                &[who.clone(), "scratch memory".into(), place.clone()],
            ));
            all.push(mistake(
                format!("byte {at} of {bytes} bytes of scratch memory, late"),
                Extras {
                    after: Some(write),
                    ..Extras::default()
                },
                &[who.clone(), "scratch memory".into(), place],
            ));
        }
    }
    for element in [6, -1] {
        let write = only(replica, move |context, _| {
            let shape = Shape::new(&[2, 3])?;
            let made = context
                .guarded_tensor(DType::Float64, shape, context.device())?
                .unwrap();
            put(made.address(), DType::Float64, element, 1.0);
            Ok(())
        });
        let side = if element < 0 {
            "before its beginning"
        } else {
            "past its end, at byte 48"
        };
        all.push(mistake(
            format!("element {element} of a new tensor"),
            Extras {
                first: Some(write),
                ..Extras::default()
            },
            &[who.clone(), "float64 of shape [2, 3]".into(), side.into()],
        ));
    }
    all
}

/// Makes each mistake of one replica, between steps without any.
fn provoke(setting: Setting, replica: usize, every: usize, first: usize) -> usize {
    let scene = Scene::new(setting);
    let twin = Scene::new(Setting {
        strict: false,
        ..setting
    });
    let mut made = 0;
    for mistake in all(replica, &setting)
        .into_iter()
        .skip(first % every)
        .step_by(every)
    {
        let counts = (setting.weight(replica) != 0.0 || !mistake.needs_weight)
            && (setting.mode == umbo_core::optimizer::GradientMode::Overwrite
                || !mistake.needs_overwrite);
        let case = format!("{}, {setting:?}", mistake.name);
        let before = scene.bits();
        let extras = mistake.extras;
        let outcome = scene.train(extras.clone());
        if counts {
            let parts: Vec<&str> = mistake.says.iter().map(String::as_str).collect();
            let error = found(outcome.map_err(|error| error.within(&case)), &parts);
            let device = scene.strategy.replica_devices()[replica].to_string();
            assert!(
                setting.is_nested || error.to_string().contains(&device),
                "{error}"
            );
            assert_eq!(scene.bits(), before, "{case}");
            assert!(apply(&scene.optimizer, &scene.gradients).is_err(), "{case}");
            made += 1;
        } else {
            outcome.unwrap();
            apply(&scene.optimizer, &scene.gradients).unwrap();
            twin.train(extras).unwrap();
            apply(&twin.optimizer, &twin.gradients).unwrap();
        }
        // What was found is forgotten.
        scene.train_well();
        twin.train_well();
        assert_eq!(scene.bits(), twin.bits(), "after {case}");
    }
    made
}

#[test]
fn every_mistake_in_the_plain_setting() {
    for replica in 0..2 {
        assert!(provoke(Setting::PLAIN, replica, 1, 0) > 70);
    }
}

/// Each mistake comes in several settings, and each setting has several of them.
#[test]
fn mistakes_in_every_setting() {
    let mut made = 0;
    for (number, setting) in settings::all().into_iter().enumerate() {
        for replica in 0..setting.replicas {
            made += provoke(setting, replica, 13, number + replica);
        }
    }
    assert!(made > 1000, "{made}");
}

/// One of the mistakes, by replica `replica`.
pub fn beside_scratch_memory(replica: usize) -> Extras {
    let write = only(replica, |context, _| {
        let memory = context.scratch(16)?;
        // SAFETY: in the fence.
        unsafe { memory.add(16).write(1) };
        Ok(())
    });
    Extras {
        first: Some(write),
        ..Extras::default()
    }
}
