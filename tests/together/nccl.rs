//! Ranks that move memory of GPUs over NCCL, the tests' own one on the tests' driver: what goes
//! where, and that a failure on one rank is a failure on all. What `on_gpus` tests is tested over
//! it, too.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use fake_cuda::Control as Driver;
use fake_cuda::harness::under_driver;
use fake_nccl::Control;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo::{
    UMBO_HANDLE_COMMUNICATOR, UMBO_OK, UMBO_STATUS_NOT_FOUND, umbo_communicator_create,
    umbo_communicator_create_nccl, umbo_communicator_functions, umbo_communicator_vote,
    umbo_release, umbo_status,
};
use umbo_core::cluster::checked::CheckedCommunicator;
use umbo_core::cluster::communicator::{Communicator, EngineCall, Incoming, Outgoing};
use umbo_core::cluster::nccl::{self, NcclOptions};
use umbo_core::device::memory::DeviceMemory;
use umbo_core::device::{DeviceId, DeviceKind, registry};
use umbo_core::error::{Error, Result, Status};

use super::engine::{Rank, down, ranks, up};
use super::on_gpus::QUIET;

/// In a process with the tests' driver and NCCL, both of them.
fn under_both(settings: &[(&str, &str)]) -> Option<(Driver, Control)> {
    let library = fake_nccl::library();
    let mut all = settings.to_vec();
    all.push((nccl::VARIABLE, library.to_str().unwrap()));
    under_driver(&all).map(|driver| (driver, Control::open()))
}

fn gpu(index: usize) -> DeviceId {
    DeviceId {
        kind: DeviceKind::Gpu,
        index: index as u32,
    }
}

/// Nothing that goes right waits as long.
fn patient() -> NcclOptions {
    NcclOptions {
        timeout: Some(Duration::from_secs(60)),
        library: None,
    }
}

