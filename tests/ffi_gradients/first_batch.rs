//! What UMBO_CHECK_STEPS=1 says of programs, each in a process of its own, and that it changes
//! nothing else.

use std::process::Command;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo::*;

use crate::distributed::{batches, next, rows};
use crate::setup::*;

/// Passes over the data, and steps of each.
const PASSES: usize = 2;
const STEPS: i64 = 3;

/// A program: what its callback does, and what calls it.
#[derive(Clone, Copy)]
struct Program<'a> {
    name: &'a str,
    replicas: i32,
    batch: i64,
    /// umbo_train_epoch(), or a loop of its own.
    own_loop: bool,
    declared: umbo_loss_reduction,
}

const RIGHT: Program<'static> = Program {
    name: "right",
    replicas: 2,
    batch: 5,
    own_loop: false,
    declared: UMBO_LOSS_SUM,
};

const PROGRAMS: [Program<'static>; 14] = [
    RIGHT,
    Program {
        name: "wrong",
        declared: UMBO_LOSS_MEAN,
        ..RIGHT
    },
    Program {
        name: "wrong later",
        ..RIGHT
    },
    Program {
        name: "own loop",
        own_loop: true,
        ..RIGHT
    },
    Program {
        name: "wrong in a loop",
        own_loop: true,
        declared: UMBO_LOSS_MEAN,
        ..RIGHT
    },
    Program {
        name: "evaluates",
        own_loop: true,
        ..RIGHT
    },
    Program {
        name: "two gradients",
        own_loop: true,
        ..RIGHT
    },
    Program {
        name: "accumulates",
        own_loop: true,
        ..RIGHT
    },
    Program {
        name: "small",
        batch: 2,
        ..RIGHT
    },
    Program {
        name: "one replica",
        replicas: 1,
        ..RIGHT
    },
    Program {
        name: "splits",
        own_loop: true,
        ..RIGHT
    },
    Program {
        name: "splits once",
        own_loop: true,
        ..RIGHT
    },
    Program {
        name: "wrong in a split",
        own_loop: true,
        declared: UMBO_LOSS_MEAN,
        ..RIGHT
    },
    Program {
        name: "more arguments",
        own_loop: true,
        declared: UMBO_LOSS_MEAN,
        ..RIGHT
    },
];

