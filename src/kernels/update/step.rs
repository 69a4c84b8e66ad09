//! What an update does to one element, as data: for whoever cannot run a
//! [`Formula`](crate::kernels::update::formula::Formula), such as another device.

use crate::kernels::float::real::Real;

/// Which formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum StepKind {
    /// Gradient descent. Scalars: η.
    Sgd,
    /// With momentum. Scalars: η, μ, what gradients are multiplied with.
    Momentum,
    /// With Nesterov's momentum. Scalars: as for momentum, of which the last is not used.
    Nesterov,
    /// Adam. Scalars: β₁, β₂, 1 − β₁, 1 − β₂, η/(1 − β₁ᵗ), 1/√(1 − β₂ᵗ), ε.
    Adam,
    /// AdamW. Scalars: Adam's, 1 − η·λ.
    AdamW,
    /// Adagrad. Scalars: η, ε.
    Adagrad,
    /// RMSprop. Scalars: ρ, 1 − ρ, μ, ε, η.
    RmsProp,
    /// RMSprop with momentum. Scalars: as for RMSprop.
    RmsPropMomentum,
    /// Centered RMSprop. Scalars: as for RMSprop.
    RmsPropCentered,
    /// Centered RMSprop with momentum. Scalars: as for RMSprop.
    RmsPropCenteredMomentum,
    /// LAMB. Scalars: Adam's, of which η/(1 − β₁ᵗ) is not used; 1/(1 − β₁ᵗ), λ, η·‖w‖/‖u‖. Before
    /// the norms are measured their quotient counts as 1.
    Lamb,
    /// FTRL. Scalars: 1/α, β, λ₁, λ₂.
    Ftrl,
    /// Adam with the largest second moment. Scalars: Adam's.
    AmsGrad,
    /// AdamW with the largest second moment. Scalars: AdamW's.
    AmsGradW,
}

impl StepKind {
    /// All of them.
    pub const ALL: [StepKind; 14] = [
        StepKind::Sgd,
        StepKind::Momentum,
        StepKind::Nesterov,
        StepKind::Adam,
        StepKind::AdamW,
        StepKind::Adagrad,
        StepKind::RmsProp,
        StepKind::RmsPropMomentum,
        StepKind::RmsPropCentered,
        StepKind::RmsPropCenteredMomentum,
        StepKind::Lamb,
        StepKind::Ftrl,
        StepKind::AmsGrad,
        StepKind::AmsGradW,
    ];

    /// How many tensors of state it has.
    pub fn slots(self) -> usize {
        match self {
            StepKind::Sgd => 0,
            StepKind::Momentum | StepKind::Nesterov | StepKind::Adagrad | StepKind::RmsProp => 1,
            StepKind::RmsPropCenteredMomentum | StepKind::AmsGrad | StepKind::AmsGradW => 3,
            _ => 2,
        }
    }
}

/// The most scalars of a step.
pub const SCALARS: usize = 10;

/// The most tensors of state of a step.
pub const MOST_SLOTS: usize = 3;

/// The step of an optimizer with all of its scalars filled in. Those that the kind does not have are
/// 0. Each is rounded to the type of the elements that it meets.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Step {
    /// Which formula.
    pub kind: StepKind,
    /// Its scalars.
    pub scalars: [f64; SCALARS],
}

impl Step {
    /// A step with these scalars, in the order that the kind says.
    pub fn new<const N: usize>(kind: StepKind, scalars: [f64; N]) -> Step {
        const { assert!(N <= SCALARS) };
        let mut step = Step { kind, scalars: [0.0; SCALARS] };
        step.scalars[..N].copy_from_slice(&scalars);
        step
    }

    /// What the step does to one element: changes its state and returns its new weight. This is
    /// what the step means, one element at a time; the rules' own formulas give the same bits.
    pub fn apply<T: Real>(&self, weight: T, slots: &mut [T], gradient: T) -> T {
        let s = self.scalars.map(T::from_f64);
        let zero = T::from_f64(0.0);
        let moment = |moment: T, value: T| s[0] * moment + s[1] * value;
        let adam = |slots: &mut [T]| {
            slots[0] = s[0] * slots[0] + s[2] * gradient;
            slots[1] = s[1] * slots[1] + s[3] * (gradient * gradient);
            slots[0] / (slots[1].sqrt() * s[5] + s[6])
        };
        let amsgrad = |slots: &mut [T]| {
            slots[0] = s[0] * slots[0] + s[2] * gradient;
            slots[1] = s[1] * slots[1] + s[3] * (gradient * gradient);
            slots[2] = if slots[1] <= slots[2] { slots[2] } else { slots[1] };
            slots[0] / (slots[2].sqrt() * s[5] + s[6])
        };
        let rms = |slots: &mut [T]| {
            slots[0] = moment(slots[0], gradient * gradient);
            gradient / (slots[0].sqrt() + s[3])
        };
        let centered = |slots: &mut [T]| {
            slots[0] = moment(slots[0], gradient * gradient);
            slots[1] = moment(slots[1], gradient);
            let variance = slots[0] - slots[1] * slots[1];
            let variance = if variance < zero { zero } else { variance };
            gradient / (variance.sqrt() + s[3])
        };
        match self.kind {
            StepKind::Sgd => weight - s[0] * gradient,
            StepKind::Momentum => {
                slots[0] = s[1] * slots[0] + s[2] * gradient;
                weight - s[0] * slots[0]
            }
            StepKind::Nesterov => {
                slots[0] = s[1] * slots[0] + gradient;
                weight - s[0] * (gradient + s[1] * slots[0])
            }
            StepKind::Adam => weight - s[4] * adam(slots),
            StepKind::AdamW => s[7] * weight - s[4] * adam(slots),
            StepKind::AmsGrad => weight - s[4] * amsgrad(slots),
            StepKind::AmsGradW => s[7] * weight - s[4] * amsgrad(slots),
            StepKind::Adagrad => {
                slots[0] = slots[0] + gradient * gradient;
                weight - s[0] * (gradient / (slots[0].sqrt() + s[1]))
            }
            StepKind::RmsProp => weight - s[4] * rms(slots),
            StepKind::RmsPropMomentum => {
                let step = rms(slots);
                slots[1] = s[2] * slots[1] + step;
                weight - s[4] * slots[1]
            }
            StepKind::RmsPropCentered => weight - s[4] * centered(slots),
            StepKind::RmsPropCenteredMomentum => {
                let step = centered(slots);
                slots[2] = s[2] * slots[2] + step;
                weight - s[4] * slots[2]
            }
            StepKind::Lamb => {
                let direction = adam(slots);
                weight - s[9] * (s[7] * direction + s[8] * weight)
            }
            StepKind::Ftrl => {
                let before = slots[1];
                slots[1] = before + gradient * gradient;
                let root = slots[1].sqrt();
                slots[0] = slots[0] + gradient - (root - before.sqrt()) * s[0] * weight;
                let excess = slots[0] - slots[0].limited(s[2]);
                -(excess / ((s[1] + root) * s[0] + s[3]))
            }
        }
    }
}
