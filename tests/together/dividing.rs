//! Each rank keeps the state of its part of a variable, and updates that alone: what comes of it
//! are the bits of one process, for every rule and whatever else is done to the same variables.

use std::sync::Arc;

use umbo_core::error::Status;
use umbo_core::kernels::update::tiles::Tile;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::rules::catalogue::FACTORED_RULES;
use umbo_core::optimizer::rules::custom::Custom;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::rules::{Rates, Slot, WeightDecay, catalogue};
use umbo_core::optimizer::{
    ApplyOptions, AverageKind, Averaging, GradientMode, Gradients, GradientsOptions, LossReduction,
    LossScaling, NonFinite, Optimizer, Settings, StateBits, UpdateRule, apply, apply_with,
};
use umbo_core::strategy::variables::{current_copy, read, refreshed_copy};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::DType;
use umbo_core::values::variable::{Aggregation, Variable};

use super::engine::{job, ranks};
use super::reproducible::chosen;
use super::{
    alone, bytes, copy_into, on_ranks, on_ranks_of, tensor, tensor_of, try_to_copy_into, variable,
};

/// Makes a rule.
pub type Make = fn() -> Box<dyn UpdateRule>;

/// All rules of the library, and one of the program.
pub fn rules() -> impl Iterator<Item = Make> {
    let named = catalogue::RULES.into_iter().chain(FACTORED_RULES);
    named.map(|rule| rule.make).chain([custom as Make])
}

/// A rule of the program's, which looks at where its tile lies.
fn custom() -> Box<dyn UpdateRule> {
    let slots = ["last", "sum"].map(|name| Slot::new(name, 0.25));
    let update = |tile: &Tile<'_>, rates: &Rates, step: u64| {
        assert_eq!((tile.dtype, tile.slots.len()), (DType::Float32, 2));
        for at in 0..tile.elements {
            // SAFETY: the tile's elements are this call's.
            unsafe {
                let place = |elements: *mut u8| elements.cast::<f32>().add(at);
                let gradient = tile.gradient.cast::<f32>().add(at).read();
                let last = place(tile.slots[0]);
                let sum = place(tile.slots[1]);
                let number = (tile.start + at) as f32 / 1e6 + step as f32 / 1e4;
                sum.write(sum.read() + gradient * gradient);
                let new = gradient + 0.5 * last.read() + number;
                last.write(new);
                let weight = place(tile.weights);
                weight.write(weight.read() - rates.learning_rate as f32 * new / sum.read().sqrt());
            }
        }
    };
    let slots = slots.to_vec();
    let rule = Custom::new(
        "ours".into(),
        slots,
        0.02,
        WeightDecay::L2,
        Box::new(update),
        None,
    );
    Box::new(rule.unwrap())
}

/// Of less than a tile, of some tiles with a rest, and of more chunks than one.
const SHAPES: [&[usize]; 6] = [&[5], &[1024], &[3, 700], &[], &[0, 4], &[9, 2048]];

pub fn numbers(seed: usize, count: usize) -> Vec<f32> {
    let number = |at: usize| ((at * 7919 + seed * 104_729 + 13) % 2003) as f32 / 1001.0 - 0.97;
    (0..count).map(number).collect()
}

pub fn make(strategy: &Strategy, shapes: &[&[usize]]) -> Vec<Variable> {
    make_of(strategy, shapes, |_| DType::Float32)
}

fn make_of(
    strategy: &Strategy,
    shapes: &[&[usize]],
    dtype: impl Fn(usize) -> DType,
) -> Vec<Variable> {
    let make = |(index, shape): (usize, &&[usize])| {
        let numbers = numbers(index, shape.iter().product());
        let value = tensor_of(dtype(index), &numbers, shape);
        variable(strategy, &format!("v{index}"), Aggregation::None, &value)
    };
    shapes.iter().enumerate().map(make).collect()
}

pub fn gradients(
    strategy: &Strategy,
    variables: &[Variable],
    options: GradientsOptions<'_>,
) -> Arc<Gradients> {
    let devices = strategy.replica_devices();
    let variables = variables.to_vec();
    Gradients::new(
        strategy.id(),
        devices,
        variables,
        LossReduction::Mean,
        options,
    )
    .unwrap()
}

