//! Each kind of mistake is found in every order of the work, and the same program without it is
//! never blamed.

mod programs;

use cudarc::driver::{result, sys};
use fake_cuda::Control;
use fake_cuda::harness::under_driver;
use programs::Parameter::{At, Single, Word};
use programs::*;

const SEEDS: u64 = 200;
const SAMPLES: &str = include_str!("kernels/samples.ptx");

/// Runs a program that takes whether it makes its mistake, and prints how often it was found.
fn compare(control: &Control, name: &str, kinds: &[&str], mut program: impl FnMut(bool)) {
    let right = found(control, SEEDS, &[], || program(false));
    let wrong = found(control, SEEDS, kinds, || program(true));
    println!("{name}: found in {wrong} of {SEEDS} orders, false alarms {right}");
    assert_eq!((right, wrong), (0, SEEDS), "{name}");
}

fn quiet(settings: &[(&str, &str)]) -> Option<Control> {
    let mut all = vec![("FAKE_CUDA_QUIET", "1")];
    all.extend_from_slice(settings);
    let control = under_driver(&all)?;
    device(0);
    Some(control)
}

#[test]
fn an_event_left_out() {
    let Some(control) = quiet(&[]) else { return };
    let module = Module::new(SAMPLES);
    let axpy = module.function("axpy");
    let values = [1.5f32; 100];
    compare(&control, "an event left out before a kernel", &["race", "uninitialised"], |mistake| {
        let (one, two, ready) = (stream(), stream(), event());
        let (x, y) = (allocate(400), allocate(400));
        upload(x, &values, one).unwrap();
        upload(y, &values, one).unwrap();
        record(ready, one);
        if !mistake {
            wait(two, ready);
        }
        let parameters = [At(x), At(y), Single(2.0), Word(100)];
        launch(axpy, (4, 32), two, &parameters).unwrap();
        clean(&[x, y], &[one, two], &[ready]);
    });
    // Uploads may run after the kernel here: then it reads what nothing wrote.
    compare(&control, "an event recorded too early", &["race", "uninitialised"], |mistake| {
        let (one, two, ready) = (stream(), stream(), event());
        let (x, y) = (allocate(400), allocate(400));
        upload(x, &values, one).unwrap();
        if mistake {
            record(ready, one);
        }
        upload(y, &values, one).unwrap();
        if !mistake {
            record(ready, one);
        }
        wait(two, ready);
        let parameters = [At(x), At(y), Single(2.0), Word(100)];
        launch(axpy, (4, 32), two, &parameters).unwrap();
        clean(&[x, y], &[one, two], &[ready]);
    });
    compare(&control, "overwriting what is still read", &["race"], |mistake| {
        let (one, two, over) = (stream(), stream(), event());
        let (x, y) = (allocate(400), allocate(400));
        fill(x, 1, 400, one).unwrap();
        fill(y, 1, 400, one).unwrap();
        synchronize(one).unwrap();
        launch(axpy, (1, 64), one, &[At(x), At(y), Single(0.5), Word(100)]).unwrap();
        record(over, one);
        if !mistake {
            wait(two, over);
        }
        upload(x, &values, two).unwrap();
        clean(&[x, y], &[one, two], &[over]);
    });
}

#[test]
fn the_default_stream_misunderstood() {
    let Some(control) = quiet(&[]) else { return };
    let kinds = ["race", "uninitialised"];
    compare(&control, "a stream that does not wait for the default one", &kinds, |mistake| {
        let kind = if mistake {
            result::stream::StreamKind::NonBlocking
        } else {
            result::stream::StreamKind::Default
        };
        let own = result::stream::create(kind).unwrap();
        let (x, y) = (allocate(64), allocate(64));
        fill(x, 3, 64, DEFAULT_STREAM).unwrap();
        copy(y, x, 64, own).unwrap();
        fill(x, 4, 64, DEFAULT_STREAM).unwrap();
        assert!(mistake || download::<u8>(y, 64, own).unwrap() == [3; 64]);
        clean(&[x, y], &[own], &[]);
    });
    compare(&control, "a copy that has not arrived when the call returns", &kinds, |mistake| {
        let own = stream();
        let (x, y) = (allocate(64), allocate(64));
        // SAFETY: the source is read before the call returns.
        unsafe { result::memcpy_htod_sync(x, &[7u8; 64]) }.unwrap();
        if !mistake {
            synchronize(DEFAULT_STREAM).unwrap();
        }
        copy(y, x, 64, own).unwrap();
        clean(&[x, y], &[own], &[]);
    });
}

