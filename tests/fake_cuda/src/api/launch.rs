//! Launches.

use std::ffi::{c_int, c_uint, c_void};

use super::{In, Out, api};
use crate::codes::{Code, Outcome};
use crate::handle::Raw;
use crate::launch::Size;
use crate::ptx::kernel::Kernel;

/// Words of the list that gives all parameters in one piece.
const END: usize = 0;
const BUFFER: usize = 1;
const BUFFER_BYTES: usize = 2;

/// The bytes of all parameters, from an array of pointers to them or from one piece.
fn parameters(kernel: &Kernel, each: &In<In<u8>>, list: &In<*mut c_void>) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0; kernel.parameter_bytes as usize];
    if !each.is_null() {
        for (index, parameter) in kernel.parameters.iter().enumerate() {
            let from = each.get(index)?;
            for at in 0..parameter.bytes as usize {
                bytes[parameter.offset as usize + at] = from.get(at)?;
            }
        }
        return Ok(bytes);
    }
    if list.is_null() {
        return if bytes.is_empty() { Ok(bytes) } else { Err(Code::INVALID_VALUE) };
    }
    let (mut piece, mut given) = (None, None);
    for index in 0.. {
        match list.get(2 * index)? as usize {
            END => break,
            BUFFER => piece = Some(list.get(2 * index + 1)?),
            BUFFER_BYTES => given = Some(list.get(2 * index + 1)?),
            _ => return Err(Code::INVALID_VALUE),
        }
    }
    let size = In::at(given.ok_or(Code::INVALID_VALUE)?.cast::<usize>()).get(0)?;
    if size != bytes.len() {
        return Err(Code::INVALID_VALUE);
    }
    let piece = In::at(piece.ok_or(Code::INVALID_VALUE)?.cast::<u8>());
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = piece.get(at)?;
    }
    Ok(bytes)
}

api! {
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
        each: In<In<u8>>,
        list: In<*mut c_void>,
    ) |session| {
        let grid = [grid_x, grid_y, grid_z];
        let size = Size { grid, block: [block_x, block_y, block_z], dynamic_shared };
        session.launch(function, &size, stream, |kernel| parameters(kernel, &each, &list))
    };
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<c_int>,
        function: Raw,
        threads: c_int,
        dynamic_shared: usize,
    ) |session| {
        session.occupancy(function, threads, dynamic_shared).and_then(|found| blocks.put(found))
    };
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<c_int>,
        function: Raw,
        threads: c_int,
        dynamic_shared: usize,
        _flags: c_uint,
    ) |session| {
        session.occupancy(function, threads, dynamic_shared).and_then(|found| blocks.put(found))
    };
    fn cuOccupancyMaxPotentialBlockSize(
        blocks: Out<c_int>,
        threads: Out<c_int>,
        function: Raw,
        of_block: Option<extern "C" fn(c_int) -> usize>,
        dynamic_shared: usize,
        limit: c_int,
    ) |session| {
        let shared = |threads| of_block.map_or(dynamic_shared, |of_block| of_block(threads));
        let (grid, block) = session.best_block(function, shared, limit)?;
        blocks.put(grid)?;
        threads.put(block)
    };
}