/// Writes what a replica contributes in a step to each of the variables that are not left out.
pub fn contribute(
    context: &ReplicaContext,
    gradients: &Arc<Gradients>,
    step: usize,
) -> umbo_core::error::Result<()> {
    let replica = context.replica_in_sync();
    for (index, variable) in gradients.variables().iter().enumerate() {
        if (replica + index + step) % 5 == 4 {
            continue;
        }
        let count = variable.shape().elements();
        let seed = step * 100 + replica * 10 + index;
        if gradients.is_row_sparse(index) {
            let rows = [replica as i64 % 3, 2, 2];
            let added = gradients.add_rows_in(context, index, rows.len())?;
            try_to_copy_into(&added.indices, &tensor(&rows, &[rows.len()]))?;
            let shape = added.values.shape();
            try_to_copy_into(
                &added.values,
                &tensor(&numbers(seed, shape.elements()), &shape),
            )?;
            continue;
        }
        let view = gradients.view_in(context, index, GradientMode::Overwrite)?;
        let values = numbers(seed, count);
        try_to_copy_into(view, &tensor_of(view.dtype(), &values, &view.shape()))?;
    }
    gradients.submit_in(context, Some(1.0 + replica as f64))
}

/// The bytes of weights, and of all state.
pub fn known(optimizer: &Optimizer, variables: &[Variable]) -> Vec<Vec<u8>> {
    let mut known: Vec<_> = variables
        .iter()
        .map(|variable| bytes(&read(variable).unwrap()))
        .collect();
    for variable in variables {
        for slot in &optimizer.slots() {
            known.extend(
                optimizer
                    .state(variable, &slot.name)
                    .map(|state| bytes(&state)),
            );
        }
    }
    known
}

/// What a training is like, beside its rule.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub settings: Settings,
    pub dtype: Option<DType>,
    pub accumulation: u64,
    pub deferred: bool,
}

pub fn plans() -> Vec<Plan> {
    let plain = Settings::default();
    let clipped = Settings {
        global_clip_norm: Some(0.3),
        clip_value: Some(0.02),
        weight_decay: Some(0.03),
        averaging: Some(Averaging {
            kind: AverageKind::Exponential {
                decay: 0.75,
                warmup: true,
            },
            start: 0,
            interval: 1,
        }),
        ..plain
    };
    let scaling = Some(LossScaling::Fixed(8.0));
    let careful = Settings {
        non_finite: Some(NonFinite::Skip),
        loss_scaling: scaling,
        averaging: Some(Averaging {
            kind: AverageKind::Mean,
            start: 1,
            interval: 2,
        }),
        ..plain
    };
    [
        Plan {
            settings: plain,
            dtype: None,
            accumulation: 1,
            deferred: true,
        },
        Plan {
            settings: clipped,
            dtype: None,
            accumulation: 2,
            deferred: false,
        },
        Plan {
            settings: careful,
            dtype: Some(DType::Float16),
            accumulation: 1,
            deferred: false,
        },
        Plan {
            settings: clipped,
            dtype: Some(DType::Float16),
            accumulation: 3,
            deferred: true,
        },
    ]
    .to_vec()
}

/// The bytes of the variables while they have the averages of their weights, for a while.
fn averaged(optimizer: &Optimizer, variables: &[Variable]) -> Vec<Vec<u8>> {
    let values = || {
        let values = variables
            .iter()
            .map(|variable| bytes(&read(variable).unwrap()));
        values.collect::<Vec<_>>()
    };
    let weights = values();
    let averages = variables
        .iter()
        .map(|variable| bytes(&optimizer.state(variable, "average").unwrap()));
    let averages: Vec<_> = averages.collect();
    let shown = optimizer.with_average(|| Ok(values())).unwrap();
    assert!(shown == averages, "the averages are not shown");
    assert!(values() == weights, "the weights are not back");
    // The weights of FTRL are 0 here from the first update on.
    let moves = optimizer.rule().name() != "ftrl";
    assert!(shown != weights || !moves, "the averages are the weights");
    shown
}

pub fn train(strategy: Strategy, rule: Box<dyn UpdateRule>, plan: Plan) -> Vec<Vec<u8>> {
    train_shapes(strategy, &SHAPES, rule, plan)
}

/// The same, with variables of these shapes.
pub fn train_shapes(
    strategy: Strategy,
    shapes: &[&[usize]],
    rule: Box<dyn UpdateRule>,
    plan: Plan,
) -> Vec<Vec<u8>> {
    let is_rounded = plan.settings.stochastic_rounding.is_some();
    let variables = make_of(&strategy, shapes, |index| {
        match is_rounded && index % 3 != 0 {
            true => DType::BFloat16,
            false => DType::Float32,
        }
    });
    let options = GradientsOptions {
        accumulation_steps: plan.accumulation,
        dtype: plan.dtype,
        ..GradientsOptions::default()
    };
    let gradients = gradients(&strategy, &variables, options);
    let optimizer = Optimizer::new(strategy.id(), rule, 0.05).unwrap();
    optimizer.configure(plan.settings).unwrap();
    let mut all = Vec::new();
    for step in 0..6 {
        let callback = |context: &ReplicaContext| {
            contribute(context, &gradients, step)?;
            if plan.deferred {
                apply(&optimizer, &gradients)?;
            }
            Ok(None)
        };
        strategy.run(&callback, None).unwrap();
        if !plan.deferred {
            let options = ApplyOptions {
                measure_norm: step % 2 == 0,
                ..ApplyOptions::default()
            };
            apply_with(&optimizer, &gradients, options).unwrap();
        }
        let report = optimizer.last_report().unwrap();
        let norm = report.gradient_norm.map(f64::to_bits);
        all.push(format!("{norm:?} {} {}", report.clipped, report.iterations).into_bytes());
        all.extend(known(&optimizer, &variables));
    }
    if plan.settings.averaging.is_some() {
        all.extend(averaged(&optimizer, &variables));
    }
    all
}