#[test]
fn memory_freed_too_early() {
    let Some(control) = quiet(&[]) else { return };
    let allocate_on = |stream| {
        // SAFETY: the stream is alive.
        unsafe { result::malloc_async(stream, 256) }.unwrap()
    };
    compare(&control, "a free on another stream", &["race", "use after free"], |mistake| {
        let (one, two, over) = (stream(), stream(), event());
        let (x, y) = (allocate_on(one), allocate(256));
        fill(x, 1, 256, one).unwrap();
        copy(y, x, 256, one).unwrap();
        record(over, one);
        if !mistake {
            wait(two, over);
        }
        free_async(x, two).unwrap();
        // What comes after the free breaks the context.
        assert!(mistake || result::ctx::synchronize().is_ok());
        let _ = result::ctx::synchronize();
        control.mend();
        clean(&[y], &[one, two], &[over]);
    });
    compare(&control, "memory used before it is there", &["race"], |mistake| {
        let (one, two, ready) = (stream(), stream(), event());
        let x = allocate_on(one);
        record(ready, one);
        if !mistake {
            wait(two, ready);
        }
        fill(x, 1, 256, two).unwrap();
        synchronize(two).unwrap();
        free_async(x, one).unwrap();
        clean(&[], &[one, two], &[ready]);
    });
    let kinds = ["use after free"];
    compare(&control, "a free of what the host has not waited for", &kinds, |mistake| {
        let (one, x, y) = (stream(), allocate(256), allocate(256));
        fill(x, 1, 256, one).unwrap();
        copy(y, x, 256, one).unwrap();
        if !mistake {
            synchronize(one).unwrap();
        }
        free(x).unwrap();
        // Work that comes after the free breaks the context.
        assert!(mistake || result::ctx::synchronize().is_ok());
        let _ = result::ctx::synchronize();
        control.mend();
        clean(&[y], &[one], &[]);
    });
    compare(&control, "a free of page-locked memory in use", &kinds, |mistake| {
        let (one, x) = (stream(), allocate(256));
        let mut source = Pinned::new(256);
        source.bytes().fill(1);
        source.upload(x, one);
        if !mistake {
            synchronize(one).unwrap();
        }
        source.free();
        let _ = result::ctx::synchronize();
        control.mend();
        clean(&[x], &[one], &[]);
    });
    compare(&control, "memory freed twice", &["misuse", "use after free"], |mistake| {
        let (one, x) = (stream(), allocate(256));
        free_async(x, one).unwrap();
        if mistake {
            let _ = free_async(x, one);
        }
        let _ = result::ctx::synchronize();
        control.mend();
        clean(&[], &[one], &[]);
    });
}

#[test]
fn page_locked_memory_changed_too_early() {
    let Some(control) = quiet(&[]) else { return };
    let kinds = ["pinned memory changed"];
    compare(&control, "a page-locked source changed too early", &kinds, |mistake| {
        let (one, x, done) = (stream(), allocate(64), event());
        let mut source = Pinned::new(64);
        for round in 0..3u8 {
            source.bytes().fill(round);
            source.upload(x, one);
            record(done, one);
            if !mistake {
                // SAFETY: the event is alive.
                unsafe { result::event::synchronize(done) }.unwrap();
            }
        }
        synchronize(one).unwrap();
        source.free();
        clean(&[x], &[one], &[done]);
    });
    compare(&control, "a page-locked target written too early", &kinds, |mistake| {
        let (one, x) = (stream(), allocate(64));
        let mut target = Pinned::new(64);
        target.bytes().fill(7);
        fill(x, 1, 64, one).unwrap();
        target.download(x, one);
        if !mistake {
            synchronize(one).unwrap();
            assert_eq!(target.bytes(), [1; 64]);
        }
        target.bytes()[63] = 5;
        synchronize(one).unwrap();
        target.free();
        clean(&[x], &[one], &[]);
    });
    // A function of the program may fill it, in its place in the stream.
    unsafe extern "C" fn refill(at: *mut std::ffi::c_void) {
        // SAFETY: the memory lives until the stream is synchronised.
        unsafe { std::ptr::write_bytes(at.cast::<u8>(), 9, 64) };
    }
    let none = found(&control, SEEDS, &[], || {
        let (one, x) = (stream(), allocate(64));
        let mut source = Pinned::new(64);
        source.bytes().fill(1);
        source.upload(x, one);
        // SAFETY: the memory lives until the stream is synchronised.
        unsafe { result::stream::launch_host_function(one, refill, source.address()) }.unwrap();
        source.upload(x, one);
        assert_eq!(download::<u8>(x, 64, one).unwrap(), [9; 64]);
        // What a device wrote there may be read again.
        fill(x, 5, 64, one).unwrap();
        source.download(x, one);
        source.upload(x, one);
        assert_eq!(download::<u8>(x, 64, one).unwrap(), [5; 64]);
        source.free();
        clean(&[x], &[one], &[]);
    });
    assert_eq!(none, 0);
    // Pageable memory is read when the call is made.
    let none = found(&control, SEEDS, &[], || {
        let (one, x) = (stream(), allocate(64));
        let mut source = vec![1u8; 64];
        upload(x, &source, one).unwrap();
        source.fill(2);
        assert_eq!(download::<u8>(x, 64, one).unwrap(), [1; 64]);
        clean(&[x], &[one], &[]);
    });
    assert_eq!(none, 0);
}

