//! Distributions for the initial values of variables.
//!
//! The schemes of Glorot and He, their fans, and their truncated normal distributions are those of
//! Keras (`keras/src/initializers/random_initializers.py`: `VarianceScaling` and `compute_fans`).
//! The results do not depend on the machine (see [`random`](super::random)).

use std::collections::HashMap;

use crate::values::random::{Purpose, RandomSource};
use crate::{DType, Shape, TensorMut};
use umbo_base::error::{Error, Result};

/// The elements of a new variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Zeros, of any dtype.
    Zeros,
    /// A constant.
    Constant(f64),
    /// Uniform from `mean - spread` to `mean + spread`.
    Uniform {
        /// The middle.
        mean: f64,
        /// Half of the width.
        spread: f64,
    },
    /// Normally distributed.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        spread: f64,
    },
    /// With variance 2 / (fan in + fan out). The fans depend on the shape.
    Glorot(DistributionForm),
    /// With variance 2 / fan in. The fan depends on the shape.
    He(DistributionForm),
}

/// The form of a distribution with a given variance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistributionForm {
    /// Uniform around 0.
    Uniform,
    /// Normal around 0, cut off at two standard deviations of the uncut distribution. That one is
    /// wider, so that the cut distribution has the given variance.
    TruncatedNormal,
}

/// The standard deviation of the standard normal distribution cut off at -2 and 2.
const DEVIATION_WHEN_CUT: f64 = 0.879_625_661_034_239_8;

impl Distribution {
    /// Whether the elements are random.
    pub fn is_random(self) -> bool {
        !matches!(self, Distribution::Zeros | Distribution::Constant(_))
    }

    /// Writes all elements of `to`, which are contiguous and zero. The same seed and key give the
    /// same elements on every machine. Other keys give other elements, so that a model needs
    /// only one seed.
    ///
    /// Fails with INVALID_ARGUMENT for a number that is not finite, for a negative spread, and for
    /// anything but zeros if the elements are not floats.
    pub fn fill(self, to: &mut TensorMut, seed: u64, key: DrawKey) -> Result<()> {
        let dtype = to.dtype();
        let shape = to.shape();
        self.check(dtype)?;
        let DrawKey { name, occurrence } = key;
        let mut source = RandomSource::new(Purpose::Initial, [seed, name, occurrence, 0]);
        let mut draw: Box<dyn FnMut() -> f64> = match self {
            Distribution::Zeros => return Ok(()),
            Distribution::Constant(number) => return to.fill(number),
            Distribution::Uniform { mean, spread } => {
                Box::new(move || mean + spread * source.centred())
            }
            Distribution::Normal { mean, spread } => {
                Box::new(move || mean + spread * source.normal())
            }
            Distribution::Glorot(form) => {
                let (fan_in, fan_out) = fans(&shape);
                form.of_variance(1.0 / f64::max(1.0, (fan_in + fan_out) / 2.0), source)
            }
            Distribution::He(form) => form.of_variance(2.0 / f64::max(1.0, fans(&shape).0), source),
        };
        to.fill_with(&mut draw)
    }

    fn check(self, dtype: DType) -> Result<()> {
        let (mean, spread) = match self {
            Distribution::Constant(number) => (number, 0.0),
            Distribution::Uniform { mean, spread } | Distribution::Normal { mean, spread } => {
                (mean, spread)
            }
            Distribution::Zeros | Distribution::Glorot(_) | Distribution::He(_) => (0.0, 0.0),
        };
        if !mean.is_finite() {
            return Err(invalid!("initial_mean", "{mean}; must be finite"));
        }
        if !spread.is_finite() || spread < 0.0 {
            return Err(invalid!(
                "initial_spread",
                "{spread}; must be finite and 0 or more"
            ));
        }
        if !dtype.is_float() && self != Distribution::Zeros {
            let problem =
                format!("{dtype}; zeros are its only distribution, all others are for floats");
            return Err(Error::invalid("dtype", problem));
        }
        Ok(())
    }
}

impl DistributionForm {
    fn of_variance(self, variance: f64, mut source: RandomSource) -> Box<dyn FnMut() -> f64> {
        match self {
            DistributionForm::Uniform => {
                let limit = (3.0 * variance).sqrt();
                Box::new(move || limit * source.centred())
            }
            DistributionForm::TruncatedNormal => {
                let deviation = variance.sqrt() / DEVIATION_WHEN_CUT;
                Box::new(move || deviation * source.truncated_normal())
            }
        }
    }
}

/// The fans of weights of this shape: on how many inputs an output of the layer depends, and how
/// many outputs depend on an input. They are the rows and columns of a matrix; twice the number of
/// elements of a vector; 1 and 1 for a scalar; and for kernels of convolutions (spatial sizes, then
/// channels in and channels out) the channels times the size of the window.
fn fans(shape: &Shape) -> (f64, f64) {
    match **shape {
        [] => (1.0, 1.0),
        [size] => (size as f64, size as f64),
        [ref window @ .., channels_in, channels_out] => {
            let window: f64 = window.iter().map(|&size| size as f64).product();
            (window * channels_in as f64, window * channels_out as f64)
        }
    }
}

