//! Failures on demand: any call, once or for ever, and work that fails when it runs.

mod programs;

use cudarc::driver::result;
use fake_cuda::harness::under_driver;
use programs::*;

const NONE: [&str; 0] = [];

fn code(error: result::DriverError) -> u32 {
    error.0 as u32
}

#[test]
fn the_chosen_call_fails_and_no_other() {
    let Some(control) = under_driver(&[("FAKE_CUDA_FAULT", "cuMemAlloc_v2:3:2")]) else { return };
    device(0);
    // SAFETY: a context is current.
    let allocated: Vec<_> = (0..5).map(|_| unsafe { result::malloc_sync(8) }).collect();
    for (index, outcome) in allocated.iter().enumerate() {
        assert_eq!(outcome.err().map(code), (index == 2).then_some(2), "{index}");
    }
    assert_eq!((control.injected(), control.calls("cuMemAlloc_v2")), (1, 5));
    assert_eq!(control.live("memory"), 4);
    control.fault("");
    assert_eq!((control.injected(), control.calls("*")), (0, 0));
    control.fault("cuStreamCreate:0:1,cuMemGetInfo_v2:2:999");
    assert_eq!(result::stream::create(result::stream::StreamKind::Default).map_err(code), Err(1));
    assert_eq!(result::stream::create(result::stream::StreamKind::Default).map_err(code), Err(1));
    result::mem_get_info().unwrap();
    assert_eq!(result::mem_get_info().map_err(code), Err(999));
    result::mem_get_info().unwrap();
    assert_eq!(control.calls("*"), 5);
    assert_eq!(control.reports(), NONE);
}

#[test]
fn a_program_meets_every_failure_in_turn() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let program = || -> Result<Vec<u8>, result::DriverError> {
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
        // SAFETY: the memory is freed below, the copies wait or lie in the stream.
        let back = unsafe {
            result::malloc_sync(16).and_then(|at| {
                let mut back = vec![0u8; 16];
                let worked = result::memset_d8_async(at, 3, 16, stream)
                    .and_then(|()| result::memcpy_dtoh_async(&mut back, at, stream))
                    .and_then(|()| result::stream::synchronize(stream));
                let waited = result::stream::synchronize(stream);
                let freed = result::free_sync(at);
                worked.and(waited).and(freed).map(|()| back)
            })
        };
        // SAFETY: the stream is used no more.
        let destroyed = unsafe { result::stream::destroy(stream) };
        back.and_then(|back| destroyed.map(|()| back))
    };
    control.fault("");
    assert_eq!(program().unwrap(), [3; 16]);
    let calls = control.calls("*");
    for failing in [2u32, 1, 999] {
        for number in 1..=calls {
            control.fault(&format!("*:{number}:{failing}"));
            assert_eq!(program().map_err(code), Err(failing), "call {number}");
            assert_eq!(control.injected(), 1);
        }
    }
    println!("calls that failed in turn: {calls}, with 3 codes each");
}

#[test]
fn a_lost_device_stays_lost() {
    let settings = [("FAKE_CUDA_DEVICES", "2")];
    let Some(control) = under_driver(&settings) else { return };
    device(1);
    let there = allocate(8);
    device(0);
    for failing in [700, 719, 716, 710, 214, 46, 702] {
        control.fault(&format!("cuMemsetD8Async:2:{failing}"));
        let (one, x) = (stream(), allocate(8));
        fill(x, 1, 8, one).unwrap();
        assert_eq!(fill(x, 1, 8, one).map_err(code), Err(failing));
        assert_eq!(synchronize(one).map_err(code), Err(failing));
        assert_eq!(result::mem_get_info().map_err(code), Err(failing));
        assert_eq!(free(x).map_err(code), Err(failing));
        // The other device goes on.
        device(1);
        fill(there, 1, 8, DEFAULT_STREAM).unwrap();
        result::ctx::synchronize().unwrap();
        // SAFETY: the context is alive.
        unsafe { result::ctx::set_current(result::primary_ctx::retain(0).unwrap()) }.unwrap();
        assert_eq!(result::ctx::synchronize().map_err(code), Err(failing));
        control.mend();
        clean(&[x], &[one], &[]);
    }
    // Any code breaks the context where that is asked for.
    control.fault("cuMemGetInfo_v2:1:999:sticky");
    assert_eq!(result::mem_get_info().map_err(code), Err(999));
    assert_eq!(result::ctx::synchronize().map_err(code), Err(999));
    assert_eq!(control.reports(), NONE);
}

#[test]
fn work_that_fails_later_is_told_by_a_later_call() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    for seed in 0..50 {
        control.seed(seed);
        let (one, two, x, mark) = (stream(), stream(), allocate(8), event());
        control.fault("operation:3:719");
        // Which call tells of it depends on the order; the last one does.
        let mut told = vec![];
        for _ in 0..5 {
            told.push(fill(x, 1, 8, one).map_err(code));
        }
        // SAFETY: both are alive.
        told.push(unsafe { result::event::record(mark, one) }.map_err(code));
        let last = synchronize(one).map_err(code);
        assert_eq!(last, Err(719));
        assert!(told.iter().all(|outcome| matches!(outcome, Ok(()) | Err(719))));
        assert!(told.iter().skip_while(|outcome| outcome.is_ok()).all(|outcome| outcome.is_err()));
        // SAFETY: the event is alive.
        let waited = unsafe { result::event::synchronize(mark) };
        assert_eq!(waited.map_err(code), Err(719));
        assert_eq!(synchronize(two).map_err(code), Err(719));
        control.fault("");
        control.mend();
        clean(&[x], &[one, two], &[mark]);
    }
    assert_eq!(control.reports(), NONE);
}

#[test]
fn a_text_that_is_no_fault_ends_the_process() {
    let program = std::env::current_exe().unwrap();
    let status = fake_cuda::harness::command(program)
        .args(["the_chosen_call_fails_and_no_other", "--exact"])
        .env("FAKE_CUDA_INSIDE", "1")
        .env("FAKE_CUDA_FAULT", "cuInit")
        .output()
        .unwrap();
    assert!(!status.status.success());
    assert!(String::from_utf8_lossy(&status.stderr).contains("FUNCTION:NUMBER:CODE"));
}