#[test]
fn wrong_addresses() {
    let Some(control) = quiet(&[]) else { return };
    compare(&control, "a copy with a wrong offset", &["out of bounds"], |mistake| {
        let (one, x, y) = (stream(), allocate(100), allocate(100));
        fill(x, 1, 100, one).unwrap();
        let offset = if mistake { 52 } else { 50 };
        assert_eq!(copy(y + offset, x, 50, one).is_err(), mistake);
        clean(&[x, y], &[one], &[]);
    });
    compare(&control, "parts of one allocation that overlap", &["race"], |mistake| {
        let (one, two, x) = (stream(), stream(), allocate(100));
        let second = if mistake { 49 } else { 50 };
        fill(x, 1, 50, one).unwrap();
        fill(x + second, 2, 50, two).unwrap();
        clean(&[x], &[one, two], &[]);
    });
    compare(&control, "a copy whose sides are exchanged", &["misuse"], |mistake| {
        let (one, x) = (stream(), allocate(64));
        let mut host = [0u8; 64];
        fill(x, 1, 64, one).unwrap();
        let (to, from) = (host.as_mut_ptr().cast(), x);
        // SAFETY: the driver must find out which is which.
        let code = unsafe {
            if mistake {
                sys::cuMemcpyHtoDAsync_v2(to as u64, from as *const _, 64, one)
            } else {
                sys::cuMemcpyDtoHAsync_v2(to, from, 64, one)
            }
        };
        assert_eq!(code.result().is_err(), mistake);
        clean(&[x], &[one], &[]);
    });
    compare(&control, "a download of what nothing wrote", &["uninitialised"], |mistake| {
        let (one, x, y) = (stream(), allocate(64), allocate(64));
        fill(x, 1, if mistake { 63 } else { 64 }, one).unwrap();
        // The copy itself may carry padding along.
        copy(y, x, 64, one).unwrap();
        download::<u8>(y, 64, one).unwrap();
        clean(&[x, y], &[one], &[]);
    });
}

#[test]
fn handles_of_the_wrong_kind() {
    let Some(control) = quiet(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    compare(&control, "an event given as a stream", &["misuse"], |mistake| {
        let (one, mark) = (stream(), event());
        let given = if mistake { mark.cast() } else { one };
        assert_eq!(synchronize(given).is_err(), mistake);
        clean(&[], &[one], &[mark]);
    });
    compare(&control, "a stream used after its end", &["misuse"], |mistake| {
        let (one, two, x) = (stream(), stream(), allocate(8));
        clean(&[], &[one], &[]);
        assert_eq!(fill(x, 0, 8, if mistake { one } else { two }).is_err(), mistake);
        clean(&[x], &[two], &[]);
    });
    compare(&control, "an event recorded on another device's stream", &["misuse"], |mistake| {
        let mark = event();
        device(i32::from(mistake));
        let one = stream();
        // SAFETY: whether this is right is for the driver to find out.
        let recorded = unsafe { result::event::record(mark, one) };
        assert_eq!(recorded.is_err(), mistake);
        clean(&[], &[one], &[]);
        device(0);
        clean(&[], &[], &[mark]);
    });
    let kinds = ["misuse", "out of bounds"];
    compare(&control, "a pool that gives other devices no access", &kinds, |mistake| {
        let (one, x) = (stream(), allocate(64));
        fill(x, 1, 64, one).unwrap();
        synchronize(one).unwrap();
        device(1);
        let two = stream();
        // SAFETY: the stream is alive.
        let there = unsafe { result::malloc_async(two, 64) }.unwrap();
        synchronize(two).unwrap();
        let mut pool = std::ptr::null_mut();
        // SAFETY: there is room for the pool.
        unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, 1) }.result().unwrap();
        let (none, all) = (
            sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_NONE,
            sys::CUmemAccess_flags_enum::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        );
        let kind = sys::CUmemLocationType_enum::CU_MEM_LOCATION_TYPE_DEVICE;
        let access = sys::CUmemAccessDesc {
            location: sys::CUmemLocation { type_: kind, id: 0 },
            flags: if mistake { none } else { all },
        };
        // SAFETY: the pool is alive and one access is given.
        unsafe { sys::cuMemPoolSetAccess(pool, &raw const access, 1) }.result().unwrap();
        fill(there, 2, 64, two).unwrap();
        synchronize(two).unwrap();
        device(0);
        // The pool of device 0 is not involved: its side is plain memory.
        assert_eq!(copy(x, there, 64, one).is_err(), mistake);
        synchronize(one).unwrap();
        free_async(there, one).unwrap();
        clean(&[x], &[one], &[]);
        device(1);
        clean(&[], &[two], &[]);
        device(0);
    });
    let second = device(1);
    let there = allocate(64);
    let first = device(0);
    compare(&control, "a peer copy with the contexts exchanged", &["misuse"], |mistake| {
        let (one, x) = (stream(), allocate(64));
        fill(x, 1, 64, one).unwrap();
        let (to, from) = if mistake { (first, second) } else { (second, first) };
        // SAFETY: whether this is right is for the driver to find out.
        let code = unsafe { sys::cuMemcpyPeerAsync(there, to, x, from, 64, one) };
        assert_eq!(code.result().is_err(), mistake);
        clean(&[x], &[one], &[]);
    });
}
