//! The certificate of determinism: the same weights after 30 steps, whatever computes them.

use std::thread;

use umbo_core::device::DeviceId;
use umbo_core::executor::workers;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::optimizer::GradientMode::Overwrite;
use umbo_core::optimizer::LossReduction::Mean;
use umbo_core::optimizer::{Settings, StateBits};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::tensor::{Element, Shape, Tensor};

use crate::features::AVERAGES;
use crate::sets::same_in_every_set;
use crate::setup::*;

const REPLICAS: usize = 4;
const STEPS: u64 = 30;
/// More bytes than one thread does alone, and neither whole blocks nor whole ranges.
const ELEMENTS: usize = 9 * 1024 + 13;
const DOUBLES: usize = 97;
/// A table, and how many of its rows each replica names in a step; some several times. More bytes
/// than one thread does alone.
const ROWS: usize = 613;
const WIDTH: usize = 11;
const NAMED: usize = 500;
/// Replicas and steps take their gradients from different places of the same noise.
const NOISE: usize = 1009;

fn noise(elements: usize) -> Vec<f64> {
    let number = |index: usize| ((index * 7919 + 104_729) % NOISE) as f64 / NOISE as f64 - 0.5;
    (0..elements).map(number).collect()
}

/// In which order the replicas write and submit.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    Forwards,
    Backwards,
    /// From threads of their own, in whatever order.
    Threads,
}

fn row<T: Element>(values: &[T]) -> Tensor {
    Tensor::from_slice(values, Shape::new(&[values.len()]).unwrap(), DeviceId::HOST).unwrap()
}

/// The bits of all variables after all steps.
fn trained(
    rule: &str,
    bits_of_states: StateBits,
    arrival: Arrival,
) -> (Vec<u32>, Vec<u64>, Vec<u32>) {
    // States in 8 bits are those of variables whose gradients are not of rows.
    let rows = match bits_of_states {
        StateBits::Full => ROWS,
        StateBits::Eight => ROWS / 2,
    };
    let doubles = noise(NOISE + ELEMENTS.max(NAMED * WIDTH));
    let singles: Vec<f32> = doubles.iter().map(|&value| value as f32).collect();
    let a = variable("a", &singles[..ELEMENTS]);
    let b = variable("b", &doubles[..DOUBLES]);
    let c = table("c", &singles[..rows * WIDTH], WIDTH);
    let [singles, doubles] = [row(&singles), row(&doubles)];
    let gradients = row_gradients(REPLICAS, &[&a, &b, &c], Mean, &[false, false, true], 1);
    let optimizer = optimizer(rule, 0.01);
    let settings = Settings {
        averaging: AVERAGES[if rule == "adam" { 1 } else { 0 }],
        state_bits: bits_of_states,
        ..Settings::default()
    };
    optimizer.configure(settings).unwrap();
    for step in 1..=STEPS {
        gradients.try_begin_step(step);
        let contribute = |replica: usize| {
            let start = (replica * 211 + step as usize * 37) % NOISE;
            for (index, noise) in [(0, &singles), (1, &doubles)] {
                let buffer = gradients.view(replica, step, index, Overwrite).unwrap();
                let part = noise.slice(0, start, start + buffer.shape()[0], 1).unwrap();
                // SAFETY: the buffer is this replica's until it submits.
                unsafe { buffer.assume_exclusive() }
                    .copy_from(&part)
                    .unwrap();
            }
            let added = gradients.add_rows(replica, step, 2, NAMED).unwrap();
            let indices: Vec<i64> = (0..NAMED)
                .map(|row| (row * row * 31 + start) as i64 % rows as i64)
                .collect();
            let part = singles.slice(0, start, start + NAMED * WIDTH, 1).unwrap();
            let part = part.reshape(added.values.shape()).unwrap();
            // SAFETY: the rows are this replica's until it submits.
            unsafe {
                added
                    .indices
                    .assume_exclusive()
                    .copy_from(&row(&indices))
                    .unwrap();
                added.values.assume_exclusive().copy_from(&part).unwrap();
            }
            gradients
                .submit(replica, step, 1.0 + replica as f64)
                .unwrap();
        };
        match arrival {
            Arrival::Forwards => (0..REPLICAS).for_each(contribute),
            Arrival::Backwards => (0..REPLICAS).rev().for_each(contribute),
            Arrival::Threads => thread::scope(|scope| {
                let contribute = &contribute;
                for replica in 0..REPLICAS {
                    scope.spawn(move || contribute(replica));
                }
            }),
        }
        gradients.commit(step);
        apply(&optimizer, &gradients).unwrap();
    }
    let mut doubles: Vec<u64> = value::<f64>(&b).iter().map(|it| it.to_bits()).collect();
    let mut singles = [bits(&value(&a)), bits(&value(&c))];
    if settings.averaging.is_some() {
        let average = |variable| optimizer.state(variable, "average").unwrap();
        doubles.extend(read::<f64>(&average(&b)).iter().map(|it| it.to_bits()));
        singles[0].extend(bits(&read(&average(&a))));
        singles[1].extend(bits(&read(&average(&c))));
    }
    let [a, c] = singles;
    (a, doubles, c)
}

#[test]
fn weights_after_30_steps_are_the_same_bits() {
    same_in_every_set(
        "certificate::weights_after_30_steps_are_the_same_bits",
        || {
            let _changes = WORKER_COUNT.write();
            let is_best = Some(Instructions::chosen()) == Instructions::all().next_back();
            let mut bits = Vec::new();
            let full = ["momentum", "adam"].map(|rule| (rule, StateBits::Full));
            for (rule, of_states) in full.into_iter().chain([("adam", StateBits::Eight)]) {
                workers::set_count(1).unwrap();
                // So that several take part in what several could.
                workers::fix_costs(Some(workers::Costs::NONE));
                let expected = trained(rule, of_states, Arrival::Forwards);
                // The other sets have the same loops, and need not be tried in every way; nor need
                // each number of workers with both rules.
                let counts: &[usize] = match (is_best, rule) {
                    (false, _) => &[2],
                    (true, "momentum") => &[2, 4, 6, 8],
                    (true, _) => &[3, 5, 7],
                };
                let counts = counts.iter().map(|&count| (count, Arrival::Forwards));
                let arrivals = [Arrival::Backwards, Arrival::Threads].map(|arrival| (3, arrival));
                for (count, arrival) in counts.chain(arrivals.into_iter().filter(|_| is_best)) {
                    workers::set_count(count).unwrap();
                    let trained = trained(rule, of_states, arrival);
                    assert!(trained == expected, "{rule}: {count} workers, {arrival:?}");
                }
                let (a, b, c) = expected;
                bits.extend(a.iter().chain(&c).flat_map(|bits| bits.to_ne_bytes()));
                bits.extend(b.iter().flat_map(|bits| bits.to_ne_bytes()));
            }
            bits
        },
    );
}
