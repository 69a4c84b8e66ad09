//! The functions of the driver as C sees them: those that the library and its tests call. They hold
//! no logic.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::ptr::null_mut;

use crate::c_types::{In, Out, TextOut};
use crate::codes::{Code, Outcome, describe};
use crate::copy::Waits;
use crate::handle::Raw;
use crate::launch::Size;
use crate::pool;
use crate::session::{Session, enter, enter_early};

/// Defines functions of the driver: `fn NAME(ARGUMENTS) |SESSION| EXPRESSION;`.
macro_rules! api {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) |$session:pat_param| $body:expr;)*) => {
        $(
            // SAFETY: the name and the type are those of the CUDA driver, which programs that load
            // this library in its place expect.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            unsafe extern "C" fn $name($($argument: $type),*) -> std::ffi::c_int {
                enter(stringify!($name), |$session| $body)
            }
        )*
    };
}

// SAFETY: see `api`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn cuInit(flags: c_uint) -> c_int {
    enter_early("cuInit", |session| session.init(flags))
}

fn put_text(text: &Out<*const c_char>, found: Option<&'static CStr>) -> c_int {
    let put = found
        .ok_or(Code::INVALID_VALUE)
        .and_then(|found| text.put(found.as_ptr()));
    put.err().unwrap_or(Code::SUCCESS).0
}

// SAFETY: see `api`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn cuGetErrorName(code: c_int, text: Out<*const c_char>) -> c_int {
    put_text(&text, describe(code).map(|(name, _)| name))
}

// SAFETY: see `api`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn cuGetErrorString(code: c_int, text: Out<*const c_char>) -> c_int {
    put_text(&text, describe(code).map(|(_, text)| text))
}

/// What tests ask the driver, and tell it: see `Session::ask`. The answer is a number, and a text
/// where one was asked for.
// SAFETY: only this driver has the function.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn fake_cuda_ask(question: In<c_char>, text: TextOut, room: usize) -> u64 {
    let mut session = Session::open();
    let question = question.text().expect("a question is a text");
    let answer = session.ask(question);
    if question == "reports" {
        // Nobody is there to say to that there is no room.
        let _ = text.put(&session.reports.text(), room);
    }
    answer
}