/// Calls `body` for each rank of a job, on a thread of its own.
fn on_each<R: Send>(size: usize, body: impl Fn(usize, Arc<Rank>) -> R + Sync) -> Vec<R> {
    let job = ranks(size);
    let body = &body;
    std::thread::scope(|scope| {
        let start = |rank: Arc<Rank>| scope.spawn(move || body(rank.rank(), rank));
        let threads: Vec<_> = job.into_iter().map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn over(base: &Arc<Rank>, device: DeviceId, options: &NcclOptions) -> Result<CheckedCommunicator> {
    nccl::over(
        Arc::clone(base) as Arc<dyn Communicator>,
        Ok(device),
        options,
    )
}

/// What rank `from` sends to rank `to`, as both know; often nothing.
fn part(seed: u64, from: usize, to: usize) -> Vec<u8> {
    let number = seed * 10_000 + from as u64 * 100 + to as u64;
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let length = if random.random_bool(0.3) {
        0
    } else {
        random.random_range(1..3000)
    };
    (0..length).map(|_| random.random()).collect()
}

/// Memory of a GPU with these bytes at its beginning.
fn memory(device: DeviceId, bytes: &[u8]) -> Result<DeviceMemory> {
    let memory = DeviceMemory::new(registry::gpu(device)?, bytes.len().max(1))?;
    up(&memory, bytes)?;
    Ok(memory)
}

/// Both exchanges once, with what comes of them compared.
fn exchange(communicator: &CheckedCommunicator, device: DeviceId, seed: u64) -> Result<()> {
    let rank = communicator.rank();
    let size = communicator.size();
    let lengths = |parts: &[Vec<u8>]| parts.iter().map(Vec::len).collect::<Vec<usize>>();
    let sent: Vec<Vec<u8>> = (0..size).map(|to| part(seed, rank, to)).collect();
    let due: Vec<Vec<u8>> = (0..size).map(|from| part(seed, from, rank)).collect();
    let send = memory(device, &sent.concat())?;
    let mut receive = memory(device, &vec![0xee; due.concat().len()])?;
    communicator.call(EngineCall::AllToAll {
        send: Outgoing::Device(&send),
        send_counts: &lengths(&sent),
        receive: Incoming::Device(&mut receive),
        receive_counts: &lengths(&due),
    })?;
    assert!(down(&receive, due.concat().len())? == due.concat());

    let due: Vec<Vec<u8>> = (0..size).map(|from| part(seed, from, 50)).collect();
    let send = memory(device, &due[rank])?;
    let mut receive = memory(device, &vec![0xee; due.concat().len()])?;
    communicator.call(EngineCall::AllGather {
        send: Outgoing::Device(&send),
        receive: Incoming::Device(&mut receive),
        counts: &lengths(&due),
    })?;
    assert!(down(&receive, due.concat().len())? == due.concat());
    Ok(())
}

#[test]
fn bytes_go_between_gpus_in_any_order_of_work() {
    let Some((driver, control)) = under_both(&[("FAKE_CUDA_DEVICES", "5")]) else {
        return;
    };
    for size in 1..=5 {
        for seed in 0..10 {
            driver.seed(seed);
            on_each(size, |rank, base| {
                let communicator = over(&base, gpu(rank), &patient()).unwrap();
                for round in 0..3 {
                    exchange(&communicator, gpu(rank), seed * 3 + round).unwrap();
                }
                // What is the host's goes over the other communicator.
                let vote = communicator.vote(rank as i64).unwrap();
                assert_eq!((vote.least, vote.greatest), (0, size as i64 - 1));
            });
        }
    }
    assert_eq!(control.count("live"), 0);
    assert!(control.count("ncclSend") > 500);
    assert_eq!(control.take_reports(), [] as [&str; 0]);
    assert_eq!(driver.take_reports(), [] as [&str; 0]);
}

/// Where a rank has come to.
#[derive(Debug)]
enum Came {
    Through,
    /// It has no communicator.
    Out(Error),
    /// An exchange has failed.
    Stopped(Error),
}

/// Three ranks join and exchange. Whatever fails, it fails on all at the same place, which is said
/// by name, and nothing can be used afterwards that must not be.
///
/// `amid` becomes of what the tests' NCCL does once all have joined.
fn trial(options: &NcclOptions, control: &Control, amid: Option<&str>) -> Vec<Came> {
    let ends = on_each(3, |rank, base| {
        let communicator = match over(&base, gpu(rank), options) {
            Ok(communicator) => communicator,
            Err(error) => {
                // The ranks are still joined as they were.
                base.barrier().unwrap();
                return Came::Out(error);
            }
        };
        if let Some(fault) = amid {
            base.barrier().unwrap();
            if rank == 0 {
                control.fault(fault);
            }
            base.barrier().unwrap();
        }
        for seed in 0..2 {
            if let Err(error) = exchange(&communicator, gpu(rank), seed) {
                let later = communicator.barrier().unwrap_err();
                assert_eq!(later.status(), Status::Unavailable, "{later}");
                return Came::Stopped(error);
            }
        }
        Came::Through
    });
    let errors: Vec<String> = ends
        .iter()
        .filter_map(|end| match end {
            Came::Through => None,
            Came::Out(error) | Came::Stopped(error) => Some(error.to_string()),
        })
        .collect();
    assert!(errors.is_empty() || errors.len() == ends.len(), "{ends:?}");
    let alike = |end: &Came| std::mem::discriminant(end) == std::mem::discriminant(&ends[0]);
    assert!(ends.iter().all(alike), "{ends:?}");
    assert!(
        errors.iter().all(|error| error.contains("rank ")),
        "{errors:?}"
    );
    ends
}

#[test]
fn what_fails_on_one_rank_fails_on_all() {
    let settings = [("FAKE_CUDA_DEVICES", "3"), QUIET[1]];
    let Some((driver, control)) = under_both(&settings) else {
        return;
    };
    let is_through = |end: &Came| matches!(end, Came::Through);
    control.fault("");
    assert!(trial(&patient(), &control, None).iter().all(is_through));
    let calls = control.count("*");
    assert!(calls > 40, "{calls}");
    let mut failed = 0;
    let mut trials = 0;
    let mut try_with = |before: &str, amid: Option<&str>| {
        control.fault(before);
        let ends = trial(&patient(), &control, amid);
        trials += 1;
        failed += usize::from(!is_through(&ends[0]));
        assert_eq!(control.count("live"), 0, "{before} {amid:?}");
        assert_eq!(control.take_reports(), [] as [&str; 0], "{before} {amid:?}");
    };
    for code in [1, 3, 5] {
        (1..=calls).for_each(|number| try_with(&format!("*:{number}:{code}"), None));
    }
    // How often a communicator is asked for its state depends on who comes first.
    for (name, code) in ["state", "ncclCommGetAsyncError"]
        .into_iter()
        .flat_map(|name| [(name, 1), (name, 6)])
    {
        for number in 1..10 {
            let fault = format!("{name}:{number}:{code}");
            try_with(&fault, None);
            try_with("", Some(&fault));
        }
    }
    println!("{trials} trials, of which {failed} failed");
    // All but the ends of communicators, whose failure nobody hears of.
    assert!(failed * 10 > trials * 7);
    control.fault("");
    assert!(trial(&patient(), &control, None).iter().all(is_through));
    assert_eq!(driver.take_reports(), [] as [&str; 0]);
}

#[test]
fn who_waits_in_vain_gives_up_on_all_ranks() {
    let settings = [("FAKE_CUDA_DEVICES", "3"), QUIET[1]];
    let Some((driver, control)) = under_both(&settings) else {
        return;
    };
    let hasty = NcclOptions {
        timeout: Some(Duration::from_millis(300)),
        library: None,
    };
    for fault in [
        "absent:2:0,silent:0:0",
        "stuck:3:0,silent:0:0",
        "absent:7:0",
        "stuck:1:0",
    ] {
        control.fault(fault);
        let ends = trial(&hasty, &control, None);
        for end in &ends {
            let Came::Stopped(error) = end else {
                panic!("{fault}: {ends:?}")
            };
            let known = [Status::DeadlineExceeded, Status::Unavailable];
            assert!(known.contains(&error.status()), "{fault}: {ends:?}");
        }
        let waited = |end: &Came| match end {
            Came::Stopped(error) => error.status() == Status::DeadlineExceeded,
            _ => false,
        };
        assert!(ends.iter().any(waited), "{fault}: {ends:?}");
        assert_eq!(control.count("live"), 0, "{fault}");
        assert_eq!(control.take_reports(), [] as [&str; 0], "{fault}");
    }
    // A rank whose state never comes to an end while the ranks join.
    control.fault("state:0:7");
    let ends = trial(&hasty, &control, None);
    let waited =
        |end: &Came| matches!(end, Came::Out(error) if error.status() == Status::DeadlineExceeded);
    assert!(ends.iter().all(waited), "{ends:?}");
    assert_eq!(driver.take_reports(), [] as [&str; 0]);
}

/// The texts of what two ranks are refused with, whose base is still of use.
fn refused(options_of: impl Fn(usize) -> (Result<DeviceId>, NcclOptions) + Sync) -> Vec<Error> {
    on_each(2, |rank, base| {
        let (device, options) = options_of(rank);
        let joined = nccl::over(Arc::clone(&base) as Arc<dyn Communicator>, device, &options);
        let error = joined.unwrap_err();
        base.barrier().unwrap();
        error
    })
}

#[test]
fn a_rank_that_cannot_join_is_named_to_the_others() {
    let settings = [("FAKE_CUDA_DEVICES", "2"), QUIET[1]];
    let Some((_driver, control)) = under_both(&settings) else {
        return;
    };
    let with = |library: &str| NcclOptions {
        library: Some(library.into()),
        ..patient()
    };
    for missing in ["/nowhere/libnccl.so.2", "libc.so.6"] {
        let options_of = |rank| {
            (
                Ok(gpu(rank)),
                if rank == 1 { with(missing) } else { patient() },
            )
        };
        let errors = refused(options_of);
        let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
        assert!(
            errors
                .iter()
                .all(|error| error.status() == Status::Unavailable),
            "{texts:?}"
        );
        assert!(
            texts[0].starts_with("rank 1 failed: UNAVAILABLE: "),
            "{texts:?}"
        );
        assert!(texts.iter().all(|text| text.contains(missing)), "{texts:?}");
        assert!(
            texts.iter().all(|text| text.contains("NCCL 2.14 or newer")),
            "{texts:?}"
        );
    }
    let text = refused(|rank| (Ok(gpu(rank)), with("/nowhere/libnccl.so.2")))[1].to_string();
    assert!(
        text.contains(nccl::VARIABLE) && text.contains("LD_LIBRARY_PATH"),
        "{text}"
    );

    let errors = refused(|_| (Ok(gpu(0)), patient()));
    assert!(
        errors
            .iter()
            .all(|error| error.to_string().contains("two ranks on one card")),
        "{errors:?}"
    );

    let errors = refused(|rank| (Ok([DeviceId::HOST, gpu(1)][rank]), patient()));
    assert!(
        errors
            .iter()
            .all(|error| error.status() == Status::InvalidArgument),
        "{errors:?}"
    );
    assert!(
        errors
            .iter()
            .all(|error| error.to_string().contains("device")),
        "{errors:?}"
    );

    let named = |rank: usize| registry::REGISTRY.resolve(&format!("GPU:{}", rank * 7), "device");
    let errors = refused(|rank| (named(rank), patient()));
    assert!(
        errors[0]
            .to_string()
            .starts_with("rank 1 failed: NOT_FOUND"),
        "{errors:?}"
    );
    assert!(
        errors
            .iter()
            .all(|error| error.to_string().contains("GPU:7")),
        "{errors:?}"
    );
    assert_eq!(control.count("live"), 0);
    assert_eq!(control.take_reports(), [] as [&str; 0]);
}

#[test]
fn memory_of_another_card_is_refused_on_all_ranks() {
    let settings = [("FAKE_CUDA_DEVICES", "3"), QUIET[1]];
    let Some((driver, control)) = under_both(&settings) else {
        return;
    };
    let errors = on_each(2, |rank, base| {
        let communicator = over(&base, gpu(rank), &patient()).unwrap();
        // Rank 1 has it on card 2.
        exchange(&communicator, gpu(rank * 2), 0).unwrap_err()
    });
    assert!(
        errors[0]
            .to_string()
            .starts_with("rank 1 failed: FAILED_PRECONDITION"),
        "{errors:?}"
    );
    assert_eq!(errors[1].status(), Status::FailedPrecondition);
    assert_eq!(control.count("live"), 0);
    assert_eq!(control.take_reports(), [] as [&str; 0]);
    assert_eq!(driver.take_reports(), [] as [&str; 0]);
}

#[test]
fn sizes_that_ranks_disagree_about_are_a_failure_of_both() {
    let settings = [("FAKE_CUDA_DEVICES", "2"), QUIET[1]];
    let Some((driver, control)) = under_both(&settings) else {
        return;
    };
    let errors = on_each(2, |rank, base| {
        let communicator = over(&base, gpu(rank), &patient()).unwrap();
        let send = memory(gpu(rank), &[1; 64]).unwrap();
        let mut receive = memory(gpu(rank), &[2; 64]).unwrap();
        // Rank 0 sends 8 bytes, and rank 1 is told of 16.
        let counts = [[16, 8], [16, 16]][rank];
        let call = EngineCall::AllToAll {
            send: Outgoing::Device(&send),
            send_counts: &counts,
            receive: Incoming::Device(&mut receive),
            receive_counts: &[16, 16],
        };
        communicator.call(call).unwrap_err()
    });
    let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
    assert!(
        texts.iter().all(|text| text.contains("rank 1")),
        "{texts:?}"
    );
    let reports = control.take_reports();
    assert_eq!(reports, ["rank 0 sends 8 bytes where rank 1 receives 16"]);
    assert_eq!(control.count("live"), 0);
    assert_eq!(driver.take_reports(), [] as [&str; 0]);
}

/// What a rank alone sends.
unsafe extern "C-unwind" fn alone(
    bytes: *const usize,
    send: *const c_void,
    _: *mut c_void,
    receive: *mut c_void,
) -> umbo_status {
    // SAFETY: there is one rank, and both sides have as many bytes as it says.
    unsafe { receive.cast::<u8>().copy_from(send.cast(), *bytes) };
    UMBO_OK
}

unsafe extern "C-unwind" fn alone_to_itself(
    bytes: *const usize,
    send: *const c_void,
    _: *const usize,
    user_data: *mut c_void,
    receive: *mut c_void,
) -> umbo_status {
    // SAFETY: as above.
    unsafe { alone(bytes, send, user_data, receive) }
}

#[test]
fn the_c_function_joins_the_ranks_of_any_communicator() {
    let settings = [("FAKE_CUDA_DEVICES", "2"), QUIET[1]];
    let Some((driver, control)) = under_both(&settings) else {
        return;
    };
    let functions = umbo_communicator_functions {
        all_to_all: Some(alone_to_itself),
        all_gather: Some(alone),
        ..Default::default()
    };
    let mut base = ptr::null_mut();
    let mut made = ptr::null_mut();
    let none = ptr::null();
    // SAFETY: names end with a zero, outputs are variables, and handles are live until they are
    // released.
    unsafe {
        let null = ptr::null_mut();
        assert_eq!(
            umbo_communicator_create(&functions, null, None, &mut base),
            UMBO_OK
        );
        let refused = umbo_communicator_create_nccl(base, c"GPU:2".as_ptr(), none, &mut made);
        assert_eq!((refused, made), (UMBO_STATUS_NOT_FOUND, ptr::null_mut()));
        assert_eq!(
            umbo_communicator_create_nccl(base, c"GPU:1".as_ptr(), none, &mut made),
            UMBO_OK
        );
        // The new one keeps the other.
        umbo_release(base.cast(), UMBO_HANDLE_COMMUNICATOR);
        assert_eq!(control.count("live"), 1);
        let mut least = 0;
        let mut greatest = 0;
        assert_eq!(
            umbo_communicator_vote(made, 7, &mut least, &mut greatest),
            UMBO_OK
        );
        assert_eq!((least, greatest), (7, 7));
        umbo_release(made.cast(), UMBO_HANDLE_COMMUNICATOR);
    }
    assert_eq!(control.count("live"), 0);
    assert_eq!(control.take_reports(), [] as [&str; 0]);
    assert_eq!(driver.take_reports(), [] as [&str; 0]);
}