/// The number of a draw of random elements: that of the first variable of a name, of the second,
/// and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawKey {
    /// The name's hash.
    name: u64,
    /// The number of variables of the name that came before.
    occurrence: u64,
}

impl DrawKey {
    /// The key of the first variable of this name.
    pub fn first(name: &str) -> DrawKey {
        DrawKey {
            name: name_hash(name),
            occurrence: 0,
        }
    }
}

/// A hash of a variable's name, which does not change between versions: FNV-1a.
pub fn name_hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The names for which elements were drawn. Names may repeat, and variables of one name get
/// different elements. Two names with one hash are like one name.
#[derive(Debug, Default)]
pub struct DrawnNames {
    /// The number of variables of each name, by its hash.
    counts: HashMap<u64, u64>,
}

impl DrawnNames {
    /// The key of the next variable of this name.
    pub fn next(&mut self, name: &str) -> DrawKey {
        let first = DrawKey::first(name);
        let count = self.counts.entry(first.name).or_default();
        let occurrence = *count;
        *count += 1;
        DrawKey {
            occurrence,
            ..first
        }
    }

    /// The variable of this key was not made. The next of the name gets the key, unless another has
    /// the one after it.
    pub fn give_back(&mut self, key: DrawKey) {
        if let Some(count) = self.counts.get_mut(&key.name)
            && *count == key.occurrence + 1
        {
            *count = key.occurrence;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;
    use umbo_device::DeviceId;

    fn drawn(distribution: Distribution, shape: &[usize], seed: u64, name: &str) -> Vec<f64> {
        drawn_by(distribution, shape, seed, DrawKey::first(name))
    }

    fn drawn_by(distribution: Distribution, shape: &[usize], seed: u64, key: DrawKey) -> Vec<f64> {
        let fill = |to: &mut TensorMut| {
            to.fill_zeros()?;
            distribution.fill(to, seed, key)
        };
        let shape = Shape::new(shape).unwrap();
        Tensor::made(DType::Float64, shape, DeviceId::HOST, fill)
            .unwrap()
            .to_vec()
            .unwrap()
    }

    /// The mean and the variance.
    fn moments(numbers: &[f64]) -> (f64, f64) {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        (
            mean,
            numbers.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count,
        )
    }

    #[test]
    fn fans_are_those_of_keras() {
        for (shape, expected) in [
            (&[][..], (1.0, 1.0)),
            (&[7][..], (7.0, 7.0)),
            (&[3, 5][..], (3.0, 5.0)),
            (&[4, 3, 5][..], (12.0, 20.0)),
            (&[3, 3, 16, 32][..], (144.0, 288.0)),
        ] {
            assert_eq!(fans(&Shape::new(shape).unwrap()), expected, "{shape:?}");
        }
    }

    #[test]
    #[expect(
        clippy::too_many_lines,
        reason = "a table of distributions is read in one go"
    )]
    fn distributions_have_their_moments_and_bounds() {
        let shape = [3, 3, 60, 140]; // fans 540 and 1260, 75600 elements
        let uniform = DistributionForm::Uniform;
        let cut = DistributionForm::TruncatedNormal;
        let glorot: f64 = 2.0 / (540.0 + 1260.0);
        let he: f64 = 2.0 / 540.0;
        let table = [
            (
                Distribution::Uniform {
                    mean: 1.0,
                    spread: 0.5,
                },
                1.0,
                0.25 / 3.0,
                0.5,
            ),
            (
                Distribution::Normal {
                    mean: -2.0,
                    spread: 3.0,
                },
                -2.0,
                9.0,
                f64::INFINITY,
            ),
            (
                Distribution::Glorot(uniform),
                0.0,
                glorot,
                (3.0 * glorot).sqrt(),
            ),
            (
                Distribution::Glorot(cut),
                0.0,
                glorot,
                2.0 * glorot.sqrt() / DEVIATION_WHEN_CUT,
            ),
            (Distribution::He(uniform), 0.0, he, (3.0 * he).sqrt()),
            (
                Distribution::He(cut),
                0.0,
                he,
                2.0 * he.sqrt() / DEVIATION_WHEN_CUT,
            ),
        ];
        for (distribution, mean, variance, bound) in table {
            let numbers = drawn(distribution, &shape, 7, "w");
            let (found, spread) = moments(&numbers);
            // The tolerance is five standard errors of the mean. That of the variance is below 1
            // percent.
            let error = 5.0 * (variance / numbers.len() as f64).sqrt();
            assert!(
                (found - mean).abs() < error,
                "{distribution:?}: mean {found}"
            );
            assert!(
                (spread / variance - 1.0).abs() < 0.03,
                "{distribution:?}: variance {spread}"
            );
            let furthest = numbers.iter().map(|x| (x - mean).abs()).fold(0.0, f64::max);
            assert!(furthest <= bound, "{distribution:?}: {furthest} away");
            assert!(
                bound.is_infinite() || furthest > 0.99 * bound,
                "{distribution:?}: {furthest}"
            );
        }
    }

