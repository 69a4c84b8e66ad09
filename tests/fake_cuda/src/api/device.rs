//! Devices.

use std::ffi::{c_int, c_uint};

use super::{Out, TextOut, api};
use crate::codes::Code;
use crate::session::enter_early;

/// The newest interface that this driver knows.
const VERSION: c_int = 13000;

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuInit(flags: c_uint) -> c_int {
    enter_early("cuInit", |session| session.init(flags))
}

// SAFETY: see `api`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: Out<c_int>) -> c_int {
    enter_early("cuDriverGetVersion", |_| version.put(VERSION))
}

api! {
    fn cuDeviceGetCount(count: Out<c_int>) |session| count.put(session.settings.devices as c_int);
    fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) |session| {
        session.device(ordinal).and_then(|id| device.put(id as c_int))
    };
    fn cuDeviceGetName(name: TextOut, room: c_int, device: c_int) |session| {
        let room = usize::try_from(room).map_err(|_| Code::INVALID_VALUE)?;
        name.put(&session.device_name(device)?, room)
    };
    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: c_int) |session| {
        session.device_uuid(device).and_then(|value| uuid.put(value))
    };
    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: c_int) |session| {
        session.device_uuid(device).and_then(|value| uuid.put(value))
    };
    fn cuDeviceGetAttribute(value: Out<c_int>, attribute: c_uint, device: c_int) |session| {
        session.device_attribute(attribute, device).and_then(|found| value.put(found))
    };
    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) |session| {
        session.device_memory(device).and_then(|value| bytes.put(value))
    };
    fn cuDeviceGetPCIBusId(text: TextOut, room: c_int, device: c_int) |session| {
        let room = usize::try_from(room).map_err(|_| Code::INVALID_VALUE)?;
        text.put(&format!("0000:{:02X}:00.0", session.device(device)? + 1), room)
    };
    fn cuDeviceCanAccessPeer(can: Out<c_int>, device: c_int, peer: c_int) |session| {
        session.can_access_peer(device, peer).and_then(|value| can.put(c_int::from(value)))
    };
}
