//! Each kind of mistake is found in every order of the work, and the same program without it is
//! never blamed.

use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use cudarc::driver::{result, sys};
use fake_cuda::Control;
use fake_cuda::harness::under_driver;

const SEEDS: u64 = 30;
const BYTES: usize = 64;

/// What a program is made of. Everything that it makes goes with it.
struct Program {
    memory: Vec<u64>,
    streams: Vec<sys::CUstream>,
    events: Vec<sys::CUevent>,
    /// Whether it makes its mistake.
    wrong: bool,
}

impl Program {
    fn new(wrong: bool) -> Program {
        Program {
            memory: vec![],
            streams: vec![],
            events: vec![],
            wrong,
        }
    }

    fn stream(&mut self) -> sys::CUstream {
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        self.streams.push(stream);
        stream
    }

    fn event(&mut self) -> sys::CUevent {
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).unwrap();
        self.events.push(event);
        event
    }

    /// Memory of `BYTES` bytes.
    fn memory(&mut self) -> u64 {
        // SAFETY: a context is current.
        let at = unsafe { result::malloc_sync(BYTES) }.unwrap();
        self.memory.push(at);
        at
    }

    /// Lets `later` wait for what is queued on `earlier`. The mistake is to forget it.
    fn order(&mut self, earlier: sys::CUstream, later: sys::CUstream) {
        let event = self.event();
        record(event, earlier);
        if !self.wrong {
            wait(later, event);
        }
    }

    /// Waits for a stream. The mistake is to forget it.
    fn await_stream(&self, stream: sys::CUstream) {
        if !self.wrong {
            synchronize(stream);
        }
    }
}

fn device(ordinal: i32) -> sys::CUcontext {
    result::init().unwrap();
    // SAFETY: the device came from the driver, and its context is alive.
    unsafe {
        let context = result::primary_ctx::retain(result::device::get(ordinal).unwrap()).unwrap();
        result::ctx::set_current(context).unwrap();
        context
    }
}

// In what follows the driver is to find out whether an address or a handle is right.

fn record(event: sys::CUevent, stream: sys::CUstream) -> bool {
    // SAFETY: see above.
    unsafe { result::event::record(event, stream) }.is_ok()
}

fn wait(stream: sys::CUstream, event: sys::CUevent) {
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: see above.
    unsafe { result::stream::wait_event(stream, event, flags) }.unwrap();
}

fn synchronize(stream: sys::CUstream) -> bool {
    // SAFETY: see above.
    unsafe { result::stream::synchronize(stream) }.is_ok()
}

fn fill(at: u64, bytes: usize, stream: sys::CUstream) -> bool {
    // SAFETY: see above.
    unsafe { result::memset_d8_async(at, 7, bytes, stream) }.is_ok()
}

fn copy(to: u64, from: u64, bytes: usize, stream: sys::CUstream) -> bool {
    // SAFETY: see above.
    unsafe { result::memcpy_dtod_async(to, from, bytes, stream) }.is_ok()
}

fn upload(to: u64, from: *const c_void, stream: sys::CUstream) -> bool {
    // SAFETY: see above.
    unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, BYTES, stream) }
        .result()
        .is_ok()
}

fn download(to: *mut c_void, from: u64, stream: sys::CUstream) -> bool {
    // SAFETY: see above.
    unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, BYTES, stream) }
        .result()
        .is_ok()
}

fn free(at: u64) -> bool {
    // SAFETY: see above.
    unsafe { result::free_sync(at) }.is_ok()
}

fn free_async(at: u64, stream: sys::CUstream) -> bool {
    // SAFETY: see above.
    unsafe { result::free_async(at, stream) }.is_ok()
}

fn allocate_async(stream: sys::CUstream) -> u64 {
    // SAFETY: the stream is alive.
    unsafe { result::malloc_async(stream, BYTES) }.unwrap()
}

/// Page-locked memory.
fn pinned() -> *mut u8 {
    // SAFETY: a context is current.
    unsafe { result::malloc_host(BYTES, 0) }.unwrap().cast()
}

fn free_pinned(at: *mut u8) {
    // SAFETY: it is freed once.
    unsafe { result::free_host(at.cast()) }.unwrap();
}