    #[test]
    fn a_normal_distribution_has_the_tails_of_one() {
        let numbers = drawn(
            Distribution::Normal {
                mean: 0.0,
                spread: 1.0,
            },
            &[100_000],
            3,
            "w",
        );
        let share = |limit: f64| {
            numbers.iter().filter(|x| x.abs() > limit).count() as f64 / numbers.len() as f64
        };
        for (limit, expected) in [(1.0, 0.317_311), (2.0, 0.045_500), (3.0, 0.002_700)] {
            let found = share(limit);
            assert!(
                (found / expected - 1.0).abs() < 0.3,
                "beyond {limit}: {found}"
            );
            assert!((found - expected).abs() < 0.008, "beyond {limit}: {found}");
        }
    }

    #[test]
    fn seed_and_name_choose_the_numbers() {
        let how = Distribution::He(DistributionForm::TruncatedNormal);
        let first = drawn(how, &[4, 4], 1, "a");
        assert_eq!(first, drawn(how, &[4, 4], 1, "a"));
        assert_ne!(first, drawn(how, &[4, 4], 2, "a"));
        assert_ne!(first, drawn(how, &[4, 4], 1, "b"));
    }

    #[test]
    fn variables_of_one_name_get_different_numbers() {
        let how = Distribution::Glorot(DistributionForm::Uniform);
        let mut names = DrawnNames::default();
        let keys = [
            names.next("a"),
            names.next("b"),
            names.next("a"),
            names.next("a"),
        ];
        assert_eq!(keys[..2], [DrawKey::first("a"), DrawKey::first("b")]);
        let all = keys.map(|key| drawn_by(how, &[4, 4], 1, key));
        for (index, one) in all.iter().enumerate() {
            assert!(
                all[..index].iter().all(|other| other != one),
                "{:?}",
                keys[index]
            );
        }
        // The elements of another shape are not multiples of these, either.
        let wide = drawn_by(how, &[40, 4], 1, keys[2]);
        let ratio = wide[0] / all[0][0];
        assert!(
            wide.iter()
                .zip(&all[0])
                .any(|(wide, small)| (wide / small - ratio).abs() > 0.01)
        );
        // Only the last key of a name can be given back.
        names.give_back(keys[2]);
        let next = names.next("a");
        assert!(!keys.contains(&next));
        names.give_back(next);
        assert_eq!(names.next("a"), next);
    }

    #[test]
    fn the_bits_are_the_same_on_every_machine() {
        let bits = |how| {
            drawn(how, &[2, 2], 42, "w")
                .iter()
                .map(|x| x.to_bits())
                .collect::<Vec<_>>()
        };
        let uniform = bits(Distribution::Uniform {
            mean: 0.0,
            spread: 1.0,
        });
        assert_eq!(uniform, GOLDEN_UNIFORM);
        assert_eq!(
            bits(Distribution::Normal {
                mean: 0.0,
                spread: 1.0
            }),
            GOLDEN_NORMAL
        );
        assert_eq!(
            bits(Distribution::Glorot(DistributionForm::Uniform)),
            GOLDEN_GLOROT_UNIFORM
        );
        assert_eq!(
            bits(Distribution::He(DistributionForm::TruncatedNormal)),
            GOLDEN_HE_NORMAL
        );
    }

    const GOLDEN_UNIFORM: [u64; 4] = [
        0x3fe2_246d_ba73_4fc8,
        0x3fe1_3b79_379c_e44c,
        0xbfec_ea8f_259a_f246,
        0x3fc7_3453_19d7_2fb8,
    ];
    const GOLDEN_NORMAL: [u64; 4] = [
        0x3fe7_03c3_fe92_d3d0,
        0x3fe5_dc3f_206d_05bb,
        0xbfe1_ecdc_5947_559e,
        0x3fbc_c4d6_6135_ea44,
    ];
    const GOLDEN_GLOROT_UNIFORM: [u64; 4] = [
        0x3fe6_383d_79d9_f039,
        0x3fe5_1aed_f702_9bd9,
        0xbff1_b51f_893c_b023,
        0x3fcc_6b61_d195_2fb3,
    ];
    const GOLDEN_HE_NORMAL: [u64; 4] = [
        0x3fea_2a09_951a_cf9c,
        0x3fe8_da13_d436_3dda,
        0xbfe4_60d5_694b_e3ab,
        0x3fc0_5a58_f780_e682,
    ];

    #[test]
    fn impossible_distributions_are_refused() {
        let refused = |how: Distribution, dtype| {
            let shape = Shape::new(&[2]).unwrap();
            let made = Tensor::made(dtype, shape, DeviceId::HOST, |to| {
                how.fill(to, 0, DrawKey::first("w"))
            });
            made.unwrap_err().to_string()
        };
        let normal = |mean, spread| Distribution::Normal { mean, spread };
        assert!(refused(normal(f64::NAN, 1.0), DType::Float32).contains("initial_mean"));
        assert!(refused(normal(0.0, -1.0), DType::Float32).contains("initial_spread"));
        assert!(refused(normal(0.0, 1.0), DType::Int32).contains("int32"));
        assert!(refused(Distribution::Constant(1.0), DType::Bool).contains("bool"));
    }
}
