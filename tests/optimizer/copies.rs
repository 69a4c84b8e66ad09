//! Low-precision copies of variables: after whatever wrote a variable they are its value, rounded,
//! bit by bit, and an update leaves nothing for the next request to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use half::{bf16, f16};
use umbo_core::collectives::Assignment;
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result, Status};
use umbo_core::executor::workers;
use umbo_core::kernels::streaming;
use umbo_core::optimizer::LossReduction::{Mean, Sum};
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{
    self, ApplyAction, ApplyOptions, GradientMode, Gradients, GradientsOptions, NonFinite,
    Optimizer, Settings,
};
use umbo_core::strategy::commit::{CommitAction, StepParticipant};
use umbo_core::strategy::variables::writing::{ScatterOp, scatter};
use umbo_core::strategy::variables::{self, Initial, assign};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;
use umbo_core::values::buffer::{COPY_DTYPES, is_readable_as};
use umbo_core::values::variable::{Aggregation, Keeper, Variable};

use crate::features::AVERAGES;
use crate::sets::same_in_every_set;
use crate::setup::*;

/// Whole tiles, and some elements more.
const ELEMENTS: usize = 2 * 2048 + 37;
const ROWS: usize = 300;
const WIDTH: usize = 19;

/// Numbers of either sign that are no 16-bit floats, and some so small that they are denormal ones.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let number = |index: usize| {
        let number = ((index * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.4;
        if index.is_multiple_of(7) {
            number * 1e-6
        } else {
            number
        }
    };
    (0..count).map(number).collect()
}

fn rounded(values: &[f32], dtype: DType) -> Vec<u16> {
    let round = |value: &f32| match dtype {
        DType::Float16 => f16::from_f32_const(*value).to_bits(),
        _ => bf16::from_f32_const(*value).to_bits(),
    };
    values.iter().map(round).collect()
}

fn halves(copy: &Tensor) -> Vec<u16> {
    match copy.dtype() {
        DType::Float16 => read::<f16>(copy).into_iter().map(f16::to_bits).collect(),
        _ => read::<bf16>(copy).into_iter().map(bf16::to_bits).collect(),
    }
}

/// Makes the copies of the buffer that the step in flight sees.
pub fn make_copies(variable: &Variable) {
    for dtype in COPY_DTYPES {
        refreshed(variable, variable.visible_buffer(), dtype);
    }
}

/// The copy of a buffer, brought up to date.
fn refreshed(variable: &Variable, buffer: usize, dtype: DType) -> &Tensor {
    // SAFETY: nobody writes the variables of these tests while a copy is made or read.
    unsafe { variable.refreshed_copy(buffer, variable.device(), dtype) }.unwrap()
}

/// The copy of a buffer, if it is up to date.
fn copy_of(variable: &Variable, buffer: usize, dtype: DType) -> Option<&Tensor> {
    // SAFETY: as above.
    unsafe { variable.copy(buffer, variable.device(), dtype) }
}

/// The copies are up to date without anybody having asked, and are the value, rounded.
#[track_caller]
pub fn are_current(variable: &Variable) {
    let buffer = variable.visible_buffer();
    let value: Vec<f32> = read(visible(variable));
    for dtype in COPY_DTYPES {
        let copy = copy_of(variable, buffer, dtype);
        let copy = copy.unwrap_or_else(|| panic!("{dtype} is out of date"));
        assert_eq!((copy.dtype(), copy.shape()), (dtype, variable.shape()));
        assert!(
            halves(copy) == rounded(&value, dtype),
            "{dtype} is not the value"
        );
    }
}

fn are_out_of_date(variable: &Variable) -> bool {
    let buffer = variable.visible_buffer();
    COPY_DTYPES
        .into_iter()
        .all(|dtype| copy_of(variable, buffer, dtype).is_none())
}