fn kernel(body: &str) -> sys::CUfunction {
    let text = format!(
        ".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry k(\n.param .u64 pat\n)\n{{
        .reg .pred %p<3>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.shared .align 4 .b8 tile[256];
        ld.param.u64 %rd0, [pat];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd1, %r0, 4;
        add.s64 %rd2, %rd0, %rd1;\nmov.u64 %rd3, tile;\nadd.s64 %rd4, %rd3, %rd1;
        {body}\nret;\n}}\n"
    );
    let text = CString::new(text).unwrap();
    // SAFETY: the text ends with a zero.
    unsafe {
        let module = result::module::load_data(text.as_ptr().cast()).unwrap();
        result::module::get_function(module, CString::new("k").unwrap()).unwrap()
    }
}

/// Launches a block of 16 threads.
fn launch(kernel: sys::CUfunction, mut at: u64, stream: sys::CUstream) -> bool {
    let mut parameters = [(&raw mut at).cast()];
    // SAFETY: there is a pointer for each parameter.
    unsafe { result::launch_kernel(kernel, (1, 1, 1), (16, 1, 1), 0, stream, &mut parameters) }
        .is_ok()
}

/// Runs a program with its mistake and without, in many orders; the reports of the mistake are of
/// these kinds.
fn compare(control: &Control, name: &str, kinds: &[&str], body: impl Fn(&mut Program)) {
    for seed in 0..2 * SEEDS {
        let wrong = seed % 2 == 1;
        control.seed(seed / 2);
        let mut program = Program::new(wrong);
        body(&mut program);
        let _ = result::ctx::synchronize();
        control.mend();
        result::ctx::synchronize().unwrap();
        let reports = control.take_reports();
        assert_eq!(
            !reports.is_empty(),
            wrong,
            "{name}, seed {seed}: {reports:?}"
        );
        for report in &reports {
            assert!(
                kinds.iter().any(|kind| report.starts_with(kind)),
                "{name}: {report}"
            );
        }
        program.memory.into_iter().for_each(|at| assert!(free(at)));
        for stream in program.streams {
            // SAFETY: the stream is alive and used no more.
            unsafe { result::stream::destroy(stream) }.unwrap();
        }
        for event in program.events {
            // SAFETY: the event is alive and used no more.
            unsafe { result::event::destroy(event) }.unwrap();
        }
    }
}

fn start(settings: &[(&str, &str)]) -> Option<Control> {
    let control = under_driver(&[&[("FAKE_CUDA_QUIET", "1")], settings].concat())?;
    device(0);
    Some(control)
}

#[test]
fn order_between_streams() {
    let Some(control) = start(&[]) else { return };
    let reading = kernel("ld.global.u32 %r1, [%rd2];");
    // Where the fill comes later, the kernel reads what nothing wrote.
    compare(
        &control,
        "an event left out",
        &["race", "uninitialised"],
        |p| {
            let one = p.stream();
            let two = p.stream();
            let x = p.memory();
            fill(x, BYTES, one);
            p.order(one, two);
            launch(reading, x, two);
        },
    );
    compare(
        &control,
        "an event recorded too early",
        &["race", "uninitialised"],
        |p| {
            let one = p.stream();
            let two = p.stream();
            let ready = p.event();
            let x = p.memory();
            if p.wrong {
                record(ready, one);
            }
            fill(x, BYTES, one);
            if !p.wrong {
                record(ready, one);
            }
            wait(two, ready);
            launch(reading, x, two);
        },
    );
    compare(&control, "overwriting what is still read", &["race"], |p| {
        let one = p.stream();
        let two = p.stream();
        let x = p.memory();
        fill(x, BYTES, one);
        synchronize(one);
        launch(reading, x, one);
        p.order(one, two);
        fill(x, BYTES, two);
    });
    compare(
        &control,
        "a copy without a stream that has not arrived",
        &["race", "uninitialised"],
        |p| {
            let own_stream = p.stream();
            let x = p.memory();
            let y = p.memory();
            fill(x, BYTES, null_mut());
            p.await_stream(null_mut());
            copy(y, x, BYTES, own_stream);
        },
    );
    compare(
        &control,
        "parts of one allocation that overlap",
        &["race"],
        |p| {
            let one = p.stream();
            let two = p.stream();
            let x = p.memory();
            fill(x, 32, one);
            fill(x + if p.wrong { 31 } else { 32 }, 32, two);
        },
    );
}

