//! Copies and fills.

use std::ffi::{c_uchar, c_uint, c_ushort, c_void};
use std::ptr::null_mut;

use super::api;
use crate::copy::Waits;
use crate::handle::Raw;

api! {
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
    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) |session| {
        session.device_to_device(to, from, bytes, null_mut())
    };
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Raw) |session| {
        session.device_to_device(to, from, bytes, stream)
    };
    fn cuMemcpy(to: u64, from: u64, bytes: usize) |session| {
        session.copy_by_address(to, from, bytes, null_mut())?;
        let stream = session.stream(null_mut())?;
        session.finish_stream(stream)
    };
    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Raw) |session| {
        session.copy_by_address(to, from, bytes, stream)
    };
    fn cuMemcpyPeer(to: u64, to_context: Raw, from: u64, from_context: Raw, bytes: usize) |session| {
        session.peer_copy((to, to_context), (from, from_context), bytes, null_mut())
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
    fn cuMemsetD8_v2(at: u64, value: c_uchar, count: usize) |session| {
        session.fill(at, value.into(), 1, count, null_mut())
    };
    fn cuMemsetD16_v2(at: u64, value: c_ushort, count: usize) |session| {
        session.fill(at, value.into(), 2, count, null_mut())
    };
    fn cuMemsetD32_v2(at: u64, value: c_uint, count: usize) |session| {
        session.fill(at, value, 4, count, null_mut())
    };
    fn cuMemsetD8Async(at: u64, value: c_uchar, count: usize, stream: Raw) |session| {
        session.fill(at, value.into(), 1, count, stream)
    };
    fn cuMemsetD16Async(at: u64, value: c_ushort, count: usize, stream: Raw) |session| {
        session.fill(at, value.into(), 2, count, stream)
    };
    fn cuMemsetD32Async(at: u64, value: c_uint, count: usize, stream: Raw) |session| {
        session.fill(at, value, 4, count, stream)
    };
}
