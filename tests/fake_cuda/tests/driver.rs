//! The driver as cudarc sees it: devices, contexts, memory, streams, events, errors.

mod programs;

use cudarc::driver::{result, sys};
use fake_cuda::harness::under_driver;
use programs::*;

#[test]
fn devices_are_as_the_environment_says() {
    let settings = [
        ("FAKE_CUDA_DEVICES", "3"),
        ("FAKE_CUDA_MEMORY", "1000000,2000000"),
        ("FAKE_CUDA_CAPABILITY", "8.6"),
    ];
    let Some(_control) = under_driver(&settings) else { return };
    // SAFETY: the library found is the fake driver.
    assert!(unsafe { sys::is_culib_present() });
    result::init().unwrap();
    assert_eq!(result::device::get_count(), Ok(3));
    for (ordinal, memory) in [(0, 1_000_000), (1, 2_000_000), (2, 2_000_000)] {
        let device = result::device::get(ordinal).unwrap();
        assert_eq!(
            result::device::get_name(device).unwrap(),
            format!("Fake CUDA device {ordinal}")
        );
        // SAFETY: the device came from the driver.
        assert_eq!(unsafe { result::device::total_mem(device) }, Ok(memory));
        let major = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
        // SAFETY: as above.
        assert_eq!(unsafe { result::device::get_attribute(device, major) }, Ok(8));
        assert_eq!(result::device::get_uuid(device).unwrap().bytes[15], ordinal as i8 as _);
    }
    assert_eq!(
        result::device::get(3).unwrap_err().0,
        sys::cudaError_enum::CUDA_ERROR_INVALID_DEVICE
    );
    let error = result::DriverError(sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY);
    assert_eq!(error.error_name().unwrap().to_str(), Ok("CUDA_ERROR_OUT_OF_MEMORY"));
}

#[test]
fn calls_need_a_start_and_a_context() {
    let Some(_control) = under_driver(&[]) else { return };
    use sys::cudaError_enum::*;
    assert_eq!(result::device::get_count().unwrap_err().0, CUDA_ERROR_NOT_INITIALIZED);
    result::init().unwrap();
    assert_eq!(result::mem_get_info().unwrap_err().0, CUDA_ERROR_INVALID_CONTEXT);
    let context = device(0);
    assert_eq!(result::ctx::get_current(), Ok(Some(context)));
    result::mem_get_info().unwrap();
    let without = std::thread::spawn(|| result::mem_get_info().unwrap_err().0).join().unwrap();
    assert_eq!(without, CUDA_ERROR_INVALID_CONTEXT);
    // SAFETY: it pairs with the retain in `device`.
    unsafe { result::primary_ctx::release(0) }.unwrap();
    assert_eq!(result::mem_get_info().unwrap_err().0, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

#[test]
fn bytes_come_back_as_they_went() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let none = found(&control, 100, &[], || {
        let (one, two) = (stream(), stream());
        let ready = event();
        let (a, b) = (allocate(1000), allocate(1000));
        let bytes: Vec<u8> = (0..1000).map(|i| (i * 7) as u8).collect();
        upload(a, &bytes, one).unwrap();
        record(ready, one);
        wait(two, ready);
        copy(b + 100, a, 900, two).unwrap();
        fill(b, 9, 100, two).unwrap();
        let back: Vec<u8> = download(b, 1000, two).unwrap();
        assert_eq!(back[..100], [9; 100]);
        assert_eq!(back[100..], bytes[..900]);
        let (free, total) = result::mem_get_info().unwrap();
        assert_eq!(total - free, 2000);
        clean(&[a, b], &[one, two], &[ready]);
    });
    assert_eq!(none, 0);
    for kind in ["memory", "streams", "events", "host memory"] {
        assert_eq!(control.live(kind), 0, "{kind}");
    }
}

#[test]
fn the_host_cannot_touch_device_memory() {
    let Some(_control) = under_driver(&[]) else { return };
    device(0);
    let at = allocate(64);
    // SAFETY: the child only reads one byte, which ends it, or exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            std::ptr::read_volatile(at as *const u8);
            libc::_exit(0);
        }
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV);
}

#[test]
fn a_fork_cannot_use_the_driver() {
    let Some(_control) = under_driver(&[]) else { return };
    device(0);
    // SAFETY: the child makes one call and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let first = result::init().map_or_else(|error| error.0 as i32, |()| 0);
        let code = result::ctx::synchronize().map_or_else(|error| error.0 as i32, |()| 0);
        let code = if first == code { code } else { 100 + first };
        // SAFETY: it ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(libc::WEXITSTATUS(status), 3);
}

#[test]
fn host_functions_run_in_order_and_may_not_call() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    unsafe extern "C" fn note(list: *mut std::ffi::c_void) {
        // SAFETY: the list lives until the stream is synchronised, and one function runs at a time.
        let list = unsafe { &mut *list.cast::<Vec<usize>>() };
        list.push(list.len());
    }
    unsafe extern "C" fn call(code: *mut std::ffi::c_void) {
        let got = result::ctx::synchronize().map_or_else(|error| error.0 as i32, |()| 0);
        // SAFETY: the place lives until the stream is synchronised.
        unsafe { *code.cast::<i32>() = got };
    }
    for seed in 0..20 {
        control.seed(seed);
        let stream = stream();
        let mut list: Vec<usize> = vec![];
        for _ in 0..10 {
            // SAFETY: the list outlives the stream's work.
            unsafe { result::stream::launch_host_function(stream, note, (&raw mut list).cast()) }
                .unwrap();
        }
        synchronize(stream).unwrap();
        assert_eq!(list, (0..10).collect::<Vec<_>>());
        clean(&[], &[stream], &[]);
    }
    let mut code = 0i32;
    let stream = stream();
    // SAFETY: the place outlives the stream's work.
    unsafe { result::stream::launch_host_function(stream, call, (&raw mut code).cast()) }.unwrap();
    synchronize(stream).unwrap();
    assert_eq!(code, 800);
    assert_eq!(control.take_reports().len(), 1);
}

