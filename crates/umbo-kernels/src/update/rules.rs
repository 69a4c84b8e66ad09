//! The formula of each update rule for one element: the table of all rules.
//!
//! An entry has the names of a formula's scalars and states, and the formula. The CPU runs it as a
//! [`Formula`], with its own loop for each entry. For GPUs, `source/rules.cuh` has the same
//! functions, with the scalars in the same order; the tests of `cuda` compare the bits of both.
//! `docs/internals/optimizers.md` shows this table.

use crate::float::real::{Real, for_real};
use crate::update::formula::Formula;
use crate::update::measure::Measure;
use crate::update::pass::UpdatePass;

/// The most scalars of a rule.
pub const SCALARS: usize = 10;

/// The place among the scalars of the rate of a rule that measures, which its sums change.
pub const RATE: usize = SCALARS - 1;

/// The most states of a rule.
pub const MOST_STATES: usize = 3;

/// How many sums over a variable a rule can need.
pub const SUMS: usize = 2;

/// One update by a rule of the table, with the values of its scalars. Scalars that the rule does
/// not have are 0. Each is rounded to the type of the elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleStep {
    /// The rule.
    pub kind: RuleKind,
    /// Its scalars.
    pub scalars: [f64; SCALARS],
    /// The factor of the quotient of norms, if the rule measures.
    pub coefficient: f64,
}

impl RuleStep {
    /// A step with these scalars, in the order of the table.
    pub fn new(kind: RuleKind, scalars: impl IntoIterator<Item = f64>) -> RuleStep {
        let mut step = RuleStep {
            kind,
            scalars: [0.0; SCALARS],
            coefficient: 1.0,
        };
        step.scalars
            .iter_mut()
            .zip(scalars)
            .for_each(|(place, scalar)| *place = scalar);
        step
    }

    /// The step of a rule that measures, with this rate, which its sums change.
    pub fn with_rate(mut self, rate: f64, coefficient: f64) -> RuleStep {
        self.scalars[RATE] = rate;
        self.coefficient = coefficient;
        self
    }

    /// The step once the squares of two norms are known: the rate is multiplied by the trust
    /// ratio, which is the coefficient times the quotient of the norms, or 1 if one of them is 0.
    pub fn trusting(mut self, squares: [f64; SUMS]) -> RuleStep {
        let [weights, update] = squares.map(f64::sqrt);
        if weights > 0.0 && update > 0.0 {
            self.scalars[RATE] *= self.coefficient * (weights / update);
        }
        self
    }
}