api! {
    fn cuDeviceGetCount(count: Out<c_int>) |session| count.put(session.settings.devices as c_int);
    fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) |session| {
        session.device(ordinal).and_then(|id| device.put(id as c_int))
    };
    fn cuDeviceGetName(name: TextOut, room: c_int, device: c_int) |session| {
        let room = usize::try_from(room).map_err(|_| Code::INVALID_VALUE)?;
        name.put(&format!("Fake CUDA device {}", session.device(device)?), room)
    };
    fn cuDeviceGetAttribute(value: Out<c_int>, attribute: c_uint, device: c_int) |session| {
        session.device_attribute(attribute, device).and_then(|found| value.put(found))
    };

    fn cuDevicePrimaryCtxRetain(context: Out<Raw>, device: c_int) |session| {
        session.retain_primary(device).and_then(|raw| context.put(raw))
    };
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) |session| session.release_primary(device);
    fn cuCtxSetCurrent(context: Raw) |session| session.set_current(context);
    fn cuCtxGetCurrent(context: Out<Raw>) |session| context.put(session.get_current());
    fn cuCtxSynchronize() |session| session.synchronize_context();

    fn cuStreamCreate(stream: Out<Raw>, flags: c_uint) |session| {
        session.create_stream(flags).and_then(|raw| stream.put(raw))
    };
    fn cuStreamDestroy_v2(stream: Raw) |session| session.destroy_stream(stream);
    fn cuStreamQuery(stream: Raw) |session| session.query_stream(stream);
    fn cuStreamSynchronize(stream: Raw) |session| session.synchronize_stream(stream);
    fn cuStreamWaitEvent(stream: Raw, event: Raw, flags: c_uint) |session| {
        session.stream_wait_event(stream, event, flags)
    };
    fn cuStreamGetCtx(stream: Raw, context: Out<Raw>) |session| {
        session.stream_context(stream).and_then(|raw| context.put(raw))
    };
    fn cuLaunchHostFunc(
        stream: Raw,
        function: Option<unsafe extern "C" fn(*mut c_void)>,
        data: *mut c_void,
    ) |session| session.launch_host_function(stream, function, data);

    fn cuEventCreate(event: Out<Raw>, flags: c_uint) |session| {
        session.create_event(flags).and_then(|raw| event.put(raw))
    };
    fn cuEventDestroy_v2(event: Raw) |session| session.destroy_event(event);
    fn cuEventRecord(event: Raw, stream: Raw) |session| session.record_event(event, stream);
    fn cuEventSynchronize(event: Raw) |session| session.synchronize_event(event);
    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Raw, end: Raw) |session| {
        session.elapsed(start, end).and_then(|value| milliseconds.put(value))
    };

    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) |session| {
        let (left, all) = session.memory_info()?;
        free.put(left)?;
        total.put(all)
    };
    fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) |session| {
        session.allocate(bytes).and_then(|at| address.put(at))
    };
    fn cuMemFree_v2(address: u64) |session| session.free(address);
    fn cuMemHostAlloc(address: Out<*mut c_void>, bytes: usize, flags: c_uint) |session| {
        session.allocate_host(bytes, flags).and_then(|at| address.put(at))
    };
    fn cuMemFreeHost(address: *mut c_void) |session| session.free_host(address);
    fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint) |session| {
        session.register_host(address, bytes, flags)
    };
    fn cuMemHostUnregister(address: *mut c_void) |session| session.unregister_host(address);
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: u64) |session| {
        /// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, the only one that is asked for, and its values.
        const MEMORY_TYPE: c_uint = 2;
        const HOST: c_uint = 1;
        const DEVICE: c_uint = 2;
        let found = session.memory.holding(address).filter(|_| attribute == MEMORY_TYPE);
        let device = found.ok_or(Code::INVALID_VALUE)?.device();
        Out::at(data.cast()).put(if device.is_some() { DEVICE } else { HOST })
    };

    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) |session| {
        session.host_to_device(to, from, bytes, null_mut(), Waits::Yes)
    };
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Raw) |session| {
        session.host_to_device(to, from, bytes, stream, Waits::No)
    };
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) |session| {
        session.device_to_host(to, from, bytes, null_mut(), Waits::Yes)
    };
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Raw) |session| {
        session.device_to_host(to, from, bytes, stream, Waits::No)
    };
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Raw) |session| {
        session.device_to_device(to, from, bytes, stream)
    };
    fn cuMemcpyPeerAsync(
        to: u64,
        to_context: Raw,
        from: u64,
        from_context: Raw,
        bytes: usize,
        stream: Raw,
    ) |session| {
        session.peer_copy((to, to_context), (from, from_context), bytes, stream)
    };
    fn cuMemsetD8Async(at: u64, value: c_uchar, count: usize, stream: Raw) |session| {
        session.fill(at, value, count, stream)
    };

    fn cuMemAllocAsync(address: Out<u64>, bytes: usize, stream: Raw) |session| {
        session.allocate_on_stream(bytes, stream).and_then(|at| address.put(at))
    };
    fn cuMemFreeAsync(address: u64, stream: Raw) |session| session.free_on_stream(address, stream);
    fn cuMemAllocFromPoolAsync(address: Out<u64>, bytes: usize, pool: Raw, stream: Raw) |session| {
        session.allocate_from(bytes, pool, stream).and_then(|at| address.put(at))
    };
    fn cuMemPoolCreate(pool: Out<Raw>, properties: In<pool::Properties>) |session| {
        session.make_pool(properties.get(0)?).and_then(|raw| pool.put(raw))
    };
    fn cuDeviceGetDefaultMemPool(pool: Out<Raw>, device: c_int) |session| {
        session.pool_of(device).and_then(|raw| pool.put(raw))
    };
    fn cuMemPoolGetAttribute(pool: Raw, attribute: c_uint, value: Out<u64>) |session| {
        session.pool_attribute(pool, attribute).and_then(|found| value.put(found))
    };
    fn cuMemPoolSetAttribute(pool: Raw, attribute: c_uint, _value: In<u64>) |session| {
        session.set_pool_attribute(pool, attribute)
    };
    fn cuMemPoolTrimTo(pool: Raw, _keep: usize) |session| session.pool(pool).map(drop);
    fn cuMemPoolSetAccess(pool: Raw, list: In<pool::Access>, count: usize) |session| {
        (0..count).try_for_each(|index| session.set_pool_access(pool, list.get(index)?))
    };
    fn cuMemPoolGetAccess(flags: Out<c_uint>, pool: Raw, location: In<pool::Location>) |session| {
        session.pool_access(pool, location.get(0)?).and_then(|found| flags.put(found))
    };

    fn cuModuleLoadData(module: Out<Raw>, image: In<c_char>) |session| {
        let text = image.text()?;
        session.load_module(text).and_then(|raw| module.put(raw))
    };
    fn cuModuleGetFunction(function: Out<Raw>, module: Raw, name: In<c_char>) |session| {
        session.module_function(module, name.text()?).and_then(|raw| function.put(raw))
    };
    fn cuLaunchKernel(
        function: Raw,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        dynamic_shared: c_uint,
        stream: Raw,
        parameters: In<In<u8>>,
        _list: *mut c_void,
    ) |session| {
        let grid = [grid_x, grid_y, grid_z];
        let size = Size { grid, block: [block_x, block_y, block_z], dynamic_shared };
        session.launch(function, &size, stream, |kernel| {
            let mut bytes = vec![0; kernel.parameter_bytes as usize];
            for (index, parameter) in kernel.parameters.iter().enumerate() {
                let from = parameters.get(index)?;
                for at in 0..parameter.bytes as usize {
                    bytes[parameter.offset as usize + at] = from.get(at)?;
                }
            }
            Outcome::Ok(bytes)
        })
    };
}