/// Trains a dense variable and a table with everything on; the bits of the values at the end.
fn train(rule: &str, elements: usize) -> Vec<Vec<u32>> {
    let a = variable("a", &numbers(elements, 1));
    let b = table("b", &numbers(ROWS * WIDTH, 2), WIDTH);
    let is_row_sparse = updates_rows(rule);
    let options = GradientsOptions {
        accumulation_steps: 2,
        dtype: None,
        row_sparse: &[false, is_row_sparse],
    };
    let variables = vec![a.clone(), b.clone()];
    let gradients = Gradients::new(STRATEGY, &devices(2), variables, Mean, options).unwrap();
    let optimizer = optimizer(rule, 0.1);
    let settings = Settings {
        global_clip_norm: Some(0.5),
        non_finite: Some(NonFinite::Skip),
        averaging: AVERAGES[2],
        ..Settings::default()
    };
    optimizer.configure(settings).unwrap();
    make_copies(&a);
    make_copies(&b);
    for step in 1..=6 {
        let before = [bits(&value(&a)), bits(&value(&b))];
        for replica in 0..2 {
            let seed = step as usize * 31 + replica;
            let mut data = numbers(elements, seed);
            if step == 3 {
                data[elements / 2] = f32::NAN;
            }
            overwrite(&gradients, step, replica, 0, &data);
            if is_row_sparse {
                let named: Vec<i64> = (0..200)
                    .map(|i| (i * seed as i64 * 7 % ROWS as i64) / 2 * 2)
                    .collect();
                add_rows(
                    &gradients,
                    step,
                    replica,
                    1,
                    &named,
                    &numbers(200 * WIDTH, seed),
                );
            } else {
                overwrite(&gradients, step, replica, 1, &numbers(ROWS * WIDTH, seed));
            }
        }
        submit(&gradients, step, &[3.0, 1.0]);
        gradients.commit(step);
        let report = apply_with(&optimizer, &gradients, ApplyOptions::default()).unwrap();
        assert_eq!(
            (report.applied, report.skipped),
            (matches!(step, 2 | 6), step == 4)
        );
        // Whether it updated, added up or skipped.
        are_current(&a);
        are_current(&b);
        let after = [bits(&value(&a)), bits(&value(&b))];
        assert!(report.applied || after == before);
    }
    let trained = vec![bits(&value(&a)), bits(&value(&b))];
    let initial = [bits(&numbers(elements, 1)), bits(&numbers(ROWS * WIDTH, 2))];
    assert!(trained[0] != initial[0] && trained[1] != initial[1]);
    trained
}

#[test]
fn an_update_by_any_rule_writes_the_copies_along() {
    same_in_every_set(
        "copies::an_update_by_any_rule_writes_the_copies_along",
        || {
            let trained = RULES.into_iter().flat_map(|rule| train(rule, ELEMENTS));
            trained.flatten().flat_map(u32::to_ne_bytes).collect()
        },
    );
}

#[test]
fn any_number_of_workers_writes_the_copies_along() {
    let _changes = WORKER_COUNT.write();
    let before = workers::count();
    // So that several take part in what several could.
    workers::fix_costs(Some(workers::Costs::NONE));
    for count in [1, 2, 3] {
        workers::set_count(count).unwrap();
        // Past the caches from one byte on, and never.
        let trained = [1, usize::MAX].map(|traffic| {
            streaming::select(traffic);
            train("momentum", 70_003)
        });
        assert!(trained[0] == trained[1]);
    }
    workers::set_count(before).unwrap();
}

