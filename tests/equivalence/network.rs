//! A small network in float32, whose sums are added in another order for each number of rows, as
//! matrix products do: over many batches, what is right is never called wrong, nor the reverse. Its
//! gradients may be rounded to 16 bits.

use crate::setup::*;

const INPUTS: usize = 5;
const HIDDEN: usize = 8;
const CLASSES: usize = 3;
const COLUMNS: usize = INPUTS + 1;

/// Numbers in [-1, 1) that have little in common.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn vector(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.next() * scale).collect()
    }
}

/// Weights and offsets of both layers, in this order; so are gradients.
type Parameters = [Vec<f32>; 4];

/// Adds the gradients of one row, the class of which is in the last column.
fn add_row(parameters: &Parameters, row: &[f32], to: &mut Parameters) -> f32 {
    let [first, offsets, second, others] = parameters;
    let hidden: Vec<f32> = (0..HIDDEN)
        .map(|unit| {
            let sum: f32 = (0..INPUTS)
                .map(|input| first[input * HIDDEN + unit] * row[input])
                .sum();
            (sum + offsets[unit]).max(0.0)
        })
        .collect();
    let logits: Vec<f32> = (0..CLASSES)
        .map(|class| {
            let terms = (0..HIDDEN).map(|unit| second[unit * CLASSES + class] * hidden[unit]);
            terms.sum::<f32>() + others[class]
        })
        .collect();
    let largest = logits.iter().fold(f32::MIN, |a, b| a.max(*b));
    let total: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    let label = row[INPUTS] as usize;
    let slopes: Vec<f32> = (0..CLASSES)
        .map(|class| (logits[class] - largest).exp() / total - f32::from(class == label))
        .collect();
    for unit in 0..HIDDEN {
        let mut slope = 0.0;
        for class in 0..CLASSES {
            to[2][unit * CLASSES + class] += hidden[unit] * slopes[class];
            slope += second[unit * CLASSES + class] * slopes[class];
        }
        if hidden[unit] > 0.0 {
            to[1][unit] += slope;
            for input in 0..INPUTS {
                to[0][input * HIDDEN + unit] += row[input] * slope;
            }
        }
    }
    to[3]
        .iter_mut()
        .zip(&slopes)
        .for_each(|(sum, slope)| *sum += slope);
    total.ln() + largest - logits[label]
}

/// The sums over all rows, added up in as many interleaved lanes as the number of rows suggests.
fn sums(parameters: &Parameters, rows: &[f32]) -> (Parameters, f32) {
    let zeros = || {
        parameters
            .each_ref()
            .map(|parameter| vec![0.0f32; parameter.len()])
    };
    let count = rows.len() / COLUMNS;
    let mut lanes: Vec<(Parameters, f32)> = (0..1 + count % 5).map(|_| (zeros(), 0.0)).collect();
    let width = lanes.len();
    for (place, row) in rows.chunks_exact(COLUMNS).enumerate() {
        let (gradient, loss) = &mut lanes[place % width];
        *loss += add_row(parameters, row, gradient);
    }
    let mut all = (zeros(), 0.0);
    for (gradient, loss) in lanes {
        for (sum, lane) in all.0.iter_mut().flatten().zip(gradient.iter().flatten()) {
            *sum += lane;
        }
        all.1 += loss;
    }
    all
}

struct Network {
    model: Model,
    parameters: Parameters,
    batch: Value,
}

impl Network {
    fn new(seed: u64, declared: LossReduction, dtype: Option<DType>) -> Network {
        let mut numbers = Numbers(seed);
        let strategy = strategy(2 + seed as usize % 4);
        let parameters = [
            numbers.vector(INPUTS * HIDDEN, 0.7),
            numbers.vector(HIDDEN, 0.1),
            numbers.vector(HIDDEN * CLASSES, 0.7),
            numbers.vector(CLASSES, 0.1),
        ];
        let names = ["first", "offsets", "second", "others"];
        let variables = parameters.iter().zip(names);
        let variables = variables
            .map(|(values, name)| variable(&strategy, name, values))
            .collect();
        let devices = strategy.replica_devices();
        let options = GradientsOptions {
            dtype,
            ..Default::default()
        };
        let gradients =
            Gradients::new(strategy.id(), devices, variables, declared, options).unwrap();
        let rows = 3 + (seed * 7 % 90) as usize;
        let mut data = numbers.vector(rows * COLUMNS, 2.0);
        for row in data.chunks_exact_mut(COLUMNS) {
            row[INPUTS] = ((row[INPUTS] + 2.0) * 100.0).floor() % CLASSES as f32;
        }
        let shape = Shape::new(&[rows, COLUMNS]).unwrap();
        let batch = Value::Tensor(Tensor::from_slice(&data, shape, DeviceId::HOST).unwrap());
        Network {
            model: Model {
                strategy,
                gradients,
            },
            parameters,
            batch,
        }
    }

    fn check(&self, written: LossReduction) -> Report {
        self.model.check(&self.batch, |context| {
            let arguments = context.arguments()?.unwrap();
            let rows = arguments.tensor_of(context.replica())?.to_vec::<f32>()?;
            let (gradient, loss) = sums(&self.parameters, &rows);
            let divisor = divisor(written, context);
            for (index, sum) in gradient.iter().enumerate() {
                let mean: Vec<f32> = sum.iter().map(|element| element / divisor).collect();
                let mode = GradientMode::Overwrite;
                write_rounded(self.model.gradients.view_in(context, index, mode)?, &mean);
            }
            let weight = (rows.len() / COLUMNS) as f64;
            context.add_metric(
                "loss",
                Metric {
                    sum: f64::from(loss),
                    weight,
                },
            )?;
            self.model.gradients.submit_in(context, None)?;
            Ok(None)
        })
    }
}

const REDUCTIONS: [LossReduction; 3] = [
    LossReduction::Sum,
    LossReduction::Mean,
    LossReduction::GlobalMean,
];

/// The dtypes of gradients of float32 variables.
const DTYPES: [Option<DType>; 3] = [None, Some(DType::Float16), Some(DType::BFloat16)];

#[test]
fn right_networks_are_called_right() {
    for (seed, dtype) in (0..60).flat_map(|seed| DTYPES.map(|dtype| (seed, dtype))) {
        let reduction = REDUCTIONS[seed as usize % 3];
        is_equivalent(&Network::new(seed, reduction, dtype).check(reduction));
    }
}

#[test]
fn wrong_networks_are_called_wrong_by_name() {
    let words = [
        "writes a sum",
        "writes a mean",
        "divides by the examples of the global batch",
    ];
    for (seed, dtype) in (0..60).flat_map(|seed| DTYPES.map(|dtype| (seed, dtype))) {
        let declared = REDUCTIONS[seed as usize % 3];
        let written = REDUCTIONS[(seed as usize + 1 + seed as usize / 3 % 2) % 3];
        let report = Network::new(seed, declared, dtype).check(written);
        for name in ["first", "offsets", "second", "others"] {
            let words = [words[written as usize]];
            says(
                &report,
                of_gradient(&report, name),
                Verdict::WrongReduction,
                &words,
            );
        }
        assert_eq!(
            of_metric(&report, "loss").verdict,
            Verdict::Equal,
            "{}",
            report.text
        );
    }
}
