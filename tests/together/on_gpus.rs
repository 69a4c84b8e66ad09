//! Ranks whose replicas or variables are on GPUs of the tests' driver, or whose replicas share
//! their devices: they come to the bits of one process on CPUs, and what fails on one rank's GPU
//! fails the step on all.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fake_cuda::Control;
use fake_cuda::harness::{command, under_driver};
use umbo_core::cluster::communicator::Communicator;
use umbo_core::cluster::nccl;
use umbo_core::device::registry::release_kept;
use umbo_core::device::{DeviceId, registry};
use umbo_core::error::{Error, Result, Status};
use umbo_core::optimizer::rules::catalogue;
use umbo_core::optimizer::{Gradients, GradientsOptions, Optimizer, apply};
use umbo_core::strategy::variables::read;
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::values::variable::Variable;

use super::dividing::{contribute, gradients, make};
use super::engine::{Rank, ranks};
use super::{alone, bytes, on_ranks};

/// Says where the ranks of this process are.
const PLACE: &str = "UMBO_RANKS_ON";

/// Says that replicas share their devices.
const SHARES: &str = "UMBO_RANKS_SHARE_DEVICES";

/// The driver's devices. A rank has as many replicas at most. NCCL takes one rank for each.
fn devices() -> usize {
    if is_at(PLACES[4]) { 24 } else { 6 }
}

/// Replicas and variables on GPUs; replicas alone; both, on every other rank; on all, with an
/// engine that moves memory of GPUs; on all, with NCCL.
const PLACES: [&str; 5] = [
    "gpus",
    "gpus without variables",
    "some gpus",
    "gpus, between which the engine moves memory",
    "gpus, between which NCCL moves memory",
];

fn is_at(place: &str) -> bool {
    std::env::var(PLACE).is_ok_and(|current| current == place)
}

/// Whether the engine does so in this process.
pub fn moves_device_memory() -> bool {
    is_at(PLACES[3])
}

/// Whether a rank's variables may be on GPUs in this process.
pub fn may_hold_variables() -> bool {
    PLACES.into_iter().any(is_at) && !is_at(PLACES[1])
}

/// What joins the ranks in this process, of which `rank` is one.
pub fn joined(rank: &Arc<Rank>, options: &Options) -> Result<Arc<dyn Communicator>> {
    let device = options
        .parameter_device
        .as_deref()
        .filter(|name| name.starts_with("GPU"));
    let base = Arc::clone(rank) as Arc<dyn Communicator>;
    let Some(device) = device.filter(|_| is_at(PLACES[4])) else {
        return Ok(base);
    };
    let device = registry::REGISTRY.resolve(device, "device");
    let patient = nccl::NcclOptions {
        timeout: Some(Duration::from_secs(60)),
        library: None,
    };
    let joined = rank.while_joining(|| nccl::over(base, device, &patient))?;
    Ok(Arc::new(joined))
}

/// The options of rank `rank` with `replicas` replicas, on the devices that this process tests.
pub fn placed(rank: usize, replicas: usize) -> Options {
    let on_gpus = match std::env::var(PLACE).as_deref() {
        Ok("some gpus") => rank % 2 == 1,
        Ok(_) => true,
        Err(_) => false,
    };
    let gpu = |replica: usize| format!("GPU:{}", (rank * replicas + replica) % devices());
    let holds_variables = !is_at(PLACES[1]);
    match on_gpus {
        false => Options {
            cpu_replicas: replicas,
            ..Options::default()
        },
        true => Options {
            compute_devices: Some((0..replicas).map(gpu).collect()),
            parameter_device: Some(if holds_variables {
                gpu(0)
            } else {
                "CPU:0".into()
            }),
            ..Options::default()
        },
    }
}

/// Whether the replicas of a rank share its devices in this process.
pub fn replicas_share_devices() -> bool {
    std::env::var_os(SHARES).is_some()
}

/// How many runs are accumulated, of `wanted`: with a chosen number of replicas ranks accumulate
/// none.
pub fn runs(wanted: u64) -> u64 {
    if replicas_share_devices() { 1 } else { wanted }
}

