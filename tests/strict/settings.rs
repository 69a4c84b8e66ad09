//! Every setting in which callbacks run; without mistakes strict mode changes nothing.

use umbo_core::optimizer::GradientMode;
use umbo_core::tensor::DType;

use crate::scene::{Scene, Setting};

/// All combinations of what matters. Whether replicas share devices comes with each two of the
/// others.
pub fn all() -> Vec<Setting> {
    let mut all = Vec::new();
    let dtypes = [
        (DType::Float32, None),
        (DType::Float64, None),
        (DType::Float32, Some(DType::Float16)),
        (DType::Float32, Some(DType::BFloat16)),
    ];
    for replicas in [1, 3] {
        for (number, (variables, gradients)) in dtypes.into_iter().enumerate() {
            for accumulation_steps in [1, 2] {
                for (is_bounded, is_nested) in
                    [(false, false), (true, false), (false, true), (true, true)]
                {
                    for empty in [None, Some(0)] {
                        for mode in [GradientMode::Overwrite, GradientMode::Add] {
                            let odd = [
                                accumulation_steps == 2,
                                is_bounded,
                                is_nested,
                                empty.is_some(),
                                mode == GradientMode::Add,
                            ];
                            let odd = number + odd.into_iter().filter(|&odd| odd).count();
                            all.push(Setting {
                                replicas,
                                shares_devices: replicas > 1 && odd % 2 == 1,
                                strict: true,
                                variables,
                                gradients,
                                accumulation_steps,
                                is_bounded,
                                is_nested,
                                empty: empty.filter(|_| replicas > 1),
                                mode,
                            });
                        }
                    }
                }
            }
        }
    }
    all
}

#[test]
fn without_mistakes_the_bits_are_those_of_other_strategies() {
    for setting in all() {
        let strict = Scene::new(setting);
        let lax = Scene::new(Setting {
            strict: false,
            ..setting
        });
        assert!(strict.strategy.is_strict() && !lax.strategy.is_strict());
        for step in 0..4 {
            strict.train_well();
            lax.train_well();
            assert_eq!(strict.bits(), lax.bits(), "{setting:?}, step {step}");
        }
        assert!(
            strict.bits()[0].iter().any(|&byte| byte != 0),
            "{setting:?} trains nothing"
        );
    }
}