/// An update of some rows cannot know the others: a copy that is out of step stays so.
#[test]
fn rows_do_not_bring_a_copy_up_to_date() {
    let table = table("table", &numbers(ROWS * WIDTH, 1), WIDTH);
    make_copies(&table);
    write(&changing(&table), &numbers(ROWS * WIDTH, 2));
    assert!(are_out_of_date(&table));
    // One of the two is in step.
    refreshed(&table, 0, DType::BFloat16);
    let gradients = row_gradients(1, &[&table], Sum, &[true], 1);
    let optimizer = optimizer("sgd", 0.5);
    add_rows(&gradients, 1, 0, 0, &[7, 3, 7], &numbers(3 * WIDTH, 3));
    submit(&gradients, 1, &[1.0]);
    gradients.commit(1);
    apply(&optimizer, &gradients).unwrap();
    assert!(
        copy_of(&table, 0, DType::Float16).is_none()
            && copy_of(&table, 0, DType::BFloat16).is_some()
    );
    make_copies(&table);
    are_current(&table);
}

/// But an update of everything does.
#[test]
fn a_dense_update_brings_copies_up_to_date() {
    let a = variable("a", &numbers(ELEMENTS, 1));
    make_copies(&a);
    write(&changing(&a), &numbers(ELEMENTS, 2));
    let gradients = gradients(1, &[&a], Sum);
    step(&gradients, 1, &[Some(&numbers(ELEMENTS, 3))], &[1.0]);
    apply(&optimizer("adam", 0.5), &gradients).unwrap();
    are_current(&a);
}

#[test]
fn an_apply_that_fails_or_is_dropped_leaves_copies_up_to_date() {
    let a = variable("a", &numbers(ELEMENTS, 1));
    make_copies(&a);
    let gradients = gradients(1, &[&a], Sum);
    let optimizer = optimizer("adam", 0.5);
    let settings = Settings {
        non_finite: Some(NonFinite::Fail),
        ..Settings::default()
    };
    optimizer.configure(settings).unwrap();
    step(&gradients, 1, &[Some(&[f32::INFINITY; ELEMENTS])], &[1.0]);
    refusal(apply(&optimizer, &gradients), Status::InvalidArgument);
    are_current(&a);
    step(&gradients, 2, &[Some(&[1.0f32; ELEMENTS])], &[1.0]);
    let mut action = ApplyAction::new(Arc::clone(&optimizer), Arc::clone(&gradients));
    action.prepare().unwrap();
    drop(action);
    are_current(&a);
    apply(&optimizer, &gradients).unwrap();
    are_current(&a);
}

/// A replica that is late may still read a copy of a variable that was released.
#[test]
fn copies_are_kept_as_long_as_their_variable_is() {
    #[derive(Default)]
    struct Kept(Mutex<Vec<Tensor>>);
    impl Keeper for Kept {
        fn keep(&self, tensors: &mut dyn Iterator<Item = Tensor>) {
            self.0.lock().unwrap().extend(tensors);
        }
    }
    let keeper: Arc<Kept> = Arc::default();
    let of_keeper: Arc<dyn Keeper> = Arc::clone(&keeper) as Arc<dyn Keeper>;
    let other = variable("a", &[1.0f32; 3]);
    let value = Tensor::from_slice(&[1.0f32; 3], other.shape(), DeviceId::HOST).unwrap();
    let variable = Variable::new(other.spec().clone(), value, Arc::downgrade(&of_keeper));
    make_copies(&variable);
    write(&staging(&variable), &[2.0f32; 3]);
    variable.stage();
    refreshed(&variable, variable.visible_buffer(), DType::Float16);
    drop(variable);
    let kept = keeper.0.lock().unwrap();
    let count = |dtype| kept.iter().filter(|tensor| tensor.dtype() == dtype).count();
    let dtypes = [DType::Float32, DType::Float16, DType::BFloat16];
    assert_eq!(dtypes.map(count), [2, 2, 1]);
}

