//! Modules and functions.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{In, Out, TextOut, api};
use crate::codes::Code;
use crate::handle::Raw;
use crate::session::Session;

/// Options of loading that name room for error messages.
const ERROR_LOG: c_uint = 5;
const ERROR_LOG_BYTES: c_uint = 6;

fn load(session: &mut Session, module: &Out<Raw>, image: &[u8]) -> Result<(), (Code, String)> {
    let raw = session.load_module(image)?;
    module.put(raw).map_err(|code| (code, String::new()))
}

fn load_text(
    session: &mut Session,
    module: &Out<Raw>,
    image: &In<c_char>,
) -> Result<(), (Code, String)> {
    let text = image.text().map_err(|code| (code, String::new()))?;
    load(session, module, text.to_bytes())
}

/// The option's value, if it was given.
fn option(
    wanted: c_uint,
    count: c_uint,
    options: &In<c_uint>,
    values: &In<*mut c_void>,
) -> Option<*mut c_void> {
    let index = (0..count as usize).find(|index| options.get(*index) == Ok(wanted))?;
    values.get(index).ok()
}

api! {
    fn cuModuleLoadData(module: Out<Raw>, image: In<c_char>) |session| {
        load_text(session, &module, &image).map_err(|(code, _)| code)
    };
    fn cuModuleLoadDataEx(
        module: Out<Raw>,
        image: In<c_char>,
        count: c_uint,
        options: In<c_uint>,
        values: In<*mut c_void>,
    ) |session| {
        load_text(session, &module, &image).map_err(|(code, text)| {
            let room = option(ERROR_LOG_BYTES, count, &options, &values).map_or(0, |room| room as usize);
            if let Some(log) = option(ERROR_LOG, count, &options, &values) {
                // A log without room stays as it is.
                let _ = TextOut::at(log.cast()).put(&text, room);
            }
            code
        })
    };
    fn cuModuleLoad(module: Out<Raw>, path: In<c_char>) |session| {
        let path = path.text()?.to_string_lossy();
        let image = std::fs::read(&*path).map_err(|_| Code::FILE_NOT_FOUND)?;
        load(session, &module, &image).map_err(|(code, _)| code)
    };
    fn cuModuleUnload(module: Raw) |session| session.unload_module(module);
    fn cuModuleGetFunction(function: Out<Raw>, module: Raw, name: In<c_char>) |session| {
        let name = name.text()?.to_string_lossy();
        session.module_function(module, &name).and_then(|raw| function.put(raw))
    };
    fn cuModuleGetGlobal_v2(at: Out<u64>, bytes: Out<usize>, module: Raw, name: In<c_char>) |session| {
        let name = name.text()?.to_string_lossy();
        let (address, size) = session.module_global(module, &name)?;
        at.put_if_wanted(address)?;
        bytes.put_if_wanted(size)
    };
    fn cuFuncGetAttribute(value: Out<c_int>, attribute: c_uint, function: Raw) |session| {
        session.function_attribute(attribute, function).and_then(|found| value.put(found))
    };
    fn cuFuncSetAttribute(function: Raw, attribute: c_uint, value: c_int) |session| {
        session.set_function_attribute(function, attribute, value)
    };
    fn cuFuncSetCacheConfig(function: Raw, _config: c_uint) |session| {
        session.function(function).map(drop)
    };
}