/// Each device has a replica, or the number of replicas was chosen: then their shares of ranks and
/// devices are not equal, and no runs are accumulated. Some of the ranks are strict.
#[test]
fn every_rule_divided_comes_to_the_bits_of_one_process() {
    let splits = [(2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (2, 3), (5, 1)];
    let cases = rules().flat_map(|make| plans().into_iter().map(move |plan| (make, plan)));
    let coded = rules().filter(|make| make().code_maps().is_some());
    let coded = coded.flat_map(|make| {
        plans().into_iter().map(move |mut plan| {
            plan.settings.state_bits = StateBits::Eight;
            (make, plan)
        })
    });
    let rounded = rules().filter(|make| make().rounds());
    let rounded = rounded.flat_map(|make| {
        plans().into_iter().enumerate().map(move |(at, mut plan)| {
            plan.settings.averaging = None;
            plan.settings.stochastic_rounding = Some(at as u64);
            if at % 2 == 0 && make().code_maps().is_some() {
                plan.settings.state_bits = StateBits::Eight;
            }
            (make, plan)
        })
    });
    let cases = cases.chain(coded).chain(rounded);
    for (number, (make, plan)) in cases.enumerate() {
        // Both with each rule and with each plan.
        let in_sync = [0, 7][(number + number / 4) % 2];
        let (size, devices) = splits[(number + in_sync / 2) % splits.len()];
        let all = if in_sync == 0 {
            size * devices
        } else {
            in_sync
        };
        let accumulation = if in_sync == 0 { plan.accumulation } else { 1 };
        let plan = Plan {
            accumulation,
            ..plan
        };
        let expected = train(alone(all), make(), plan);
        let options = |rank: usize| Options {
            strict: (rank + number).is_multiple_of(3),
            ..chosen(rank, devices, in_sync)
        };
        let ranks = job(size, Some(number as u64), None);
        let came = on_ranks_of(&ranks, options, |_, strategy| {
            train(strategy.unwrap(), make(), plan)
        });
        for came in came {
            let rule = make();
            assert!(
                came == expected,
                "{rule:?}, {all} on {size}×{devices}, {plan:?}"
            );
        }
    }
}

/// A rank receives about as much as before parts were updated where they are: contributions, and
/// weights in place of gradients.
#[test]
fn what_ranks_exchange_is_what_a_ring_would() {
    const ELEMENTS: usize = 200_000;
    let size = 4;
    let exchanged = |steps: usize| {
        let ranks = ranks(size);
        on_ranks(&ranks, 1, |_, strategy| {
            let strategy = strategy.unwrap();
            let variables = make(&strategy, &[&[ELEMENTS]]);
            let gradients = gradients(&strategy, &variables, GradientsOptions::default());
            let rule = Adam::new(0.9, 0.999, 1e-7).unwrap();
            let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.05).unwrap();
            let callback = |context: &ReplicaContext| {
                let view = gradients.view_in(context, 0, GradientMode::Overwrite)?;
                copy_into(view, &tensor(&numbers(1, ELEMENTS), &[ELEMENTS]));
                gradients.submit_in(context, Some(1.0))?;
                apply(&optimizer, &gradients)?;
                Ok(None)
            };
            (0..steps).for_each(|_| drop(strategy.run(&callback, None).unwrap()));
        });
        ranks[0].bytes()
    };
    let of_step = (exchanged(3) - exchanged(2)) as usize;
    // Sent and received, a rank's own share of both included: contributions, and then weights.
    let payload = 4 * (2 * ELEMENTS + ELEMENTS / size + ELEMENTS);
    assert!(of_step >= payload - 8 * 1024, "{of_step} for {payload}");
    // Ranks that agree send nothing else but votes.
    assert!(of_step <= payload + 8 * 1024, "{of_step} for {payload}");
}