#[test]
fn work_goes_on_without_calls() {
    let Some(_control) = under_driver(&[("FAKE_CUDA_SEED", "1"), ("FAKE_CUDA_IDLE", "1")]) else {
        return;
    };
    device(0);
    unsafe extern "C" fn tell(sender: *mut std::ffi::c_void) {
        // SAFETY: the sender was made for this call alone.
        let sender = unsafe { Box::from_raw(sender.cast::<std::sync::mpsc::Sender<()>>()) };
        sender.send(()).unwrap();
    }
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let sender = Box::into_raw(Box::new(sender)).cast();
    // SAFETY: the sender is given away.
    unsafe { result::stream::launch_host_function(stream(), tell, sender) }.unwrap();
    receiver.recv().unwrap();
}

#[test]
fn memory_is_limited_and_comes_back() {
    let Some(control) = under_driver(&[("FAKE_CUDA_MEMORY", "1000")]) else { return };
    device(0);
    let (stream, at) = (stream(), allocate(600));
    // SAFETY: a context is current.
    let none = unsafe { result::malloc_sync(401) }.unwrap_err();
    assert_eq!(none.0, sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY);
    free_async(at, stream).unwrap();
    let again = allocate(1000);
    free(again).unwrap();
    control.limit_memory(0, 10);
    // SAFETY: a context is current.
    assert!(unsafe { result::malloc_sync(11) }.is_err());
    // SAFETY: a context is current and the stream is alive.
    let own = unsafe { result::malloc_async(stream, 10) }.unwrap();
    fill(own, 1, 10, stream).unwrap();
    free_async(own, stream).unwrap();
    synchronize(stream).unwrap();
    assert_eq!(control.take_reports(), [] as [&str; 0]);
    assert_eq!(control.live("memory"), 0);
}

#[test]
fn peers_copy_and_pointers_are_known() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    let second = device(1);
    let there = allocate(100);
    let first = device(0);
    let (here, stream) = (allocate(100), stream());
    upload(here, &[5u8; 100], stream).unwrap();
    // SAFETY: both contexts and all memory are alive.
    let copied = unsafe { sys::cuMemcpyPeerAsync(there, second, here, first, 100, stream) };
    copied.result().unwrap();
    assert_eq!(download::<u8>(there, 100, stream).unwrap(), [5; 100]);
    let mut ordinal = -1i32;
    let attribute = sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the attribute has four bytes.
    let code =
        unsafe { sys::cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, there + 50) };
    assert_eq!((code.result(), ordinal), (Ok(()), 1));
    // SAFETY: both contexts are alive.
    unsafe { sys::cuCtxEnablePeerAccess(second, 0) }.result().unwrap();
    // SAFETY: as above.
    let again = unsafe { sys::cuCtxEnablePeerAccess(second, 0) };
    assert_eq!(again, sys::cudaError_enum::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    clean(&[here, there], &[stream], &[]);
    assert_eq!(control.take_reports(), [] as [&str; 0]);
}

#[test]
fn an_ordinary_process_does_not_see_the_driver() {
    // The library is built, but lies where nobody looks for a driver.
    assert!(fake_cuda::harness::folder().join("libcuda.so.1").exists());
    assert!(fake_cuda::Control::open().is_none());
}

#[test]
fn threads_with_streams_of_their_own_disturb_nobody() {
    let Some(control) = under_driver(&[("FAKE_CUDA_IDLE", "1")]) else { return };
    device(0);
    unsafe extern "C" fn count(total: *mut std::ffi::c_void) {
        // SAFETY: the counter lives until all threads have ended.
        let total = unsafe { &*total.cast::<std::sync::atomic::AtomicUsize>() };
        total.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    let total = std::sync::atomic::AtomicUsize::new(0);
    for seed in 0..10 {
        control.seed(seed);
        std::thread::scope(|scope| {
            for thread in 0..6u8 {
                let total = &total;
                scope.spawn(move || {
                    device(0);
                    let (one, two, ready) = (stream(), stream(), event());
                    let (x, y) = (allocate(256), allocate(256));
                    for round in 0..20u8 {
                        let value = thread * 20 + round;
                        fill(x, value, 256, one).unwrap();
                        record(ready, one);
                        wait(two, ready);
                        copy(y, x, 256, two).unwrap();
                        let data = std::ptr::from_ref(total).cast_mut().cast();
                        // SAFETY: the counter outlives the stream's work.
                        unsafe { result::stream::launch_host_function(two, count, data) }.unwrap();
                        assert_eq!(download::<u8>(y, 256, two).unwrap(), [value; 256]);
                    }
                    synchronize(one).unwrap();
                    synchronize(two).unwrap();
                    [x, y].into_iter().for_each(|at| free(at).unwrap());
                });
            }
        });
    }
    assert_eq!(total.into_inner(), 10 * 6 * 20);
    assert_eq!(control.take_reports(), [] as [&str; 0]);
}
