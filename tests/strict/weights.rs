//! Variables: whoever writes one through a view ends the process.

use umbo::error::Result;
use umbo::optimizer::GradientMode;
use umbo::strategy::ReplicaContext;
use umbo::strategy::variables::{self, current_copy, current_tensor};
use umbo::tensor::{DType, Tensor};
use umbo::values::Value;

use crate::scene::{Scene, Setting, put, variable};

/// The signal that ends a child that does `body`; 0 if none does.
pub fn signal_of(body: impl FnOnce()) -> i32 {
    // SAFETY: the child does the body and leaves without the harness.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process");
    if child == 0 {
        // SAFETY: what Rust's own handler would say of a stack is of no use here; and a child that
        // hangs ends.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            libc::alarm(60);
        }
        body();
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, and the output a variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

/// Runs a callback that writes the first element of a variable's view, in 16 bits or its own dtype.
fn write_through_view(setting: Setting, replica: usize, dtype: DType) -> i32 {
    // The strategy is made in the child, since the parent's does nothing there.
    signal_of(|| {
        let scene = Scene::new(setting);
        scene.train_well();
        let of_run = std::sync::Arc::clone(&scene);
        let step = move |context: &ReplicaContext| -> Result<Option<Value>> {
            if context.replica() == replica {
                let variable = &of_run.variables[0];
                // SAFETY: nobody assigns; that a callback writes is what is tested.
                let view = unsafe { current_copy(Some(context), variable, dtype) }?;
                let view = match view {
                    Some(view) => view,
                    // SAFETY: as above.
                    None => unsafe { variables::bring_in_step(Some(context), variable, dtype) }?,
                };
                put(view.address(), dtype, 0, 7.0);
            }
            Ok(None)
        };
        scene.run(std::sync::Arc::new(step)).unwrap();
    })
}

#[test]
fn a_write_through_a_view_ends_the_process() {
    for is_nested in [false, true] {
        for is_bounded in [false, true] {
            let setting = Setting { is_nested, is_bounded, ..Setting::PLAIN };
            for (replica, dtype) in [(0, DType::Float32), (1, DType::Float32), (1, DType::BFloat16)]
            {
                let signal = write_through_view(setting, replica, dtype);
                assert_eq!(signal, libc::SIGSEGV, "{setting:?}, {replica}, {dtype}");
                let lax = Setting { strict: false, ..setting };
                assert_eq!(write_through_view(lax, replica, dtype), 0, "{setting:?}");
            }
        }
    }
}

#[test]
fn views_that_were_given_outside_of_runs_are_for_reading_too() {
    let signal = signal_of(|| {
        let scene = Scene::new(Setting::PLAIN);
        // SAFETY: as above.
        let view = unsafe { current_tensor(None, &scene.variables[3]) }.unwrap();
        put(view.address(), DType::Float32, 63, 7.0);
    });
    assert_eq!(signal, libc::SIGSEGV);
}

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

#[test]
fn several_strategies() {
    let strict = Scene::new(Setting::PLAIN);
    let lax = Scene::new(Setting { strict: false, ..Setting::PLAIN });
    strict.train_well();
    lax.train_well();
    assert_eq!(strict.bits(), lax.bits());
    // A callback of the one may look at variables of the other.
    let bits = |scene: &Scene| scene.bits();
    for (of, other) in [(&strict, &lax), (&lax, &strict)] {
        let seen = of.strategy.run(
            &|_| {
                assert_eq!(bits(other), bits(of));
                Ok(None)
            },
            None,
        );
        seen.unwrap();
    }
    strict.train_well();
    let own = variable(&strict.strategy, "late", DType::Float32, &[3]);
    assert!(own.is_same(&own.clone()));
    drop(own);
    assert_eq!(strict.setting.mode, GradientMode::Overwrite);
}