#[test]
fn memory_freed_too_early() {
    let Some(control) = start(&[]) else { return };
    compare(
        &control,
        "a free on another stream",
        &["race", "use after free"],
        |p| {
            let one = p.stream();
            let two = p.stream();
            let y = p.memory();
            let x = allocate_async(one);
            fill(x, BYTES, one);
            copy(y, x, BYTES, one);
            p.order(one, two);
            free_async(x, two);
        },
    );
    compare(&control, "memory used before it is there", &["race"], |p| {
        let one = p.stream();
        let two = p.stream();
        let x = allocate_async(one);
        p.order(one, two);
        fill(x, BYTES, two);
        synchronize(two);
        free_async(x, one);
    });
    let kinds = ["use after free"];
    compare(
        &control,
        "a free of what the host has not waited for",
        &kinds,
        |p| {
            let one = p.stream();
            let y = p.memory();
            let x = p.memory();
            p.memory.pop();
            fill(x, BYTES, one);
            copy(y, x, BYTES, one);
            p.await_stream(one);
            free(x);
        },
    );
    compare(
        &control,
        "a free of page-locked memory in use",
        &kinds,
        |p| {
            let one = p.stream();
            let x = p.memory();
            let source = pinned();
            upload(x, source.cast(), one);
            p.await_stream(one);
            free_pinned(source);
        },
    );
    compare(
        &control,
        "memory freed twice",
        &["misuse", "use after free"],
        |p| {
            let one = p.stream();
            let x = allocate_async(one);
            free_async(x, one);
            if p.wrong {
                free_async(x, one);
            }
        },
    );
}

#[test]
fn page_locked_memory_changed_too_early() {
    let Some(control) = start(&[]) else { return };
    for downloads in [false, true] {
        compare(
            &control,
            "page-locked memory",
            &["pinned memory changed"],
            |p| {
                let one = p.stream();
                let x = p.memory();
                let host = pinned();
                fill(x, BYTES, one);
                let queued = match downloads {
                    true => download(host.cast(), x, one),
                    false => upload(x, host.cast(), one),
                };
                assert!(queued);
                p.await_stream(one);
                // SAFETY: the memory is there; that a copy uses it is the mistake.
                unsafe { host.add(63).write(5) };
                synchronize(one);
                free_pinned(host);
            },
        );
    }
}

