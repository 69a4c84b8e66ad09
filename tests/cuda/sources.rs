//! What gradients of variables are made of.

use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::launch::{self, DevicePlace, Gradient};
use umbo_core::kernels::update::weighted_sum::Contribution;

use crate::machine::Machine;
use crate::memory::{Memory, Noise};

/// Types of variables and of their gradients.
pub const PAIRS: [(DType, DType); 4] = [
    (DType::Float32, DType::Float32),
    (DType::Float32, DType::BFloat16),
    (DType::Float32, DType::Float16),
    (DType::Float64, DType::Float64),
];

/// What the gradient of a variable is made of, here and on a machine.
pub struct Sources {
    pub dtype: DType,
    gradient_dtype: DType,
    pub elements: usize,
    buffers: Vec<Memory>,
    factors: Vec<f64>,
    pub accumulated: Option<Memory>,
    pub divisor: f64,
    on_machine: Vec<launch::DeviceContribution>,
    pub accumulated_on_machine: Option<DevicePlace>,
}

impl Sources {
    pub fn new(
        machine: &dyn Machine,
        (dtype, gradient_dtype): (DType, DType),
        elements: usize,
        replicas: usize,
        tame: bool,
        noise: &mut Noise,
    ) -> Sources {
        let buffers: Vec<Memory> = (0..replicas)
            .map(|_| Memory::dense(gradient_dtype, elements, tame, noise))
            .collect();
        let is_accumulated = noise.below(3) == 0;
        let accumulated =
            is_accumulated.then(|| Memory::dense(DType::Float64, elements, tame, noise));
        let factors: Vec<f64> = (0..replicas)
            .map(|_| [1.0, 1.0 / 3.0, -2.5e-3, 1e30][noise.below(4)])
            .collect();
        let divisor = [1.0, 4.0, 3.0, 0.1, 1e-310, f64::from_bits(1)][noise.below(6)];
        let on_machine = buffers
            .iter()
            .zip(&factors)
            .map(|(buffer, &factor)| launch::DeviceContribution {
                gradient: buffer.on(machine).address,
                factor,
            })
            .collect();
        let accumulated_on_machine = accumulated.as_ref().map(|sum| sum.on(machine));
        Sources {
            dtype,
            gradient_dtype,
            elements,
            buffers,
            factors,
            accumulated,
            divisor,
            on_machine,
            accumulated_on_machine,
        }
    }

    pub fn contributions(&self) -> Vec<Contribution<'_>> {
        let both = self.buffers.iter().zip(&self.factors);
        both.map(|(buffer, &factor)| Contribution {
            gradient: buffer.span(),
            factor,
        })
        .collect()
    }

    pub fn gradient(&self) -> Gradient<'_> {
        Gradient {
            dtype: self.dtype,
            elements: self.elements as u64,
            gradient_dtype: self.gradient_dtype,
            contributions: &self.on_machine,
            accumulated: self
                .accumulated_on_machine
                .as_ref()
                .map(|place| place.address),
            divisor: self.divisor,
        }
    }

    pub fn describe(&self) -> String {
        format!(
            "{} elements of {}, {} gradients of {} with {:?}, accumulated {}, divisor {}",
            self.elements,
            self.dtype,
            self.buffers.len(),
            self.gradient_dtype,
            self.factors,
            self.accumulated.is_some(),
            self.divisor
        )
    }
}
