//! Streams.

use std::ffi::{c_int, c_uint, c_void};

use super::{Out, api};
use crate::handle::Raw;

api! {
    fn cuStreamCreate(stream: Out<Raw>, flags: c_uint) |session| {
        session.create_stream(flags, 0).and_then(|raw| stream.put(raw))
    };
    fn cuStreamCreateWithPriority(stream: Out<Raw>, flags: c_uint, priority: c_int) |session| {
        session.create_stream(flags, priority).and_then(|raw| stream.put(raw))
    };
    fn cuStreamDestroy_v2(stream: Raw) |session| session.destroy_stream(stream);
    fn cuStreamQuery(stream: Raw) |session| session.query_stream(stream);
    fn cuStreamSynchronize(stream: Raw) |session| session.synchronize_stream(stream);
    fn cuStreamWaitEvent(stream: Raw, event: Raw, flags: c_uint) |session| {
        session.stream_wait_event(stream, event, flags)
    };
    fn cuStreamGetPriority(stream: Raw, priority: Out<c_int>) |session| {
        session.stream_priority(stream).and_then(|value| priority.put(value))
    };
    fn cuStreamGetFlags(stream: Raw, flags: Out<c_uint>) |session| {
        session.stream_flags(stream).and_then(|value| flags.put(value))
    };
    fn cuStreamGetCtx(stream: Raw, context: Out<Raw>) |session| {
        session.stream_context(stream).and_then(|raw| context.put(raw))
    };
    fn cuStreamIsCapturing(stream: Raw, status: Out<c_int>) |session| {
        session.stream(stream).and_then(|_| status.put(0))
    };
    fn cuLaunchHostFunc(
        stream: Raw,
        function: Option<unsafe extern "C" fn(*mut c_void)>,
        data: *mut c_void,
    ) |session| session.launch_host_function(stream, function, data);
}