#[test]
fn wrong_addresses_and_handles() {
    let Some(control) = start(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    compare(&control, "a copy past an end", &["out of bounds"], |p| {
        let one = p.stream();
        let x = p.memory();
        let y = p.memory();
        fill(x, BYTES, one);
        assert_ne!(copy(y + if p.wrong { 33 } else { 32 }, x, 32, one), p.wrong);
    });
    compare(
        &control,
        "a copy whose sides are exchanged",
        &["misuse"],
        |p| {
            let one = p.stream();
            let x = p.memory();
            let mut host = [0u8; BYTES];
            fill(x, BYTES, one);
            let at = host.as_mut_ptr().cast::<c_void>();
            let done = if p.wrong {
                upload(at as u64, x as *const _, one)
            } else {
                download(at, x, one)
            };
            assert_ne!(done, p.wrong);
        },
    );
    compare(
        &control,
        "a download of what nothing wrote",
        &["uninitialised"],
        |p| {
            let one = p.stream();
            let x = p.memory();
            let y = p.memory();
            let mut host = [0u8; BYTES];
            fill(x, if p.wrong { 63 } else { 64 }, one);
            // The copy itself may carry padding along.
            copy(y, x, BYTES, one);
            download(host.as_mut_ptr().cast(), y, one);
        },
    );
    compare(&control, "an event given as a stream", &["misuse"], |p| {
        let one = p.stream();
        let mark = p.event();
        assert_ne!(
            synchronize(if p.wrong { mark.cast() } else { one }),
            p.wrong
        );
    });
    compare(&control, "a stream used after its end", &["misuse"], |p| {
        let one = p.stream();
        let two = p.stream();
        let x = p.memory();
        // SAFETY: the stream is alive.
        unsafe { result::stream::destroy(p.streams.pop().unwrap()) }.unwrap();
        assert_ne!(fill(x, BYTES, if p.wrong { two } else { one }), p.wrong);
    });
    let second = device(1);
    // SAFETY: a context is current.
    let there = unsafe { result::malloc_sync(BYTES) }.unwrap();
    let streams = Cell::new(null_mut());
    streams.set(result::stream::create(result::stream::StreamKind::NonBlocking).unwrap());
    let first = device(0);
    compare(
        &control,
        "an event recorded on another device's stream",
        &["misuse"],
        |p| {
            let own_stream = p.stream();
            let mark = p.event();
            assert_ne!(
                record(mark, if p.wrong { streams.get() } else { own_stream }),
                p.wrong
            );
        },
    );
    compare(
        &control,
        "a peer copy with the contexts exchanged",
        &["misuse"],
        |p| {
            let one = p.stream();
            let x = p.memory();
            fill(x, BYTES, one);
            let (to, from) = if p.wrong {
                (first, second)
            } else {
                (second, first)
            };
            // SAFETY: whether this is right is for the driver to find out.
            let code = unsafe { sys::cuMemcpyPeerAsync(there, to, x, from, BYTES, one) };
            assert_ne!(code.result().is_ok(), p.wrong);
        },
    );
    let reading = kernel("ld.global.u32 %r1, [%rd2];");
    compare(
        &control,
        "memory of another device",
        &["out of bounds"],
        |p| {
            let one = p.stream();
            let x = p.memory();
            fill(x, BYTES, one);
            launch(reading, if p.wrong { there } else { x }, one);
        },
    );
}

#[test]
fn threads_of_a_block() {
    let Some(control) = start(&[]) else { return };
    let exchange = |barrier: &str| {
        format!(
            "st.shared.u32 [%rd4], %r0;\n{barrier}\nsub.s32 %r1, 15, %r0;\nmul.wide.u32 %rd5, \
             %r1, 4;
            add.s64 %rd5, %rd3, %rd5;\nld.shared.u32 %r2, [%rd5];\nst.global.u32 [%rd2], %r2;"
        )
    };
    let guarded = "setp.eq.s32 %p0, %r0, 3;\n@%p0 bra $L;\n";
    // A name, the kernel as it is right, as it is wrong, and the reports.
    let cases = [
        (
            "a barrier left out",
            exchange("bar.sync 0;"),
            exchange(""),
            "race in shared",
        ),
        (
            "a barrier that not all reach",
            "bar.sync 0;".into(),
            format!("{guarded}bar.sync 0;\n$L:"),
            "barrier",
        ),
        (
            "threads that write one place",
            "st.global.u32 [%rd2], %r0;".into(),
            "st.global.u32 [%rd0], %r0;".into(),
            "race in a launch",
        ),
        (
            "a store past an end",
            "st.global.u32 [%rd2], %r0;".into(),
            "st.global.u32 [%rd2+4], %r0;".into(),
            "out of bounds",
        ),
        (
            "an address that is no multiple",
            "st.global.u32 [%rd2], %r0;".into(),
            "st.global.u32 [%rd2+2], %r0;".into(),
            "misaligned",
        ),
        (
            "shared memory that nothing wrote",
            "st.shared.u32 [%rd4], %r0;\nld.shared.u32 %r2, [%rd4];".into(),
            "ld.shared.u32 %r2, [%rd4];".into(),
            "uninitialised",
        ),
    ];
    for (name, right, wrong, kind) in cases {
        let kernels = [kernel(&right), kernel(&wrong)];
        compare(&control, name, &[kind, "uninitialised"], |p| {
            let one = p.stream();
            let x = p.memory();
            launch(kernels[usize::from(p.wrong)], x, one);
        });
    }
}

/// Calls fail on demand, and work that fails breaks its device for later calls.
#[test]
fn failures_on_demand() {
    let Some(control) = start(&[]) else { return };
    control.fault("cuMemsetD8Async:2:1");
    let mut p = Program::new(false);
    let one = p.stream();
    let x = p.memory();
    assert_eq!(
        [fill(x, 8, one), fill(x, 8, one), fill(x, 8, one)],
        [true, false, true]
    );
    assert_eq!(
        (control.injected(), control.calls("cuMemsetD8Async")),
        (1, 3)
    );
    control.fault("operation:1:719");
    fill(x, 8, one);
    assert!(!synchronize(one) && !synchronize(one) && !free(x));
    control.mend();
    assert!(synchronize(one) && free(x));
    assert_eq!(control.take_reports(), [] as [&str; 0]);
}
