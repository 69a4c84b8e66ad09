//! Events.

use std::ffi::c_uint;

use super::{Out, api};
use crate::handle::Raw;

api! {
    fn cuEventCreate(event: Out<Raw>, flags: c_uint) |session| {
        session.create_event(flags).and_then(|raw| event.put(raw))
    };
    fn cuEventDestroy_v2(event: Raw) |session| session.destroy_event(event);
    fn cuEventRecord(event: Raw, stream: Raw) |session| session.record_event(event, stream);
    fn cuEventRecordWithFlags(event: Raw, stream: Raw, _flags: c_uint) |session| {
        session.record_event(event, stream)
    };
    fn cuEventQuery(event: Raw) |session| session.query_event(event);
    fn cuEventSynchronize(event: Raw) |session| session.synchronize_event(event);
    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Raw, end: Raw) |session| {
        session.elapsed(start, end).and_then(|value| milliseconds.put(value))
    };
    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Raw, end: Raw) |session| {
        session.elapsed(start, end).and_then(|value| milliseconds.put(value))
    };
}