/// A batch of the program's own, split over the replicas. With `more`, there is another argument.
fn split(strategy: *mut umbo_strategy, more: bool) -> *mut umbo_value {
    let batch = value(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    let number = value(&[7.0]);
    let names = [c"x".as_ptr(), c"number".as_ptr()];
    // SAFETY: handles are live until their release, arrays as long as the counts say.
    unsafe {
        let parts = made(|out| umbo_strategy_split(strategy, batch, out));
        let items = [parts, number];
        let count = if more { 2 } else { 1 };
        let args = made(|out| umbo_value_create_struct(count, names.as_ptr(), items.as_ptr(), out));
        for value in [batch, number, parts] {
            umbo_release(value.cast(), UMBO_HANDLE_VALUE);
        }
        args
    }
}

/// The batch of a program that splits one and uses it in every step.
static ONCE: OnceLock<usize> = OnceLock::new();

/// Which pass a program is in.
static PASS: AtomicUsize = AtomicUsize::new(0);

/// Writes a sum over its rows, or a mean if the program is one that is wrong later.
fn step(
    program: Program<'_>,
    gradients: *mut umbo_gradients,
    ctx: *mut umbo_replica_context,
    args: *const umbo_value,
) -> umbo_status {
    let mut view = std::mem::MaybeUninit::<umbo_view>::uninit();
    // SAFETY: the handles are live, the view leads to one float32 element.
    unsafe {
        let status = umbo_gradients_view(
            gradients,
            ctx,
            0,
            UMBO_GRADIENT_OVERWRITE,
            view.as_mut_ptr(),
        );
        if status != UMBO_OK {
            return status;
        }
        let gradient = view.assume_init().mutable_data.cast::<f32>();
        let rows = rows(args, c"x".as_ptr());
        *gradient = rows.iter().map(|x| (x * 0.37).sin()).sum();
        if program.name == "wrong later" && PASS.load(Ordering::Relaxed) > 0 {
            *gradient /= rows.len().max(1) as f32;
        }
        umbo_gradients_submit(gradients, ctx)
    }
}

/// Adds what its rows are to a metric.
fn evaluate(ctx: *mut umbo_replica_context, args: *const umbo_value) -> umbo_status {
    let rows_of_part = rows(args, c"x".as_ptr());
    let sum = rows_of_part.iter().map(|&x| f64::from(x)).sum();
    let count = rows_of_part.len() as f64;
    // SAFETY: the context is this replica's.
    unsafe { umbo_replica_context_add_metric(ctx, c"x".as_ptr(), sum, count) }
}

fn gradients_of(program: Program<'_>, training: &Training) -> *mut umbo_gradients {
    let options = umbo_gradients_options {
        accumulation_steps: if program.name == "accumulates" { 2 } else { 1 },
        ..Default::default()
    };
    let variables = [training.variable];
    // SAFETY: one variable is listed; the struct lives during the call.
    made(|out| unsafe {
        let variables = variables.as_ptr();
        umbo_gradients_create(
            training.strategy,
            1,
            variables,
            program.declared,
            &options,
            out,
        )
    })
}

/// So many steps of a loop of the program's own.
fn loop_over(
    program: Program<'_>,
    training: &Training,
    iterator: *mut umbo_iterator,
    steps: i64,
    function: Step<'_>,
) -> umbo_status {
    for _ in 0..steps {
        let element = match program.name {
            "splits" | "wrong in a split" => split(training.strategy, false),
            "more arguments" => split(training.strategy, true),
            "splits once" => *ONCE.get_or_init(|| split(training.strategy, false) as usize) as _,
            _ => next(iterator),
        };
        let mut status = run(training.strategy, element, function);
        if status != UMBO_OK {
            status = run(training.strategy, element, function);
        }
        if status == UMBO_OK && program.name != "evaluates" {
            status = training.apply().0;
        }
        if program.name != "splits once" {
            // SAFETY: the handle is not used afterwards.
            unsafe { umbo_release(element.cast(), UMBO_HANDLE_VALUE) };
        }
        if status != UMBO_OK {
            return status;
        }
    }
    UMBO_OK
}

fn epoch(
    training: &Training,
    iterator: *mut umbo_iterator,
    max_steps: i64,
    function: Step<'_>,
) -> umbo_status {
    let options = umbo_train_epoch_options {
        max_steps,
        ..Default::default()
    };
    let strategy = training.strategy;
    let optimizer = training.optimizer;
    let gradients = training.gradients;
    let user_data = (&raw const function).cast_mut().cast();
    let report = ptr::null_mut();
    // SAFETY: the handles are live, and the epoch is over when the call returns.
    unsafe {
        let step = Some(call_step as _);
        umbo_train_epoch(
            strategy, iterator, optimizer, gradients, step, user_data, &options, report,
        )
    }
}

fn train(program: Program<'_>) {
    let mut training = Training::new(program.replicas);
    let first = training.gradients;
    training.gradients = gradients_of(program, &training);
    if program.name != "two gradients" {
        // SAFETY: the handle is not used afterwards.
        unsafe { umbo_release(first.cast(), UMBO_HANDLE_GRADIENTS) };
    }
    let iterator = batches(training.strategy, 23, program.batch);
    let gradients = training.gradients as usize;
    let trains: Step<'_> = &|ctx, args| step(program, gradients as *mut umbo_gradients, ctx, args);
    let function: Step<'_> = if program.name == "evaluates" {
        &evaluate
    } else {
        trains
    };
    let mut status = UMBO_OK;
    for pass in 0..PASSES {
        PASS.store(pass, Ordering::Relaxed);
        // In two calls, of which the second continues the pass.
        for steps in [1, STEPS - 1] {
            if status == UMBO_OK {
                status = match program.own_loop {
                    true => loop_over(program, &training, iterator, steps, function),
                    false => epoch(&training, iterator, steps, function),
                };
                // Who tries again is refused again.
                if status != UMBO_OK && !program.own_loop {
                    status = epoch(&training, iterator, steps, function);
                }
            }
        }
        if status == UMBO_OK {
            // SAFETY: the handle is live.
            ok(unsafe { umbo_iterator_reset(iterator) });
        }
    }
    println!(
        "weight {:08x} status {status} {}",
        training.weight().to_bits(),
        last_message()
    );
    // SAFETY: the handles are not used afterwards.
    unsafe {
        umbo_release(iterator.cast(), UMBO_HANDLE_ITERATOR);
        if program.name == "two gradients" {
            umbo_release(first.cast(), UMBO_HANDLE_GRADIENTS);
        }
    }
}

/// In a process of its own, whose environment is what is tested.
#[test]
#[ignore = "is run by the tests below, with other environments"]
fn one_program() {
    let name = std::env::var("PROGRAM").unwrap();
    let program = PROGRAMS
        .into_iter()
        .find(|program| program.name == name)
        .unwrap();
    train(program);
}

