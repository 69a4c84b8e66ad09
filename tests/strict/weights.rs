//! What the library and the program write of variables as they may.

use umbo::strategy::variables::{self, current_tensor};
use umbo::tensor::{DType, Tensor};
use umbo::values::Value;

use crate::scene::{Scene, Setting};

/// Everything that may write variables still can: assignments in and out of steps, scattering, undoing,
/// low-precision copies that applies write along, copies of variables, and variables made in steps.
#[test]
fn the_library_writes_what_callbacks_may_not() {
    for replicas in [1, 2] {
        let scene = Scene::new(Setting { replicas, ..Setting::PLAIN });
        let weight = scene.variables[0].clone();
        let assign = |to: f32| {
            let value = Tensor::zeros(DType::Float32, weight.shape(), weight.device()).unwrap();
            // SAFETY: nobody else has it.
            unsafe { value.assume_exclusive() }.fill(to.into()).unwrap();
            let kind = umbo::collectives::Assignment::Assign;
            variables::assign(&weight, kind, &Value::Tensor(value))
        };
        let first = || variables::read(&weight).unwrap().to_vec::<f32>().unwrap()[0];
        assign(2.0).unwrap();
        assert_eq!(first(), 2.0);
        scene
            .strategy
            .run(
                &|context| {
                    // Two values in one step, and a view of each.
                    for value in [3.0, 4.0] {
                        assign(value)?;
                        // SAFETY: nobody assigns while it is read.
                        let view = unsafe { current_tensor(Some(context), &weight) }?;
                        assert_eq!(view.to_vec::<f32>()?[0], value);
                        // SAFETY: as above.
                        let copy = unsafe {
                            variables::bring_in_step(Some(context), &weight, DType::Float16)
                        }?;
                        assert_eq!(copy.to_vec::<half::f16>()?[0].to_f32(), value);
                    }
                    Ok(None)
                },
                None,
            )
            .unwrap();
        assert_eq!(first(), 4.0);
        let failing = scene.strategy.run(
            &|_| {
                assign(9.0)?;
                Err(umbo::error::Error::precondition("on purpose"))
            },
            None,
        );
        assert!(failing.is_err() && first() == 4.0);
        scene.train_well();
        let copy = variables::deep_copy(&weight).unwrap();
        assert_eq!(variables::read(&copy).unwrap().to_vec::<f32>().unwrap()[0], first());
        let kind = umbo::collectives::Assignment::Add;
        variables::assign(&copy, kind, &Value::Tensor(variables::read(&weight).unwrap())).unwrap();
        assert_eq!(variables::read(&copy).unwrap().to_vec::<f32>().unwrap()[0], 2.0 * first());
        // What applies write along stays in step.
        for _ in 0..3 {
            scene.train_well();
            // SAFETY: nobody assigns.
            let half = unsafe { variables::bring_in_step(None, &weight, DType::Float16) }.unwrap();
            let rounded = half::f16::from_f32(first());
            assert_eq!(half.to_vec::<half::f16>().unwrap()[0], rounded);
        }
    }
}