/// The options of rank `rank` of `size` with `replicas` replicas, each of which has a device or
/// shares it with another one, as this process tests it.
pub fn shared_or_apart(rank: usize, size: usize, replicas: usize) -> Options {
    match replicas_share_devices() {
        false => placed(rank, replicas),
        true => Options {
            replicas_in_sync: size * replicas,
            ..placed(rank, replicas.div_ceil(2))
        },
    }
}

/// In how many settings tests come once more: in each place, where replicas share devices, and
/// where they share GPUs.
const SETTINGS: usize = PLACES.len() + 2;

/// The cases that are tried in this process: all, but where tests come once more. Kernels are slow
/// where they are interpreted, so that each setting has a share of the cases, and all settings
/// together have all of them.
pub fn tried<T>(cases: impl IntoIterator<Item = T>) -> Vec<T> {
    let place = PLACES.into_iter().position(is_at);
    let setting = match (place, replicas_share_devices()) {
        (None, false) => return cases.into_iter().collect(),
        (Some(place), false) => place,
        (None, true) => PLACES.len(),
        (Some(_), true) => PLACES.len() + 1,
    };
    share_of(setting, cases.into_iter().collect())
}

/// One in seven cases, and one at least. Seven has no divisor in common with the numbers of rules,
/// types and splits by which cases differ, so that a share has some of each.
fn share_of<T>(setting: usize, cases: Vec<T>) -> Vec<T> {
    let first = setting % cases.len().clamp(1, SETTINGS);
    cases.into_iter().skip(first).step_by(SETTINGS).collect()
}

#[test]
fn ranks_are_where_the_tests_want_them() {
    let place = std::env::var(PLACE).unwrap_or_default();
    let job = ranks(2);
    on_ranks(&job, 2, |rank, strategy| {
        let strategy = strategy.unwrap();
        let devices = if replicas_share_devices() { 1 } else { 2 };
        assert_eq!(
            (strategy.num_replicas(), strategy.compute_devices().len()),
            (2, devices)
        );
        let on_gpu = |device: &DeviceId| !device.is_host_memory();
        let computes = !place.is_empty() && (place != PLACES[2] || rank == 1);
        assert!(
            strategy
                .compute_devices()
                .iter()
                .all(|device| on_gpu(device) == computes)
        );
        let holds_variables = computes && place != PLACES[1];
        assert_eq!(on_gpu(&strategy.parameter_device()), holds_variables);
        Training::new(strategy).step(0).unwrap();
        assert_eq!(job[rank].bytes_on_gpus() > 0, moves_device_memory());
    });
    if is_at(PLACES[4]) {
        assert!(fake_nccl::Control::open().count("ncclSend") > 0);
    }
}

/// The tests of this program, with the ranks on GPUs: they come to the bits of one process on CPUs.
fn all_tests_on(place: &str) {
    let groups = [
        "agreement::",
        "elastic::",
        "failures::",
        "file_epochs::",
        "given_again::",
        "nested::",
        "on_gpus::ranks_are_where",
        "otherwise::ranks_with_different_updates",
        "reproducible::",
        "training::",
        "values::",
        "watching::",
    ];
    let mut tests = command(std::env::current_exe().unwrap());
    let devices = if place == PLACES[4] { "24" } else { "6" };
    tests.env(PLACE, place).env("FAKE_CUDA_DEVICES", devices);
    tests.env(nccl::VARIABLE, fake_nccl::library());
    if place == PLACES[4] {
        // It compares what is counted with what the tests' engine has moved, and NCCL goes around
        // that.
        tests.args(["--skip", "watching::traces_of_ranks"]);
    }
    all_pass(tests.env("FAKE_CUDA_ABORT", "1"), &groups);
}

/// Runs the tests of these groups in a process that knows where its ranks are.
fn all_pass(tests: &mut Command, groups: &[&str]) {
    let output = tests.args(groups).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{tests:?}: {}\n{text}\n{errors}",
        output.status
    );
    let passed = text
        .split("test result: ok. ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let passed: usize = passed.unwrap().parse().unwrap();
    // A group that is not there any more would be missed.
    assert!(passed >= 2 * groups.len(), "{tests:?}: {text}");
    println!("{tests:?}: {passed} tests");
}

