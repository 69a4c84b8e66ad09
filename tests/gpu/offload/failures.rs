//! One of two GPUs fails while weights and gradients go over the bus.

use super::*;

/// Two chunks of one variable.
const TWO_CHUNKS: usize = 530_000;

/// What a rule without state comes to, step by step, on any devices.
fn whole(steps: usize) -> Vec<Vec<Vec<u32>>> {
    registry::REGISTRY
        .set_logical_count(DeviceKind::Cpu, 0, 2)
        .unwrap();
    let rule = catalogue::make("sgd").unwrap();
    let training = Training::on(PLAIN, &["CPU:0", "CPU:1"], &[start(TWO_CHUNKS)], rule);
    let mut all = vec![training.bits()];
    for _ in 0..steps {
        training.step().unwrap();
        all.push(training.bits());
    }
    all
}

/// The phases of a step in which a GPU takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Weights that were not sent are asked for, gradients are written and come down.
    FirstRun,
    /// Gradients are written and come down. The weights are there.
    Run,
    /// The update, during which weights go up.
    Apply,
}

const CALLS: [&str; 7] = [
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuStreamSynchronize",
    "cuCtxSetCurrent",
];

/// The errors of a call: one that has no other effect, and one that takes the card with it.
const CODES: [(u32, bool); 2] = [(2, false), (719, true)];

/// One of two GPUs fails in each phase, at each call of each kind: once, or for good.
#[test]
fn one_of_two_gpus_fails_in_each_phase() {
    let settings = [("FAKE_CUDA_DEVICES", "160"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    let whole = whole(4);
    let mut pair = 0;
    let mut trials = 0;
    let mut lost = 0;
    for phase in [Phase::FirstRun, Phase::Run, Phase::Apply] {
        for call in CALLS {
            // Contexts are changed at each call of any kind.
            let step = if call == "cuCtxSetCurrent" { 16 } else { 1 };
            for number in (1..).step_by(step) {
                let reached = CODES.map(|(code, takes_card)| {
                    control.seed(trials);
                    let fault = format!("{call}:{number}:{code}");
                    let found = Trial::new(&control, pair, &whole, phase).fails(phase, &fault);
                    assert_eq!(control.take_reports(), [] as [&str; 0], "{phase:?} {fault}");
                    assert!(!found.is_lost || takes_card, "{phase:?} {fault}");
                    pair += 2 * u32::from(found.is_lost);
                    lost += u64::from(found.is_lost);
                    trials += u64::from(found.is_reached);
                    found.is_reached
                });
                if !reached.contains(&true) {
                    break;
                }
            }
        }
    }
    println!("{trials} calls failed, {lost} cards were lost");
    assert!(trials > 40 && lost > 20, "{trials} {lost}");
}

struct Trial<'a> {
    control: &'a Control,
    training: Training,
    names: [String; 2],
    whole: &'a [Vec<Vec<u32>>],
    /// How many steps were taken.
    steps: usize,
}

struct Found {
    /// As many calls were made.
    is_reached: bool,
    is_lost: bool,
}

impl<'a> Trial<'a> {
    /// A training on the GPU with this number and the next one, before the step with the phase.
    fn new(control: &'a Control, pair: u32, whole: &'a [Vec<Vec<u32>>], phase: Phase) -> Trial<'a> {
        let names = [pair, pair + 1].map(|index| format!("GPU:{index}"));
        let devices = names.each_ref().map(String::as_str);
        let rule = catalogue::make("sgd").unwrap();
        let training = Training::on(PLAIN, &devices, &[start(TWO_CHUNKS)], rule);
        let steps = usize::from(phase != Phase::FirstRun);
        (0..steps).for_each(|_| training.step().unwrap());
        Trial {
            control,
            training,
            names,
            whole,
            steps,
        }
    }

    /// Lets a call fail in a phase. Nothing of a step is kept that fails, and all of one that
    /// succeeds; the step can be taken again, or the GPU is lost and named.
    fn fails(mut self, phase: Phase, fault: &str) -> Found {
        let mut errors = Vec::new();
        let in_apply = phase == Phase::Apply;
        self.control.fault(if in_apply { "" } else { fault });
        errors.extend(self.training.run().err());
        let mut injected = self.control.injected();
        let ran = errors.is_empty();
        if ran {
            self.control.fault(if in_apply { fault } else { "" });
            let applied = self.training.apply();
            self.steps += usize::from(applied.is_ok());
            errors.extend(applied.err());
            injected += self.control.injected();
        }
        self.control.fault("");
        let context = format!("{phase:?} {fault}: {errors:?}");
        assert!(self.is_whole(), "{context}");
        for error in &errors {
            let status = [Status::Unavailable, Status::ResourceExhausted];
            let is_known = status.contains(&error.status());
            assert!(is_known && error.to_string().contains("GPU"), "{context}");
        }
        let is_lost = self.names.iter().any(|name| is_lost(name));
        if is_lost {
            self.continues_without_it();
        } else {
            // An apply that failed is tried again.
            if !ran || errors.is_empty() {
                self.training.run().unwrap();
            }
            self.training.apply().unwrap();
            self.steps += 1;
            self.training.step().unwrap();
            self.steps += 1;
            assert!(self.is_whole(), "{context}");
        }
        Found {
            is_reached: injected > 0,
            is_lost,
        }
    }

    fn is_whole(&self) -> bool {
        self.training.bits() == self.whole[self.steps]
    }

    /// The lost GPU says so at its next use, and nothing changes. The other one trains on with a
    /// processor, from the weights that the host has.
    fn continues_without_it(&self) {
        let error = self.training.run().expect_err("a GPU is lost");
        assert_eq!(error.status(), Status::Unavailable, "{error}");
        let text = error.to_string();
        assert!(text.contains("lost to this process"), "{text}");
        assert!(self.is_whole(), "{text}");
        let left: Vec<&str> = self
            .names
            .iter()
            .map(String::as_str)
            .filter(|name| !is_lost(name))
            .chain(["CPU:0"])
            .collect();
        assert_eq!(left.len(), 2);
        let weights = numbers(&read(&self.training.variables[0]).unwrap());
        let rule = catalogue::make("sgd").unwrap();
        let training = Training::on(PLAIN, &left, &[weights], rule);
        for expected in &self.whole[self.steps + 1..][..2] {
            training.step().unwrap();
            assert!(training.bits() == *expected);
        }
    }
}

fn is_lost(name: &str) -> bool {
    let index = name.trim_start_matches("GPU:").parse().unwrap();
    registry::gpu(gpu(index)).is_err()
}
