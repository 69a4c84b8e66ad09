//! Memory that is let go of while a card may still use it: whatever call of the driver fails in a
//! copy, its source may be freed and written at once.

use fake_cuda::harness::under_driver;
use umbo_core::collectives::{self, Assignment, ReduceOp, copy_to};
use umbo_core::strategy::variables::{self, assign};
use umbo_core::values::Value;
use umbo_core::values::variable::Aggregation;

use super::strategy::{strategy_on, variable};
use super::*;

const ELEMENTS: usize = 600;

/// Something that brings elements from `source` to `to`. Whatever comes of it, it leaves nothing
/// that it has made, and nothing of the source.
type Moves = fn(source: Tensor, to: DeviceId) -> Result<()>;

fn strided(tensor: &Tensor) -> Result<Tensor> {
    tensor
        .reshape(shape(&[ELEMENTS / 20, 20]))?
        .transpose(&[1, 0])?
        .slice(0, 1, 20, 3)
}

const ALL: [(&str, Moves); 8] = [
    ("a copy", |source, to| copy_to(&source, to).map(drop)),
    ("a copy with strides", |source, to| {
        copy_to(&strided(&source)?, to).map(drop)
    }),
    ("a copy into strides", |source, to| {
        let target = Tensor::zeros(source.dtype(), source.shape(), to)?;
        let part = strided(&target)?;
        // SAFETY: nobody else has it.
        unsafe { part.assume_exclusive() }.copy_from(&strided(&source)?)
    }),
    ("a sum", |source, to| {
        let parts = [
            source,
            Tensor::from_slice(&[1.0f32; ELEMENTS], shape(&[ELEMENTS]), to)?,
        ];
        collectives::reduce(ReduceOp::Sum, &parts, None, to, None).map(drop)
    }),
    ("a gather", |source, to| {
        let parts = [source.slice(0, 3, 9, 1)?, source];
        collectives::gather(&parts, 0, to, None).map(drop)
    }),
    ("an assignment", |source, to| {
        let strategy = strategy_on(&["CPU:0"], &to.to_string())?;
        let held = variable(&strategy, Aggregation::None, &[0.0; ELEMENTS])?;
        assign(&held, Assignment::Add, &Value::Tensor(source))
    }),
    ("a variable's value on a replica's device", |source, to| {
        let strategy = strategy_on(&[&to.to_string()], &source.device().to_string())?;
        let held = variable(&strategy, Aggregation::None, &[4.0; ELEMENTS])?;
        assign(&held, Assignment::Assign, &Value::Tensor(source))?;
        let reads = |context: &umbo_core::strategy::ReplicaContext| {
            // SAFETY: nobody assigns meanwhile, and nothing is read.
            unsafe { variables::refreshed_copy(Some(context), &held, held.dtype()) }?;
            Ok(None)
        };
        strategy.run(&reads, None).map(drop)
    }),
    ("elements of the program's", |source, to| {
        let there = Tensor::from_slice(&[2.0f32; ELEMENTS], shape(&[ELEMENTS]), to)?;
        // SAFETY: nobody else has it.
        unsafe { there.assume_exclusive() }.copy_from(&source)
    }),
];

/// Has the memory that is free on these devices used for something else, and waits for it.
fn used_again(devices: &[DeviceId]) {
    for &device in devices {
        let fresh: Vec<Tensor> = (0..4).map(|_| tensor(&[-1.0; ELEMENTS], device)).collect();
        assert!(
            fresh
                .iter()
                .all(|tensor| numbers(tensor) == [-1.0; ELEMENTS])
        );
    }
}

#[test]
fn sources_of_copies_that_fail_may_be_freed_at_once() {
    let settings = [("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    // Two logical GPUs of one card, and one of another.
    registry::REGISTRY.split_gpu(0, &[None, None]).unwrap();
    let places = [gpu(0), gpu(1), gpu(2), HOST];
    let mut trials = 0;
    let mut injected = 0;
    let mut failed = 0;
    for from in places {
        for to in places.into_iter().filter(|&to| to != from) {
            for (name, moves) in ALL {
                let source = || tensor(&[3.0; ELEMENTS], from);
                // What is made at the first use is there before calls are counted.
                moves(source(), to).unwrap();
                let one = source();
                control.fault("");
                moves(one, to).unwrap();
                let calls = control.calls("*");
                for number in 1..=calls {
                    let code = 1 + trials % 2;
                    control.seed(number);
                    let one = source();
                    control.fault(&format!("*:{number}:{code}"));
                    failed += usize::from(moves(one, to).is_err());
                    injected += control.injected();
                    control.fault("");
                    used_again(&[from, to]);
                    let reports = control.take_reports();
                    let case = format!("{name} from {from} to {to}, call {number}, code {code}");
                    assert!(reports.is_empty(), "{case}: {reports:?}");
                    trials += 1;
                }
            }
        }
    }
    all_freed(&control, 3);
    clean(&control);
    println!("{trials} trials, {injected} calls failed, {failed} copies");
    assert!(trials > 500 && injected * 10 > trials * 9 && failed * 2 > trials as usize);
}

/// The blocks through which copies go to a card and back are freed when longer ones take their
/// place, while copies may still use them.
#[test]
fn blocks_of_copies_may_be_replaced_while_calls_fail() {
    let settings = [("FAKE_CUDA_DEVICES", "2"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    for card in 0..2 {
        registry::REGISTRY.split_gpu(card, &[None; 64]).unwrap();
    }
    let short = tensor(&[1.0; 20_000], HOST);
    let long = tensor(&[2.0; 50_000], HOST);
    // Each GPU has its blocks replaced once.
    let mut gpus = (0..128).map(gpu);
    let mut replaced = |fault: &str| {
        let there = gpus.next().expect("there are enough");
        let small = copy_to(&short, there).unwrap();
        control.fault(fault);
        let copied = copy_to(&long, there);
        let calls = control.calls("*");
        control.fault("");
        assert!(numbers(&small) == [1.0; 20_000]);
        if let Ok(copied) = copied {
            assert!(numbers(&copied) == [2.0; 50_000]);
        }
        calls
    };
    let calls = replaced("");
    assert!((5..60).contains(&calls), "{calls}");
    for number in 1..=calls {
        for code in [1, 2] {
            control.seed(number);
            replaced(&format!("*:{number}:{code}"));
            assert_eq!(
                control.take_reports(),
                [] as [&str; 0],
                "call {number}, code {code}"
            );
        }
    }
}

/// Cards that cannot be waited for either are lost, and nothing of them is freed under what they
/// do.
#[test]
fn cards_that_cannot_be_waited_for_are_lost() {
    let settings = [("FAKE_CUDA_DEVICES", "4"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    for (from, to) in [(gpu(0), gpu(1)), (gpu(3), gpu(2))] {
        let source = tensor(&[3.0; ELEMENTS], from);
        drop(copy_to(&source, to).unwrap());
        // The last of the waits in a copy, and all that would take its place.
        control.fault("cuStreamWaitEvent:2:1,cuStreamSynchronize:0:1");
        let copied = copy_to(&source, to);
        control.fault("");
        refused(copied, Status::Unavailable, &["waiting for another GPU"]);
        drop(source);
        for lost in [from, to] {
            let used = Tensor::from_slice(&[1.0f32], shape(&[1]), lost);
            let card = format!("GPU {}", lost.index);
            refused(
                used,
                Status::Unavailable,
                &[&card, "lost", "could not be waited for"],
            );
        }
    }
    clean(&control);
}
