//! Functions of the driver that the other tests do not need.

mod programs;

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

use cudarc::driver::{result, sys};
use fake_cuda::harness::{command, under_driver};
use programs::*;

const NONE: [&str; 0] = [];

fn code(code: sys::CUresult) -> u32 {
    code as u32
}

#[test]
fn host_memory_is_registered_and_known() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let mut own = vec![3u8; 10_000];
    let (at, bytes) = (own.as_mut_ptr().cast::<c_void>(), own.len());
    // SAFETY: the memory outlives its registration; wrong calls are for the driver to find out.
    unsafe {
        assert_eq!(code(sys::cuMemHostUnregister(at)), 713);
        assert_eq!(code(sys::cuMemHostRegister_v2(at, bytes, 0)), 0);
        assert_eq!(code(sys::cuMemHostRegister_v2(at.byte_add(9_999), 5, 0)), 712);
        assert_eq!(code(sys::cuMemHostRegister_v2(null_mut(), 5, 0)), 1);
        let mut there = 0u64;
        let inside = at.byte_add(5);
        assert_eq!(code(sys::cuMemHostGetDevicePointer_v2(&raw mut there, inside, 0)), 0);
        assert_eq!(there, inside as u64);
        let kind = sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
        let mut found = 0u32;
        assert_eq!(code(sys::cuPointerGetAttribute((&raw mut found).cast(), kind, there)), 0);
        assert_eq!(found, 1);
    }
    assert_eq!(control.live("host memory"), 1);
    let (stream, x) = (stream(), allocate(bytes));
    // Registered memory is read when the copy runs.
    // SAFETY: the memory lives until the stream is synchronised.
    unsafe { sys::cuMemcpyHtoDAsync_v2(x, at, bytes, stream) }.result().unwrap();
    assert_eq!(download::<u8>(x, bytes, stream).unwrap(), own);
    // SAFETY: nothing uses it any more.
    assert_eq!(code(unsafe { sys::cuMemHostUnregister(at) }), 0);
    let (mut kind, mut ordinal) = (9u32, 9i32);
    let mut attributes = [
        sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    ];
    let mut places: [*mut c_void; 2] = [(&raw mut kind).cast(), (&raw mut ordinal).cast()];
    // SAFETY: there are two attributes with a place of four bytes each.
    let known = unsafe {
        sys::cuPointerGetAttributes(2, attributes.as_mut_ptr(), places.as_mut_ptr(), at as u64)
    };
    assert_eq!((code(known), kind, ordinal), (0, 0, -2));
    let (mut start, mut size) = (0, 0);
    // SAFETY: both places are there.
    let range = unsafe { sys::cuMemGetAddressRange_v2(&raw mut start, &raw mut size, x + 77) };
    assert_eq!((code(range), start, size), (0, x, bytes));
    clean(&[x], &[stream], &[]);
    assert_eq!(control.take_reports(), NONE);
}

#[test]
fn each_thread_has_a_default_stream_of_its_own() {
    let Some(control) = under_driver(&[("FAKE_CUDA_QUIET", "1")]) else { return };
    device(0);
    let own: sys::CUstream = std::ptr::without_provenance_mut(2);
    let (legacy, x): (sys::CUstream, _) = (std::ptr::without_provenance_mut(1), allocate(8));
    let unordered = found(&control, 50, &["race"], || {
        fill(x, 1, 8, own).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                device(0);
                fill(x, 2, 8, std::ptr::without_provenance_mut(2)).unwrap();
            });
        });
        result::ctx::synchronize().unwrap();
    });
    assert_eq!(unordered, 50);
    let ordered = found(&control, 50, &[], || {
        fill(x, 1, 8, own).unwrap();
        fill(x, 2, 8, legacy).unwrap();
        fill(x, 3, 8, own).unwrap();
        assert_eq!(download::<u8>(x, 8, DEFAULT_STREAM).unwrap(), [3; 8]);
    });
    assert_eq!(ordered, 0);
    // SAFETY: the driver must refuse it.
    assert_eq!(code(unsafe { sys::cuStreamDestroy_v2(own) }), 400);
}

#[test]
fn contexts_are_pushed_and_popped() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    let (second, first) = (device(1), device(0));
    let mut found = null_mut();
    // SAFETY: the contexts are alive and the places are there.
    unsafe {
        assert_eq!(code(sys::cuCtxPushCurrent_v2(second)), 0);
        assert_eq!(result::ctx::get_current(), Ok(Some(second)));
        let mut ordinal = 9;
        assert_eq!(code(sys::cuCtxGetDevice(&raw mut ordinal)), 0);
        assert_eq!(ordinal, 1);
        assert_eq!(code(sys::cuCtxPopCurrent_v2(&raw mut found)), 0);
        assert_eq!(found, second);
        assert_eq!(result::ctx::get_current(), Ok(Some(first)));
        assert_eq!(code(sys::cuCtxPopCurrent_v2(null_mut())), 0);
        assert_eq!(code(sys::cuCtxPopCurrent_v2(null_mut())), 201);
        assert_eq!(code(sys::cuCtxSetCurrent(0x1234 as *mut _)), 201);
        let (mut flags, mut active) = (9, 9);
        assert_eq!(code(sys::cuDevicePrimaryCtxGetState(1, &raw mut flags, &raw mut active)), 0);
        assert_eq!((flags, active), (0, 1));
        assert_eq!(code(sys::cuDevicePrimaryCtxRelease_v2(1)), 0);
        assert_eq!(code(sys::cuDevicePrimaryCtxRelease_v2(1)), 201);
        assert_eq!(code(sys::cuDevicePrimaryCtxRelease_v2(7)), 101);
    }
    assert_eq!(control.live("contexts"), 1);
    assert_eq!(control.take_reports(), NONE);
}