/// That ranks come to what one process does.
#[track_caller]
fn is_as_alone(program: impl Fn(Strategy) -> Vec<Vec<u8>> + Sync) {
    for (size, replicas) in [(2, 1), (2, 2), (3, 2), (4, 1)] {
        let expected = program(alone(size * replicas));
        for came in on_ranks(&ranks(size), replicas, |_, strategy| {
            program(strategy.unwrap())
        }) {
            assert!(came == expected, "{size}×{replicas}");
        }
    }
}

/// A variable that is updated by all of its elements and by rows in turn: its state is where it is
/// needed.
#[test]
fn rows_and_all_elements_of_one_variable_share_its_state() {
    let program = |strategy: Strategy| {
        let variables = make(&strategy, &[&[6, 900], &[40]]);
        let dense = gradients(&strategy, &variables, GradientsOptions::default());
        let sparse = GradientsOptions {
            row_sparse: &[true, false],
            ..GradientsOptions::default()
        };
        let sparse = gradients(&strategy, &variables, sparse);
        let rule = Adam::new(0.9, 0.999, 1e-7).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.05).unwrap();
        let mut all = Vec::new();
        for (step, by_rows) in [false, false, true, true, false, true, false]
            .into_iter()
            .enumerate()
        {
            let gradients = if by_rows { &sparse } else { &dense };
            let callback = |context: &ReplicaContext| {
                contribute(context, gradients, step)?;
                Ok(None)
            };
            strategy.run(&callback, None).unwrap();
            apply(&optimizer, gradients).unwrap();
            all.extend(known(&optimizer, &variables));
        }
        all
    };
    is_as_alone(program);
}

/// State that is set, and low-precision copies, which follow the weights of all parts.
#[test]
fn state_is_set_and_copies_follow() {
    let program = |strategy: Strategy| {
        let variables = make(&strategy, &SHAPES);
        let gradients = gradients(&strategy, &variables, GradientsOptions::default());
        let rule = Momentum::new(0.9, false).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.05).unwrap();
        for (index, variable) in variables.iter().enumerate() {
            let shape = variable.shape();
            let state = tensor(&numbers(50 + index, shape.elements()), &shape);
            optimizer.set_state(variable, "momentum", &state).unwrap();
            assert_eq!(
                bytes(&optimizer.state(variable, "momentum").unwrap()),
                bytes(&state)
            );
        }
        let mut all = Vec::new();
        for step in 0..4 {
            let callback = |context: &ReplicaContext| {
                contribute(context, &gradients, step)?;
                Ok(None)
            };
            strategy.run(&callback, None).unwrap();
            apply(&optimizer, &gradients).unwrap();
            all.extend(known(&optimizer, &variables));
            for variable in &variables {
                for dtype in [DType::Float16, DType::BFloat16] {
                    // SAFETY: nobody writes the variable now.
                    let copy = match unsafe { current_copy(None, variable, dtype) }.unwrap() {
                        Some(copy) => copy,
                        None => {
                            assert_eq!(step, 0, "updates write the copies that there are");
                            // SAFETY: as above.
                            unsafe { refreshed_copy(None, variable, dtype) }.unwrap()
                        }
                    };
                    all.push(bytes(copy));
                }
            }
        }
        all
    };
    is_as_alone(program);
}

/// Two applies to one variable at one commit point, of which the second would have to know what the
/// first makes; after the run they follow each other.
#[test]
fn one_apply_to_a_variable_waits_for_a_commit_point() {
    on_ranks(&ranks(2), 2, |_, strategy| {
        let strategy = strategy.unwrap();
        let variables = make(&strategy, &[&[3000], &[4]]);
        let both = [&variables[..], &variables[..1]]
            .map(|variables| gradients(&strategy, variables, GradientsOptions::default()));
        let optimizers =
            [Sgd, Sgd].map(|rule| Optimizer::new(strategy.id(), Box::new(rule), 0.1).unwrap());
        let before = known(&optimizers[0], &variables);
        let step = |together: bool| {
            let callback = |context: &ReplicaContext| {
                for (gradients, optimizer) in both.iter().zip(&optimizers) {
                    contribute(context, gradients, 0)?;
                    if together {
                        apply(optimizer, gradients)?;
                    }
                }
                Ok(None)
            };
            strategy.run(&callback, None).map(drop)
        };
        let error = step(true).unwrap_err();
        assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
        assert!(
            error.to_string().contains("another optimizer's apply"),
            "{error}"
        );
        assert!(before == known(&optimizers[0], &variables));
        step(false).unwrap();
        for (gradients, optimizer) in both.iter().zip(&optimizers) {
            apply(optimizer, gradients).unwrap();
        }
        assert!(before != known(&optimizers[0], &variables));
    });
}