/// The standard output of a program without the harness, and of its standard error the checks.
fn said(program: Program<'_>, environment: &[(&str, &str)]) -> (String, Vec<String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "--ignored",
        "--nocapture",
        "first_batch::one_program",
    ]);
    command
        .env_remove("UMBO_LOG")
        .env_remove("UMBO_STRICT")
        .env_remove("UMBO_CHECK_STEPS");
    command
        .env("PROGRAM", program.name)
        .envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let out = text(&output.stdout);
    let err = text(&output.stderr);
    assert!(output.status.success(), "{}: {out}{err}", program.name);
    let weight = out
        .lines()
        .find_map(|line| Some(line[line.find("weight ")?..].to_owned()));
    let lines = err
        .lines()
        .filter(|line| line.contains("UMBO_CHECK_STEPS"))
        .map(str::to_owned);
    (
        weight.unwrap_or_else(|| panic!("{}: {out}", program.name)),
        lines.collect(),
    )
}

#[test]
fn the_first_batch_of_each_pass_is_checked_and_all_else_is_as_before() {
    for program in PROGRAMS {
        let (plain, nothing) = said(program, &[]);
        assert_eq!(nothing, [""; 0], "{}", program.name);
        assert!(plain.contains("status 0 "), "{}: {plain}", program.name);
        let (checked, verdicts) = said(program, &[("UMBO_CHECK_STEPS", "1")]);
        assert_eq!(checked, plain, "{}", program.name);
        let expected = match program.name {
            "right" | "wrong later" | "own loop" | "accumulates" | "splits" | "splits once" => {
                "umbo: INFO: UMBO_CHECK_STEPS: equivalent: 1 replica and 2, on 3 + 2 examples, 1 \
                 gradient, 0 metrics"
            }
            "wrong" | "wrong in a loop" | "wrong in a split" => {
                "umbo: WARNING: UMBO_CHECK_STEPS: not equivalent: 1 replica and 2, on 3 + 2 \
                 examples, 1 gradient, 0 metrics"
            }
            "evaluates" => {
                "umbo: INFO: UMBO_CHECK_STEPS: equivalent: 1 replica and 2, on 3 + 2 examples, 0 \
                 gradients, 1 metric"
            }
            "two gradients" => {
                "umbo: WARNING: UMBO_CHECK_STEPS: not checked: the strategy has 2 umbo_gradients"
            }
            "more arguments" => {
                "umbo: WARNING: UMBO_CHECK_STEPS: not checked: the arguments of a run hold a batch \
                 inside of"
            }
            "small" => {
                "umbo: WARNING: UMBO_CHECK_STEPS: not checked: batch: 2 examples; give 3 or more"
            }
            "one replica" => "umbo: INFO: UMBO_CHECK_STEPS: equivalent as far as one replica shows",
            other => panic!("{other}"),
        };
        assert!(
            verdicts[0].starts_with(expected),
            "{}: {verdicts:?}",
            program.name
        );
        // Each verdict is said once; a later pass may have another.
        let later: Vec<_> = verdicts[1..].iter().map(|verdict| &verdict[..41]).collect();
        match program.name {
            "wrong later" => assert_eq!(later, ["umbo: WARNING: UMBO_CHECK_STEPS: not equi"]),
            _ => assert_eq!(later, [""; 0], "{}", program.name),
        }
    }
}

#[test]
fn a_strict_program_fails_before_the_step_that_is_wrong() {
    let environment = [("UMBO_CHECK_STEPS", "1"), ("UMBO_STRICT", "1")];
    for program in PROGRAMS {
        let (end, _) = said(program, &environment);
        match program.name {
            "wrong later" => assert!(end.contains("UMBO_CHECK_STEPS: not equivalent"), "{end}"),
            "wrong" | "wrong in a loop" | "wrong in a split" => {
                let untouched = format!(
                    "weight {:08x} status {UMBO_STATUS_FAILED_PRECONDITION} ",
                    1f32.to_bits()
                );
                assert!(end.starts_with(&untouched), "{end}");
                assert!(
                    end.contains("strict mode: UMBO_CHECK_STEPS: not equivalent: 1 replica and 2"),
                    "{end}"
                );
                assert_eq!(
                    end.contains("step 1 of the epoch did not begin (the next epoch"),
                    !program.own_loop,
                    "{end}"
                );
            }
            _ => assert!(end.contains("status 0 "), "{}: {end}", program.name),
        }
    }
}

#[test]
fn a_value_that_means_nothing_is_said_and_checks_nothing() {
    let (end, lines) = said(
        PROGRAMS[1],
        &[("UMBO_CHECK_STEPS", "yes"), ("UMBO_LOG", "warning")],
    );
    assert!(end.contains("status 0 "), "{end}");
    let expected = "umbo: WARNING: UMBO_CHECK_STEPS is 'yes', neither 0 nor 1, and is taken as 0";
    assert!(
        lines.len() == 1 && lines[0].starts_with(expected),
        "{lines:?}"
    );
}