/// The tests of this program where replicas take turns on their devices.
#[test]
fn replicas_may_share_devices() {
    let groups = [
        "agreement::",
        "failures::",
        "files::",
        "in_place::",
        "input::",
        "lent::",
        "nested::",
        "reduced::",
        "saving::",
        "strict::",
        "values::",
        "watching::",
        "on_gpus::ranks_are_where",
        "training::",
    ];
    let mut tests = Command::new(std::env::current_exe().unwrap());
    tests.args(["--skip", "what_one_process_has_accumulated"]);
    all_pass(tests.env(SHARES, "1"), &groups);
}

/// The same on GPUs, one of which holds the variables of a rank.
#[test]
fn replicas_may_share_gpus() {
    let groups = [
        "agreement::",
        "failures::",
        "input::",
        "nested::",
        "values::",
        "watching::",
        "on_gpus::ranks_are_where",
        "training::",
    ];
    let mut tests = command(std::env::current_exe().unwrap());
    tests
        .env(SHARES, "1")
        .env(PLACE, PLACES[0])
        .env("FAKE_CUDA_DEVICES", "6");
    all_pass(tests.env("FAKE_CUDA_ABORT", "1"), &groups);
}

#[test]
fn replicas_and_variables_may_be_on_gpus() {
    all_tests_on(PLACES[0]);
}

#[test]
fn replicas_alone_may_be_on_gpus() {
    all_tests_on(PLACES[1]);
}

#[test]
fn some_ranks_may_be_on_gpus() {
    all_tests_on(PLACES[2]);
}

#[test]
fn gradients_may_go_from_gpu_to_gpu() {
    all_tests_on(PLACES[3]);
}

#[test]
fn gradients_may_go_from_gpu_to_gpu_over_nccl() {
    all_tests_on(PLACES[4]);
}

/// A training that can be continued after a step that failed.
struct Training {
    strategy: Strategy,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

const STEPS: usize = 3;

impl Training {
    fn new(strategy: Strategy) -> Training {
        Training::by(strategy, "adam")
    }

    fn by(strategy: Strategy, rule: &str) -> Training {
        let variables = make(&strategy, &[&[3], &[200], &[6, 2]]);
        let options = GradientsOptions {
            row_sparse: &[false, false, catalogue::updates_rows(rule)],
            ..GradientsOptions::default()
        };
        let gradients = gradients(&strategy, &variables, options);
        let rule = catalogue::make(rule).unwrap();
        let optimizer = Optimizer::new(strategy.id(), rule, 0.1).unwrap();
        Training {
            strategy,
            variables,
            gradients,
            optimizer,
        }
    }

    fn step(&self, number: usize) -> Result<()> {
        let callback = |context: &ReplicaContext| {
            contribute(context, &self.gradients, number)?;
            apply(&self.optimizer, &self.gradients)?;
            Ok(None)
        };
        self.strategy.run(&callback, None).map(drop)
    }

    fn weights(&self) -> Result<Vec<Vec<u8>>> {
        self.variables
            .iter()
            .map(|variable| Ok(bytes(&read(variable)?.on_host()?)))
            .collect()
    }
}

/// The weights after each number of steps.
fn expected(replicas: usize, rule: &str) -> Vec<Vec<Vec<u8>>> {
    let training = Training::by(alone(replicas), rule);
    let mut all = vec![training.weights().unwrap()];
    for number in 0..STEPS {
        training.step(number).unwrap();
        all.push(training.weights().unwrap());
    }
    all
}

/// What became of a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// It has taken all steps.
    Whole,
    /// Its GPU is lost.
    Lost,
    /// It has taken so many steps when another rank was gone.
    Alone(usize),
}

/// Tries until it succeeds, which it does the second or third time unless the GPU is lost.
fn until_it_succeeds<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let mut failures = 0;
    loop {
        match attempt() {
            Err(error) if failures < 2 && !is_lost(&error) => failures += 1,
            other => return other,
        }
    }
}

fn is_lost(error: &Error) -> bool {
    error.to_string().contains("is lost to this process")
}