#[test]
fn only_float32_has_copies() {
    for dtype in DType::ALL {
        let is_narrower = dtype == DType::Float32 || COPY_DTYPES.contains(&dtype);
        assert_eq!(is_readable_as(DType::Float32, dtype), is_narrower);
        for variable in DType::ALL
            .into_iter()
            .filter(|dtype| *dtype != DType::Float32)
        {
            assert_eq!(is_readable_as(variable, dtype), variable == dtype);
        }
    }
    let single = variable("a", &[1.0f32]);
    let double = variable("b", &[1.0f64]);
    let copy = current_copy(None, &double, DType::Float64)
        .unwrap()
        .unwrap();
    assert!(copy.is_same(committed(&double)));
    for (variable, dtype) in [
        (&double, DType::Float16),
        (&double, DType::Float32),
        (&single, DType::Float64),
    ] {
        let message = refusal(current_copy(None, variable, dtype), Status::InvalidArgument);
        assert!(
            message.contains("dtype") && message.contains(variable.name().as_str()),
            "{message}"
        );
        refusal(
            refreshed_copy(None, variable, dtype),
            Status::InvalidArgument,
        );
    }
}

/// A variable of a strategy of two replicas, which sums what they assign.
fn of_strategy(values: &[f32]) -> (Strategy, Variable) {
    let options = Options {
        cpu_replicas: 2,
        ..Options::default()
    };
    let strategy = Strategy::new(&options).unwrap();
    let new = crate::fresh::new_variable("v", Aggregation::Sum);
    let shape = Shape::new(&[values.len() / WIDTH, WIDTH]).unwrap();
    let initial = Tensor::from_slice(values, shape, DeviceId::HOST).unwrap();
    let variable = variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap();
    (strategy, variable)
}

/// The copy that somebody gets, if it is in step.
fn current_copy<'a>(
    context: Option<&ReplicaContext>,
    variable: &'a Variable,
    dtype: DType,
) -> Result<Option<&'a Tensor>> {
    // SAFETY: it is read before anybody writes the variable again.
    unsafe { variables::current_copy(context, variable, dtype) }
}

/// The copy that somebody gets, brought in step.
fn refreshed_copy<'a>(
    context: Option<&ReplicaContext>,
    variable: &'a Variable,
    dtype: DType,
) -> Result<&'a Tensor> {
    // SAFETY: as above.
    unsafe { variables::refreshed_copy(context, variable, dtype) }
}

/// What a callback does that reads in lower precision: the same copy whoever asks, and the value
/// rounded.
#[track_caller]
fn asked(context: Option<&ReplicaContext>, variable: &Variable) {
    for dtype in COPY_DTYPES {
        let copy = refreshed_copy(context, variable, dtype).unwrap();
        let now = current_copy(context, variable, dtype).unwrap();
        assert!(now.is_some_and(|now| now.is_same(copy)));
        // SAFETY: as above.
        let value =
            unsafe { variables::refreshed_copy(context, variable, variable.dtype()) }.unwrap();
        assert!(halves(copy) == rounded(&read(value), dtype), "{dtype}");
    }
}

fn rows_of(values: &[f32]) -> Value {
    let shape = Shape::new(&[values.len() / WIDTH, WIDTH]).unwrap();
    Value::Tensor(Tensor::from_slice(values, shape, DeviceId::HOST).unwrap())
}

fn slices(variable: &Variable, rows: &[i64]) -> Value {
    let values = vec![0.3f32; rows.len() * WIDTH];
    let Value::Tensor(values) = rows_of(&values) else {
        unreachable!("a tensor was made")
    };
    let shape = Shape::new(&[rows.len()]).unwrap();
    let indices = Tensor::from_slice(rows, shape, DeviceId::HOST).unwrap();
    Value::indexed_slices(values, indices, variable.shape()).unwrap()
}