#[test]
fn the_end_of_a_context_ends_what_is_in_it() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let (stream, _mark, x) = (stream(), event(), allocate(100));
    fill(x, 1, 100, stream).unwrap();
    // SAFETY: nothing of it is used any more.
    unsafe { result::primary_ctx::release(0) }.unwrap();
    for kind in ["contexts", "streams", "events", "memory", "modules"] {
        assert_eq!(control.live(kind), 0, "{kind}");
    }
    device(0);
    assert!(synchronize(stream).is_err());
    assert_eq!(result::mem_get_info().unwrap(), (1 << 30, 1 << 30));
}

#[test]
fn pools_have_attributes() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let stream = stream();
    let mut pool = null_mut();
    // SAFETY: the places have the widths of the attributes.
    unsafe {
        sys::cuDeviceGetDefaultMemPool(&raw mut pool, 0).result().unwrap();
        let threshold = sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let mut bytes = u64::MAX;
        sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut bytes).cast()).result().unwrap();
        bytes = 0;
        sys::cuMemPoolGetAttribute(pool, threshold, (&raw mut bytes).cast()).result().unwrap();
        assert_eq!(bytes, u64::MAX);
        let used = sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
        let high = sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_USED_MEM_HIGH;
        let x = result::malloc_async(stream, 1000).unwrap();
        sys::cuMemPoolGetAttribute(pool, used, (&raw mut bytes).cast()).result().unwrap();
        assert_eq!(bytes, 1000);
        free_async(x, stream).unwrap();
        synchronize(stream).unwrap();
        sys::cuMemPoolGetAttribute(pool, used, (&raw mut bytes).cast()).result().unwrap();
        assert_eq!(bytes, 0);
        sys::cuMemPoolGetAttribute(pool, high, (&raw mut bytes).cast()).result().unwrap();
        assert_eq!(bytes, 1000);
        sys::cuMemPoolTrimTo(pool, 0).result().unwrap();
        assert_eq!(code(sys::cuMemPoolTrimTo(stream.cast(), 0)), 1);
    }
    assert_eq!(control.take_reports(), NONE);
}

#[test]
fn functions_and_errors_have_names() {
    let Some(_control) = under_driver(&[]) else { return };
    let mut found = null_mut();
    let mut status = sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS;
    // SAFETY: names end with a zero and the places are there.
    unsafe {
        let name = c"cuMemAlloc".as_ptr();
        let got = sys::cuGetProcAddress_v2(name, &raw mut found, 13000, 0, &raw mut status);
        assert!(code(got) == 0 && !found.is_null());
        let name = c"cuNothing".as_ptr();
        let got = sys::cuGetProcAddress_v2(name, &raw mut found, 13000, 0, &raw mut status);
        assert!(code(got) == 500 && found.is_null());
        let mut text = std::ptr::null();
        for known in [0u32, 1, 2, 700, 719, 999] {
            let known: sys::CUresult = std::mem::transmute(known);
            sys::cuGetErrorName(known, &raw mut text).result().unwrap();
            assert!(CStr::from_ptr(text).to_str().unwrap().starts_with("CUDA_"));
            sys::cuGetErrorString(known, &raw mut text).result().unwrap();
            assert!(!CStr::from_ptr(text).is_empty());
        }
    }
    let unknown = sys::cudaError_enum::CUDA_ERROR_TIMEOUT;
    let mut text = std::ptr::null();
    // SAFETY: the place is there.
    assert_eq!(code(unsafe { sys::cuGetErrorName(unknown, &raw mut text) }), 1);
}

#[test]
fn events_measure_time() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let timed = || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).unwrap();
    let (stream, start, end, untimed) = (stream(), timed(), timed(), event());
    record(start, stream);
    record(end, stream);
    record(untimed, stream);
    synchronize(stream).unwrap();
    // SAFETY: the events are alive.
    unsafe {
        result::event::query(start).unwrap();
        assert!(result::event::elapsed(start, end).unwrap() >= 0.0);
        assert_eq!(result::event::elapsed(start, untimed).unwrap_err().0 as u32, 400);
    }
    clean(&[], &[stream], &[start, end, untimed]);
    assert_eq!(control.take_reports(), NONE);
}

#[test]
fn the_first_mistake_can_end_the_process() {
    const CHILD: &str = "FAKE_CUDA_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        device(0);
        let _ = free(0x1234);
        return;
    }
    for (abort, ends) in [("0", false), ("1", true)] {
        let output = command(std::env::current_exe().unwrap())
            .args(["the_first_mistake_can_end_the_process", "--exact"])
            .env(CHILD, "1")
            .env("FAKE_CUDA_ABORT", abort)
            .output()
            .unwrap();
        assert_eq!(output.status.success(), !ends);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!ends || text.contains("fake-cuda: misuse: free: 0x1234"), "{text}");
    }
}