/// Trains, and takes each step again that fails. Whatever fails, it fails on all ranks and leaves
/// the weights of the step before.
fn train(rank: &Rank, training: &Training, expected: &[Vec<Vec<u8>>]) -> End {
    let mut taken = 0;
    let mut failures = 0;
    let lost = |error: &Error| {
        assert_eq!(error.status(), Status::Unavailable, "{error}");
        // From now on every use of the card says so.
        assert!(is_lost(&training.weights().unwrap_err()));
        rank.abort(error);
        End::Lost
    };
    while taken < STEPS {
        let error = training.step(taken).err();
        let own_is_lost = error
            .as_ref()
            .filter(|error| is_lost(error) && !matches!(error.unnamed(), Error::Rank { .. }));
        if let Some(error) = own_is_lost {
            return lost(error);
        }
        taken += usize::from(error.is_none());
        match until_it_succeeds(|| training.weights()) {
            Ok(weights) => assert!(weights == expected[taken], "after {taken} steps: {error:?}"),
            Err(error) => return lost(&error),
        }
        let Some(error) = error else { continue };
        let text = error.to_string();
        if text.contains("the ranks cannot meet any more") {
            assert_eq!(error.status(), Status::Unavailable, "{text}");
            return End::Alone(taken);
        }
        let of_driver = [Status::Unavailable, Status::ResourceExhausted];
        assert!(
            of_driver.contains(&error.status()) && text.contains("GPU"),
            "{text}"
        );
        failures += 1;
        assert!(failures < 4, "{text}");
    }
    End::Whole
}

/// What came of a training.
struct Trial {
    ends: Vec<End>,
    /// How often the driver was called, and how often it failed.
    calls: u64,
    injected: u64,
}

/// What two ranks with `replicas` replicas come to by a rule, once both have begun and `fault` has
/// been called.
fn ends_after(replicas: usize, rule: &str, fault: &(dyn Fn() + Sync)) -> Vec<End> {
    let job = ranks(2);
    let expected = &expected(2 * replicas, rule);
    on_ranks(&job, replicas, |rank, strategy| {
        let training = Training::by(strategy.unwrap(), rule);
        job[rank].barrier().unwrap();
        if rank == 0 {
            fault();
        }
        job[rank].barrier().unwrap();
        train(&job[rank], &training, expected)
    })
}

/// Two ranks with `replicas` replicas train while `fault` is there.
fn trial(control: &Control, replicas: usize, fault: &str) -> Trial {
    trial_by("adam", control, replicas, fault)
}

/// The same by the rule of this name.
fn trial_by(rule: &str, control: &Control, replicas: usize, fault: &str) -> Trial {
    let ends = ends_after(replicas, rule, &|| control.fault(fault));
    let calls = control.calls("*");
    let injected = control.injected();
    control.fault("");
    Trial {
        ends,
        calls,
        injected,
    }
}

pub const QUIET: [(&str, &str); 2] = [("FAKE_CUDA_DEVICES", "6"), ("FAKE_CUDA_QUIET", "1")];

/// Calls of the driver fail in turn, on whichever rank it is made; variables are the host's.
#[test]
fn a_driver_that_fails_on_one_rank_fails_the_step_on_all() {
    let settings = [QUIET[0], QUIET[1], (PLACE, PLACES[1])];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    let mut trials = 0;
    let mut injected = 0;
    for replicas in [1, 2] {
        let Trial { ends, calls, .. } = trial(&control, replicas, "");
        assert!(ends == [End::Whole; 2] && calls > 50, "{ends:?} {calls}");
        for (number, code) in (1..=calls).step_by(5).zip([1, 2].into_iter().cycle()) {
            control.seed(number);
            let tried = trial(&control, replicas, &format!("*:{number}:{code}"));
            assert_eq!(tried.ends, [End::Whole; 2], "call {number}, code {code}");
            trials += 1;
            injected += tried.injected;
        }
    }
    println!("{trials} trainings, {injected} calls failed");
    // How often the driver is asked depends a little on who comes first.
    assert!(injected * 10 > trials * 9);
    assert_eq!(control.take_reports(), [] as [&str; 0]);
}