#[test]
fn copies_follow_assignments_in_every_context() {
    let (strategy, variable) = of_strategy(&numbers(ROWS * WIDTH, 1));
    asked(None, &variable);
    for (round, kind) in [Assignment::Assign, Assignment::Add, Assignment::Subtract]
        .into_iter()
        .enumerate()
    {
        assign(&variable, kind, &rows_of(&numbers(ROWS * WIDTH, round))).unwrap();
        assert!(are_out_of_date(&variable));
        asked(None, &variable);
    }
    scatter(&variable, ScatterOp::Add, &slices(&variable, &[3, 299, 3])).unwrap();
    assert!(are_out_of_date(&variable));
    asked(None, &variable);
    for fails in [false, true, true, false, true, false] {
        let before: Vec<f32> = value(&variable);
        let step = |context: &ReplicaContext| -> Result<Option<Value>> {
            let replica = context.replica();
            let context = Some(context);
            asked(context, &variable);
            for seed in 0..2 {
                let rows = rows_of(&numbers(ROWS * WIDTH, 10 + 2 * seed + replica));
                assign(&variable, Assignment::Add, &rows)?;
                asked(context, &variable);
                let scattered = slices(&variable, &[replica as i64, 7]);
                scatter(&variable, ScatterOp::Multiply, &scattered)?;
                asked(context, &variable);
            }
            if fails {
                Err(Error::Internal("as it should".into()))
            } else {
                Ok(None)
            }
        };
        assert_eq!(strategy.run(&step, None).is_err(), fails);
        assert_eq!(value::<f32>(&variable) == before, fails);
        // Nobody wrote since somebody asked; after a failure that was before the step's writes.
        are_current(&variable);
    }
}

/// Replicas ask, contribute and have the optimizer apply at the commit point, in a step that
/// assigns or does not; and some of the steps fail.
#[test]
fn copies_follow_applies_at_the_commit_point() {
    let (strategy, variable) = of_strategy(&numbers(ROWS * WIDTH, 1));
    let devices = strategy.compute_devices();
    let gradients = Gradients::new(
        strategy.id(),
        devices,
        vec![variable.clone()],
        Sum,
        Default::default(),
    )
    .unwrap();
    let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.25).unwrap();
    for (assigns, fails) in [
        (false, false),
        (true, false),
        (true, true),
        (true, false),
        (false, true),
        (false, false),
    ] {
        let before: Vec<f32> = value(&variable);
        let step = |context: &ReplicaContext| -> Result<Option<Value>> {
            asked(Some(context), &variable);
            let view = gradients.view_in(context, 0, GradientMode::Overwrite)?;
            write(view, &numbers(ROWS * WIDTH, context.replica()));
            gradients.submit_in(context, Some(1.0))?;
            optimizer::apply(&optimizer, &gradients)?;
            if assigns {
                assign(
                    &variable,
                    Assignment::Add,
                    &rows_of(&numbers(ROWS * WIDTH, 5 + context.replica())),
                )?;
                asked(Some(context), &variable);
            }
            if fails {
                Err(Error::Internal("as it should".into()))
            } else {
                Ok(None)
            }
        };
        assert_eq!(strategy.run(&step, None).is_err(), fails);
        assert_eq!(value::<f32>(&variable) == before, fails);
        // The update wrote the copies of the buffer that it wrote.
        are_current(&variable);
    }
    assert_eq!(optimizer.iterations(), 4);
}

/// One thread asks while another assigns: what the latter then finds is what it assigned. (A
/// conversion that did not exclude writers could end behind one, with what was there before.)
#[test]
fn asking_and_assigning_at_once_leaves_no_copy_behind() {
    let (_strategy, variable) = of_strategy(&[0.0; ROWS * WIDTH]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                refreshed_copy(None, &variable, DType::Float16).unwrap();
            }
        });
        let results = (0..300).map(|round| {
            let rows = rows_of(&[round as f32; ROWS * WIDTH]);
            assign(&variable, Assignment::Assign, &rows).unwrap();
            thread::yield_now();
            let copy = refreshed_copy(None, &variable, DType::Float16).unwrap();
            halves(copy) == rounded(&[round as f32; ROWS * WIDTH], DType::Float16)
        });
        let wrong = results.filter(|right| !right).count();
        done.store(true, Ordering::Relaxed);
        assert_eq!(wrong, 0);
    });
}
