//! Contexts.

use std::ffi::{c_int, c_uint};

use super::{Out, api};
use crate::enqueue::PRIORITIES;
use crate::handle::Raw;

api! {
    fn cuDevicePrimaryCtxRetain(context: Out<Raw>, device: c_int) |session| {
        session.retain_primary(device).and_then(|raw| context.put(raw))
    };
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) |session| session.release_primary(device);
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) |session| {
        let (value, state) = session.primary_state(device)?;
        flags.put(value)?;
        active.put(state)
    };
    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) |session| {
        session.set_primary_flags(device, flags)
    };
    fn cuCtxSetCurrent(context: Raw) |session| session.set_current(context);
    fn cuCtxGetCurrent(context: Out<Raw>) |session| context.put(session.get_current());
    fn cuCtxPushCurrent_v2(context: Raw) |session| session.push_current(context);
    fn cuCtxPopCurrent_v2(context: Out<Raw>) |session| {
        session.pop_current().and_then(|raw| context.put_if_wanted(raw))
    };
    fn cuCtxGetDevice(device: Out<c_int>) |session| {
        session.current_device().and_then(|value| device.put(value))
    };
    fn cuCtxSynchronize() |session| session.synchronize_context();
    fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) |session| {
        session.current()?;
        least.put_if_wanted(PRIORITIES.0)?;
        greatest.put_if_wanted(PRIORITIES.1)
    };
    fn cuCtxEnablePeerAccess(peer: Raw, flags: c_uint) |session| session.enable_peer(peer, flags);
    fn cuCtxDisablePeerAccess(peer: Raw) |session| session.disable_peer(peer);
}