/// A GPU that holds variables has no memory for what one rank asks for, by each request in turn.
/// The update by factored moments fails on all ranks, and is as it should be when it is tried
/// again.
#[test]
fn a_rank_without_memory_for_factored_moments_fails_the_step_on_all() {
    let settings = [QUIET[0], QUIET[1], (PLACE, PLACES[0])];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    let mut injected = 0;
    for request in 1.. {
        control.seed(request);
        release_kept();
        let fault = format!("cuMemAllocAsync:{request}:2");
        let tried = trial_by("adafactor", &control, 1, &fault);
        assert_eq!(tried.ends, [End::Whole; 2], "request {request}");
        injected += tried.injected;
        if tried.injected == 0 {
            break;
        }
    }
    assert!(injected > 10, "{injected}");
    assert_eq!(control.take_reports(), [] as [&str; 0]);
}

/// The same, sampled, where GPUs hold the variables, and with cards that are lost, in processes of
/// their own: a rank that has lost its GPU says so, and no other has half of a step.
#[test]
fn a_gpu_that_is_lost_on_one_rank_leaves_no_half_of_a_step_on_any() {
    lose_a_gpu(
        PLACES[0],
        "a_gpu_that_is_lost_on_one_rank_leaves_no_half_of_a_step_on_any",
    );
}

/// The same with an engine that moves memory of GPUs, whose calls fail, too: then the ranks cannot
/// meet any more, after the same step.
#[test]
fn a_gpu_that_is_lost_in_an_exchange_leaves_no_half_of_a_step_on_any() {
    lose_a_gpu(
        PLACES[3],
        "a_gpu_that_is_lost_in_an_exchange_leaves_no_half_of_a_step_on_any",
    );
}

/// The same with NCCL.
#[test]
fn a_gpu_that_is_lost_amid_nccl_leaves_no_half_of_a_step_on_any() {
    lose_a_gpu(
        PLACES[4],
        "a_gpu_that_is_lost_amid_nccl_leaves_no_half_of_a_step_on_any",
    );
}

fn lose_a_gpu(place: &str, name: &str) {
    const FAULT: &str = "UMBO_RANKS_FAULT";
    let library = fake_nccl::library();
    let nccl = (nccl::VARIABLE, library.to_str().unwrap());
    let settings = [QUIET[0], QUIET[1], (PLACE, place), nccl];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    if let Ok(fault) = std::env::var(FAULT) {
        let Trial { ends, .. } = trial(&control, 1, &fault);
        assert_eq!(control.take_reports(), [] as [&str; 0]);
        return println!("outcome: {ends:?}");
    }
    let Trial { ends, calls, .. } = trial(&control, 1, "");
    assert_eq!(ends, [End::Whole; 2]);
    let mut whole = 0;
    let mut apart = 0;
    let mut lost = 0;
    let name = format!("on_gpus::{name}");
    for (trial, number) in (1..=calls).step_by(calls.div_ceil(30) as usize).enumerate() {
        // Memory that is not there, and a kernel that fails.
        let code = if trial % 3 == 0 { 2 } else { 719 };
        let output = command(std::env::current_exe().unwrap())
            .args([name.as_str(), "--exact", "--nocapture", "--test-threads=1"])
            .env(FAULT, format!("*:{number}:{code}"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "call {number}, code {code}: {text} {output:?}"
        );
        let outcome = text
            .lines()
            .find_map(|line| line.split("outcome: ").nth(1))
            .unwrap();
        match outcome.contains("Lost") {
            false => {
                let parted = (0..STEPS).map(|taken| format!("[Alone({taken}), Alone({taken})]"));
                let fits = outcome == "[Whole, Whole]"
                    || PLACES[3..].contains(&place)
                        && parted.into_iter().any(|ends| ends == outcome);
                assert!(fits, "call {number}, code {code}: {outcome}");
                let is_whole = outcome == "[Whole, Whole]";
                (whole, apart) = (
                    whole + usize::from(is_whole),
                    apart + usize::from(!is_whole),
                );
            }
            true => {
                // The other one has found itself alone, unless it was done.
                assert!(
                    outcome.contains("Alone") || outcome.contains("Whole"),
                    "{outcome}"
                );
                lost += 1;
            }
        }
    }
    println!("{whole} trainings were whole, {apart} ended apart, in {lost} a card was lost");
    // Most calls of the driver are those of NCCL, whose failure is the end.
    let kept = if place == PLACES[4] {
        whole + apart
    } else {
        whole
    };
    assert!(kept > 5 && lost > 5);
}