/// Generates everything from the table: the kinds, a formula for each kind, and what depends on the
/// kind.
macro_rules! rules {
    ($w:ident $g:ident: $(
        $(#[$doc:meta])*
        $Kind:ident = $name:literal ($($scalar:ident),*) [$($state:ident),*] $body:tt
        $(measured ($($measured:ident),*) $rate:ident $after:tt)?
        $(as $rare:ident)? $(in $extra:ident)?;
    )*) => {
        /// A rule of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RuleKind {
            $($(#[$doc])* $Kind,)*
        }

        impl RuleKind {
            /// All rules.
            pub const ALL: &[RuleKind] = &[$(RuleKind::$Kind),*];

            /// How many tensors of state it has.
            pub fn states(self) -> usize {
                match self {
                    $(RuleKind::$Kind => count!($($state),*),)*
                }
            }

            /// Whether sums over all elements come before the update. If so, the scalar at
            /// [`RATE`] is multiplied by their result.
            pub fn measures(self) -> bool {
                match self {
                    $(RuleKind::$Kind => !stringify!($($($measured)*)?).is_empty(),)*
                }
            }

            /// Whether the library has loops for it: those of rules `in extra` are of the feature
            /// `rules-extra`.
            const fn has_loops(self) -> bool {
                cfg!(feature = "rules-extra")
                    || match self {
                        $(RuleKind::$Kind => stringify!($($extra)?).is_empty(),)*
                    }
            }

            /// The name of the rule in the kernels of GPUs.
            pub fn name(self) -> &'static str {
                match self {
                    $(RuleKind::$Kind => $name,)*
                }
            }
        }

        impl RuleStep {
            /// Updates the elements of the pass, on this thread. Nothing is allocated.
            pub fn run(&self, pass: &UpdatePass<'_>) {
                for_real!(pass.dtype(), T => match self.kind {
                    $(RuleKind::$Kind if const { RuleKind::$Kind.has_loops() } => {
                        pass.run($Kind::<T>::new(&self.scalars));
                    })*
                    _ => unreachable!("a rule without loops cannot be made"),
                });
            }

            /// The sums over all elements of the pass that the rule needs before it updates an
            /// element; 0 if it needs none.
            pub fn measure(&self, pass: &UpdatePass<'_>) -> [f64; SUMS] {
                for_real!(pass.dtype(), T => match self.kind {
                    $($(RuleKind::$Kind if const { RuleKind::$Kind.has_loops() } => {
                        let _ = stringify!($($measured)*);
                        pass.measure($Kind::<T>::new(&self.scalars))
                    })?)*
                    _ => [0.0; SUMS],
                })
            }
        }

        $(formula!(
            $w $g $Kind ($($scalar)*) [$($state)*] $body
            [$($($measured)*)?] [$($rate)?] { $($after)? } !stringify!($($rare)?).is_empty()
        );)*
    };
}

/// How many names there are.
macro_rules! count {
    ($($name:ident),*) => { <[&str]>::len(&[$(stringify!($name)),*]) };
}

/// Defines the formula of one entry.
macro_rules! formula {
    (
        $w:ident $g:ident $Kind:ident ($($scalar:ident)*) [$($state:ident)*] { $($body:tt)* }
        [$($measured:ident)*] [$($rate:ident)?] { $({ $($after:tt)* })? } $is_rare:expr
    ) => {
        #[derive(Clone, Copy)]
        struct $Kind<T> {
            $($scalar: T,)*
            $($rate: T,)?
        }

        impl<T: Real> $Kind<T> {
            fn new(scalars: &[f64; SCALARS]) -> $Kind<T> {
                let [$($scalar,)* ..] = scalars.map(T::from_f64);
                $(let $rate = T::from_f64(scalars[RATE]);)?
                $Kind { $($scalar,)* $($rate,)? }
            }
        }

        impl<T: Real> Formula<{ count!($($state),*) }> for $Kind<T> {
            const IS_RARE: bool = $is_rare;
            type Element = T;

            #[inline(always)]
            fn apply(
                self,
                mut $w: T,
                [$(mut $state),*]: [T; count!($($state),*)],
                $g: T,
            ) -> (T, [T; count!($($state),*)]) {
                let $Kind { $($scalar,)* $($rate,)? } = self;
                $($body)*
                $($($after)*)?
                ($w, [$($state),*])
            }
        }

        measure!($w $g $Kind ($($scalar)*) [$($state)*] { $($body)* } [$($measured)*] $($rate)?);
    };
}

/// Defines the squares that one entry measures, if it measures.
macro_rules! measure {
    ($w:ident $g:ident $Kind:ident $scalars:tt $states:tt $body:tt []) => {};
    (
        $w:ident $g:ident $Kind:ident ($($scalar:ident)*) [$($state:ident)*] { $($body:tt)* }
        [$($measured:ident)*] $rate:ident
    ) => {
        impl<T: Real> Measure<{ count!($($state),*) }, SUMS> for $Kind<T> {
            type Element = T;

            #[inline(always)]
            #[expect(unused_variables, reason = "the rate is what the sums are for")]
            fn of(
                self,
                $w: T,
                [$(mut $state),*]: [T; count!($($state),*)],
                $g: T,
            ) -> [f64; SUMS] {
                let $Kind { $($scalar,)* $rate } = self;
                $($body)*
                // The new states are for the update that follows.
                let _ = [$($state),*];
                [$($measured),*].map(|value: T| value.to_f64() * value.to_f64())
            }
        }
    };
}

// w is the weight and g the gradient. Scalars whose names begin with an underscore are not used.
// The squares of the numbers that are `measured` are added up over the variable first. A rule `as
// rare` has one loop for every number of replicas. All rules are rare except those that the test
// `hot_loops` counts. Rules `in extra` can be left out.
rules! { w g:
    /// Gradient descent.
    Sgd = "sgd" (learning_rate) [] {
        w = w - learning_rate * g;
    };
    /// With momentum.
    Momentum = "momentum" (learning_rate, momentum, _one) [a] {
        a = momentum * a + g;
        w = w - learning_rate * a;
    };
    /// With momentum and dampened gradients: `rest` is 1 - dampening, but 1 in a variable's first
    /// update.
    MomentumDampened = "momentum" (learning_rate, momentum, rest) [a] {
        a = momentum * a + rest * g;
        w = w - learning_rate * a;
    } as rare;
    /// With Nesterov's momentum.
    Nesterov = "nesterov" (learning_rate, momentum) [a] {
        a = momentum * a + g;
        w = w - learning_rate * (g + momentum * a);
    };
    /// Adam, in update t of a variable: `rest1` is 1 - beta1, `rest2` 1 - beta2, `rate`
    /// learning_rate / (1 - beta1^t), `correction2` 1 / sqrt(1 - beta2^t).
    Adam = "adam" (beta1, beta2, rest1, rest2, rate, correction2, epsilon) [m, v] {
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * (g * g);
        w = w - rate * (m / (sqrt(v) * correction2 + epsilon));
    };
    /// AdamW: `kept` is 1 - learning_rate * weight_decay.
    AdamW = "adamw" (beta1, beta2, rest1, rest2, rate, correction2, epsilon, kept) [m, v] {
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * (g * g);
        w = kept * w - rate * (m / (sqrt(v) * correction2 + epsilon));
    };
    /// Adagrad, in update t of a variable: with a decay, learning_rate is divided by
    /// 1 + learning_rate_decay * (t - 1).
    Adagrad = "adagrad" (learning_rate, epsilon) [n] {
        n = n + g * g;
        w = w - learning_rate * (g / (sqrt(n) + epsilon));
    } in extra;
    /// RMSprop: `rest` is 1 - rho.
    RmsProp = "rmsprop" (rho, rest, _momentum, epsilon, learning_rate) [v] {
        v = rho * v + rest * (g * g);
        w = w - learning_rate * (g / (sqrt(v) + epsilon));
    } in extra;
    /// RMSprop with momentum.
    RmsPropMomentum = "rmsprop_momentum" (rho, rest, momentum, epsilon, learning_rate) [v, b] {
        v = rho * v + rest * (g * g);
        b = momentum * b + g / (sqrt(v) + epsilon);
        w = w - learning_rate * b;
    } as rare in extra;
    /// Centered RMSprop.
    RmsPropCentered = "rmsprop_centered" (rho, rest, _momentum, epsilon, learning_rate) [v, a] {
        v = rho * v + rest * (g * g);
        a = rho * a + rest * g;
        w = w - learning_rate * (g / (sqrt(at_least_zero(v - finite(a * a))) + epsilon));
    } as rare in extra;
    /// Centered RMSprop with momentum.
    RmsPropCenteredMomentum = "rmsprop_centered_momentum"
        (rho, rest, momentum, epsilon, learning_rate) [v, a, b] {
        v = rho * v + rest * (g * g);
        a = rho * a + rest * g;
        b = momentum * b + g / (sqrt(at_least_zero(v - finite(a * a))) + epsilon);
        w = w - learning_rate * b;
    } as rare in extra;
    /// NAdam: `rate` is the factor of the moment, `rate_now` that of the gradient, and `kept` as in
    /// AdamW, or 1 without decoupled weight decay.
    NAdam = "nadam"
        (beta1, beta2, rest1, rest2, rate, rate_now, correction2, epsilon, kept) [m, v] {
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * (g * g);
        w = kept * w - (rate * m + rate_now * g) / (sqrt(v) * correction2 + epsilon);
    } in extra;
    /// RAdam: `rate` is that of steps that are divided by the root of v, `plain` that of others;
    /// one of them is 0. `kept` is as in NAdam.
    RAdam = "radam" (beta1, beta2, rest1, rest2, rate, plain, epsilon, kept) [m, v] {
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * (g * g);
        w = kept * w - (rate * (m / (sqrt(v) + epsilon)) + plain * m);
    } in extra;
    /// Lion: `kept` is as in AdamW.
    Lion = "lion" (beta1, beta2, rest1, rest2, learning_rate, kept) [m] {
        w = kept * w - learning_rate * sign(beta1 * m + rest1 * g);
        m = beta2 * m + rest2 * g;
    } in extra;
    /// LAMB. It has Adam's scalars, `correction1` = 1 / (1 - beta1^t), and
    /// `rate` = learning_rate * norm(w) / norm(u). Until the norms are measured, their quotient
    /// counts as 1.
    Lamb = "lamb"
        (beta1, beta2, rest1, rest2, _rate, correction2, epsilon, correction1, weight_decay)
        [m, v] {
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * (g * g);
        let u = correction1 * (m / (sqrt(v) * correction2 + epsilon)) + weight_decay * w;
    } measured (w, u) rate {
        w = w - rate * u;
    } in extra;
    /// LARS: `rate` = learning_rate * trust_coefficient * norm(w) / norm(u), and learning_rate if
    /// one of the norms is 0.
    Lars = "lars" (momentum, weight_decay) [a] {
        a = momentum * a;
        let u = g + weight_decay * w;
    } measured (w, u) rate {
        a = a + rate * u;
        w = w - a;
    } in extra;
    /// FTRL-Proximal: `per_rate` is 1 / learning_rate.
    Ftrl = "ftrl" (per_rate, beta, l1, l2) [z, n] {
        let g = with_finite_square(g);
        let before = sqrt(n);
        n = finite(n + g * g);
        z = z + g - (sqrt(n) - before) * per_rate * w;
        w = -(beyond(z, l1) / ((beta + sqrt(n)) * per_rate + l2));
    } in extra;
    /// Adam with the largest second moment.
    AmsGrad = "amsgrad" (beta1, beta2, rest1, rest2, rate, correction2, epsilon) [m, v, v_max] {
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * (g * g);
        v_max = larger(v_max, v);
        w = w - rate * (m / (sqrt(v_max) * correction2 + epsilon));
    } as rare;
    /// AdamW with the largest second moment.
    AmsGradW = "amsgradw"
        (beta1, beta2, rest1, rest2, rate, correction2, epsilon, kept) [m, v, v_max] {
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * (g * g);
        v_max = larger(v_max, v);
        w = kept * w - rate * (m / (sqrt(v_max) * correction2 + epsilon));
    } as rare;
}

#[inline(always)]
fn sqrt<T: Real>(value: T) -> T {
    value.sqrt()
}

/// The value, or 0 if rounding made it negative.
#[inline(always)]
fn at_least_zero<T: Real>(value: T) -> T {
    let zero = T::from_f64(0.0);
    if value < zero { zero } else { value }
}

/// 1 or -1; 0 and NaN stay what they are.
#[inline(always)]
fn sign<T: Real>(value: T) -> T {
    let zero = T::from_f64(0.0);
    let one = T::from_f64(1.0);
    if value > zero {
        one
    } else if value < zero {
        -one
    } else {
        value
    }
}

/// The nearest finite number; a NaN stays one.
#[inline(always)]
fn finite<T: Real>(value: T) -> T {
    value.limited(T::largest())
}

/// The nearest number with a finite square; a NaN stays one.
#[inline(always)]
fn with_finite_square<T: Real>(value: T) -> T {
    value.limited(T::largest().sqrt())
}

/// The larger of the two. A NaN stays in the second moment, and so is returned in every later
/// update, too.
#[inline(always)]
fn larger<T: Real>(largest: T, value: T) -> T {
    if value <= largest { largest } else { value }
}

/// The signed distance of the value from [−limit, limit]; 0 inside.
#[inline(always)]
fn beyond<T: Real>(value: T, limit: T) -> T {
    value - value.limited(limit)
}
