//! The rules once more, in float64, as plainly as their papers write them and without any of the
//! library.

use umbo_core::optimizer::{AverageKind, Averaging};

use crate::setup::*;

/// Training of one variable.
#[derive(Clone)]
pub struct Plain {
    pub rule: &'static str,
    pub weights: Vec<f64>,
    /// In the order of [`Plain::state_names`].
    pub state: [Vec<f64>; 3],
    updates: i32,
    /// The average of weights, and how many weights are in it.
    pub average: Vec<f64>,
    averaged: i32,
}

impl Plain {
    pub fn new(rule: &'static str, weights: &[f64]) -> Plain {
        let mut state = [(); 3].map(|()| vec![0.0; weights.len()]);
        match rule {
            "adagrad" | "adagrad_decaying" => state[0].fill(ACCUMULATOR),
            "ftrl" => state[1].fill(ACCUMULATOR),
            _ => {}
        }
        Plain {
            rule,
            weights: weights.into(),
            state,
            updates: 0,
            average: Vec::new(),
            averaged: 0,
        }
    }

    pub fn state_names(&self) -> Vec<&'static str> {
        match self.rule {
            "sgd" => vec![],
            "momentum" | "nesterov" | "dampened" | "lars" => vec!["momentum"],
            "adam" | "adamw" | "nadam" | "nadam_decoupled" | "radam" | "radam_decoupled"
            | "lamb" => vec!["m", "v"],
            "lion" => vec!["m"],
            "amsgrad" | "amsgradw" => vec!["m", "v", "v_max"],
            "adagrad" | "adagrad_decaying" => vec!["accumulator"],
            "rmsprop" => vec!["v"],
            "rmsprop_momentum" => vec!["v", "momentum"],
            "rmsprop_centered" => vec!["v", "mean"],
            "rmsprop_both" => vec!["v", "mean", "momentum"],
            "ftrl" => vec!["z", "n"],
            other => panic!("no rule {other}"),
        }
    }

    /// Takes the weights of an update into the average, those of all elements.
    pub fn average(&mut self, averaging: Option<Averaging>) {
        let Some(Averaging {
            kind,
            start,
            interval,
        }) = averaging
        else {
            return;
        };
        let first = start as i32 + 1;
        if self.updates <= first {
            self.average = self.weights.clone();
            self.averaged = 1;
        } else if (self.updates - first) % interval as i32 == 0 {
            let moves = f64::from(self.averaged);
            self.averaged += 1;
            for (average, weight) in self.average.iter_mut().zip(&self.weights) {
                *average = match kind {
                    AverageKind::Mean => (*average * moves + weight) / (moves + 1.0),
                    AverageKind::Exponential { decay, warmup } => {
                        let most = if warmup {
                            (1.0 + moves) / (10.0 + moves)
                        } else {
                            1.0
                        };
                        let decay = decay.min(most);
                        decay * *average + (1.0 - decay) * weight
                    }
                };
            }
        }
    }

    /// One update of some elements, which leaves the others alone. What `decay` is,
    /// [`is_decoupled`] says.
    pub fn update_where(
        &mut self,
        is_touched: impl Fn(usize) -> bool,
        gradient: &[f64],
        rate: f64,
        decay: f64,
    ) {
        self.updates += 1;
        let correction1 = 1.0 - BETA1.powi(self.updates);
        let correction2 = 1.0 - BETA2.powi(self.updates);
        let mut directions = Vec::new();
        for (index, &g) in gradient
            .iter()
            .enumerate()
            .filter(|(index, _)| is_touched(*index))
        {
            let w = &mut self.weights[index];
            let [a, b, c] = self.state.each_mut().map(|state| &mut state[index]);
            let decoupled = is_decoupled(self.rule);
            let g = if decoupled { g } else { g + decay * *w };
            match self.rule {
                "sgd" => *w -= rate * g,
                "lars" => directions.push(g + decay * *w),
                "momentum" => {
                    *a = MOMENTUM * *a + g;
                    *w -= rate * *a;
                }
                "dampened" => {
                    *a = if self.updates == 1 {
                        g
                    } else {
                        MOMENTUM * *a + (1.0 - DAMPENING) * g
                    };
                    *w -= rate * *a;
                }
                "nesterov" => {
                    *a = MOMENTUM * *a + g;
                    *w -= rate * (g + MOMENTUM * *a);
                }
                "adam" | "adamw" | "lamb" => {
                    *a = BETA1 * *a + (1.0 - BETA1) * g;
                    *b = BETA2 * *b + (1.0 - BETA2) * g * g;
                    let m = *a / correction1;
                    let v = *b / correction2;
                    let direction = m / (v.sqrt() + EPSILON);
                    match self.rule {
                        "lamb" => directions.push(direction + decay * *w),
                        "adamw" => *w -= rate * decay * *w + rate * direction,
                        _ => *w -= rate * direction,
                    }
                }
                "nadam" | "nadam_decoupled" => {
                    *a = BETA1 * *a + (1.0 - BETA1) * g;
                    *b = BETA2 * *b + (1.0 - BETA2) * g * g;
                    let momentum = |update: i32| {
                        let power = 0.96f64.powf(f64::from(update) * MOMENTUM_DECAY);
                        BETA1 * (1.0 - power / 2.0)
                    };
                    let now: f64 = (1..=self.updates).map(momentum).product();
                    let next = now * momentum(self.updates + 1);
                    let of_gradient = (1.0 - momentum(self.updates)) / (1.0 - now) * g;
                    let of_moment = momentum(self.updates + 1) / (1.0 - next) * *a;
                    let divisor = (*b / correction2).sqrt() + EPSILON;
                    let decay = if decoupled { rate * decay * *w } else { 0.0 };
                    *w -= decay + rate * (of_gradient + of_moment) / divisor;
                }
                "radam" | "radam_decoupled" => {
                    *a = BETA1 * *a + (1.0 - BETA1) * g;
                    *b = BETA2 * *b + (1.0 - BETA2) * g * g;
                    let t = f64::from(self.updates);
                    let most = 2.0 / (1.0 - BETA2) - 1.0;
                    let length = most - 2.0 * t * BETA2.powi(self.updates) / correction2;
                    let mut direction = *a / correction1;
                    if length > 5.0 {
                        let above = (length - 4.0) * (length - 2.0) * most;
                        let below = (most - 4.0) * (most - 2.0) * length;
                        let adaptive = correction2.sqrt() / (b.sqrt() + EPSILON);
                        direction *= (above / below).sqrt() * adaptive;
                    }
                    let decay = if decoupled { rate * decay * *w } else { 0.0 };
                    *w -= decay + rate * direction;
                }
                "lion" => {
                    let direction = BETA1 * *a + (1.0 - BETA1) * g;
                    let sign = if direction == 0.0 {
                        0.0
                    } else {
                        direction.signum()
                    };
                    *w -= rate * (sign + decay * *w);
                    *a = BETA2 * *a + (1.0 - BETA2) * g;
                }
                "amsgrad" | "amsgradw" => {
                    *a = BETA1 * *a + (1.0 - BETA1) * g;
                    *b = BETA2 * *b + (1.0 - BETA2) * g * g;
                    *c = c.max(*b);
                    let decay = if decoupled { rate * decay * *w } else { 0.0 };
                    let direction = *a / correction1 / ((*c / correction2).sqrt() + EPSILON);
                    *w -= decay + rate * direction;
                }
                "adagrad_decaying" => {
                    *a += g * g;
                    let rate = rate / (1.0 + f64::from(self.updates - 1) * RATE_DECAY);
                    *w -= rate * g / (a.sqrt() + EPSILON);
                }
                "adagrad" => {
                    *a += g * g;
                    *w -= rate * g / (a.sqrt() + EPSILON);
                }
                "ftrl" => {
                    let sigma = ((*b + g * g).sqrt() - b.sqrt()) / rate;
                    *a += g - sigma * *w;
                    *b += g * g;
                    *w = if a.abs() <= L1 {
                        0.0
                    } else {
                        -(*a - a.signum() * L1) / ((BETA + b.sqrt()) / rate + L2)
                    };
                }
                _ => {
                    *a = RHO * *a + (1.0 - RHO) * g * g;
                    let step = match self.rule {
                        "rmsprop_centered" | "rmsprop_both" => {
                            *b = RHO * *b + (1.0 - RHO) * g;
                            g / ((*a - *b * *b).sqrt() + EPSILON)
                        }
                        _ => g / (a.sqrt() + EPSILON),
                    };
                    let sum = if self.rule == "rmsprop_momentum" {
                        b
                    } else {
                        c
                    };
                    *sum = match self.rule {
                        "rmsprop_momentum" | "rmsprop_both" => MOMENTUM * *sum + step,
                        _ => step,
                    };
                    *w -= rate * *sum;
                }
            }
        }
        if matches!(self.rule, "lamb" | "lars") {
            self.adapt(rate, &directions);
        }
    }

    /// Moves the weights by directions whose norm is adapted to theirs.
    fn adapt(&mut self, rate: f64, directions: &[f64]) {
        let norm = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
        let coefficient = if self.rule == "lars" {
            TRUST_COEFFICIENT
        } else {
            1.0
        };
        let weights = norm(&self.weights);
        let update = norm(directions);
        let trust = if weights > 0.0 && update > 0.0 {
            coefficient * weights / update
        } else {
            1.0
        };
        let sums = &mut self.state[0];
        for (index, (w, direction)) in self.weights.iter_mut().zip(directions).enumerate() {
            let mut step = rate * trust * direction;
            if self.rule == "lars" {
                step += MOMENTUM * sums[index];
                sums[index] = step;
            }
            *w -= step;
        }
    }
}

/// Numbers that look random and are the same each time, in [-1, 1).
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn take(&mut self, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.next()).collect()
    }
}
