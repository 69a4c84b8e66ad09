//! Datasets whose elements the caller's functions make.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use super::boundary::{boundary, check, out};
use super::callback::{self, UserData, umbo_destroy_fn};
use super::dataset::transformed;
use super::element_spec::spec_of;
use super::handle::{Lent, make};
use super::object::{umbo_dataset, umbo_element_spec, umbo_value};
use super::options::{self, Extensible};
use super::replica_context::take_result;
use super::run::Passed;
use super::scope::present;
use super::status::umbo_status;
use crate::error::{Error, Result};
use crate::input::{Dataset, Generator, MapOptions};
use crate::values::Value;

/// Begins a pass of a generator: `*pass` is NULL on entry, and what is stored there is given to the
/// generator's other functions.
pub type umbo_generator_begin_fn = Option<
    unsafe extern "C-unwind" fn(user_data: *mut c_void, pass: *mut *mut c_void) -> umbo_status,
>;

/// Makes the next element of a pass: a value, which is taken over by the library. `*element` is
/// NULL on entry; if it stays NULL the pass is at its end.
pub type umbo_generator_next_fn = Option<
    unsafe extern "C-unwind" fn(
        pass: *mut c_void,
        user_data: *mut c_void,
        element: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// Takes a pass back to the beginning.
pub type umbo_generator_reset_fn =
    Option<unsafe extern "C-unwind" fn(pass: *mut c_void, user_data: *mut c_void) -> umbo_status>;

/// Ends a pass, also before its end.
pub type umbo_generator_end_fn =
    Option<unsafe extern "C-unwind" fn(pass: *mut c_void, user_data: *mut c_void)>;

/// The functions of a generator. Start from UMBO_GENERATOR_INIT. A pass is used by one thread at a
/// time, which need not be the caller's own nor the same each time; several passes, of several
/// iterators, may be used at once. The functions may use other iterators, but not the one that calls
/// them (FAILED_PRECONDITION).
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_generator {
    /// sizeof(umbo_generator).
    pub struct_size: usize,
    /// Begins a pass, when its first element is asked for. NULL: nothing to do.
    pub begin: umbo_generator_begin_fn,
    /// Makes the next element. After an error it may be called again.
    pub next: umbo_generator_next_fn,
    /// Goes back to the beginning. NULL: the pass is ended and another begun.
    pub reset: umbo_generator_reset_fn,
    /// Ends a pass, exactly once for each that was begun. NULL: nothing to do.
    pub end: umbo_generator_end_fn,
}

// SAFETY: `repr(C)`, `struct_size` first, no padding, zero is no function.
unsafe impl Extensible for umbo_generator {}

impl Default for umbo_generator {
    fn default() -> Self {
        umbo_generator {
            struct_size: size_of::<Self>(),
            begin: None,
            next: None,
            reset: None,
            end: None,
        }
    }
}

/// A dataset of what `generator` makes: elements as `element_spec` says, one after the other until
/// it says that there are no more. The struct is copied.
///
/// INVALID_ARGUMENT: a `generator` without `next`, a spec without tensors or with per-replica values;
/// while iterating, an element that is not as the spec says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_from_generator(
    element_spec: *const umbo_element_spec,
    generator: *const umbo_generator,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    // SAFETY: the caller says how the user data is released.
    let user_data = unsafe { UserData::new(user_data, destroy) };
    boundary("umbo_dataset_from_generator", move || {
        let user_data = Arc::new(user_data);
        // SAFETY: the caller gives NULL or a place for the output.
        let dataset = unsafe { out(dataset, "dataset") }?;
        let element_spec = spec_of(element_spec, "element_spec")?;
        check(generator, "generator", "a struct is expected")?;
        // SAFETY: the caller gives a struct of the size that it states.
        let functions = unsafe { options::read(generator, "generator") }?;
        present(functions.next, "generator.next")?;
        let begin = move || -> Result<Box<dyn Generator>> {
            let mut generator = Pass { functions, user_data: Arc::clone(&user_data), pass: None };
            generator.begin()?;
            Ok(Box::new(generator))
        };
        dataset.write(make(Dataset::from_generator(element_spec, begin)?)?);
        Ok(())
    })
}

/// A pass of the caller's generator.
struct Pass {
    functions: umbo_generator,
    user_data: Arc<UserData>,
    /// What the caller keeps about the pass, while it is begun.
    pass: Option<Passed>,
}

impl Pass {
    fn begin(&mut self) -> Result<()> {
        let mut pass = ptr::null_mut();
        if let Some(begin) = self.functions.begin {
            // SAFETY: the caller gives a function of this type and its user data.
            callback::run(|| unsafe { begin(self.user_data.pointer(), &raw mut pass) })?;
        }
        self.pass = Some(Passed::new(pass));
        Ok(())
    }

    fn end(&mut self) {
        if let (Some(pass), Some(end)) = (self.pass.take(), self.functions.end) {
            // SAFETY: the caller gives a function of this type, its user data and its pass.
            unsafe { end(pass.get(), self.user_data.pointer()) }
        }
    }
}

impl Generator for Pass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.pass.is_none() {
            self.begin()?;
        }
        let next = present(self.functions.next, "generator.next")?;
        let pass = self.pass.map_or(ptr::null_mut(), Passed::get);
        take_result("element", |element| {
            // SAFETY: the caller gives a function of this type, its user data and its pass.
            unsafe { next(pass, self.user_data.pointer(), element) }
        })
    }

    fn reset(&mut self) -> Result<()> {
        match (self.functions.reset, self.pass) {
            (Some(reset), Some(pass)) => {
                // SAFETY: the caller gives a function of this type, its user data and its pass.
                callback::run(|| unsafe { reset(pass.get(), self.user_data.pointer()) })
            }
            // The next element begins another.
            _ => {
                self.end();
                Ok(())
            }
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes an element from an element. `element` is borrowed for the call. `*result` is NULL on entry;
/// the value that is stored there is taken over by the library. Several calls may run at once. The
/// function may wait and may use other iterators, but not the one that calls it
/// (FAILED_PRECONDITION).
pub type umbo_map_fn = Option<
    unsafe extern "C-unwind" fn(
        element: *const umbo_value,
        user_data: *mut c_void,
        result: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// How a function is applied to elements. Start from UMBO_MAP_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_map_options {
    /// sizeof(umbo_map_options).
    pub struct_size: usize,
    /// What the results look like. NULL: like the elements. Stays the caller's to release.
    pub element_spec: *const umbo_element_spec,
    /// How many calls run at once, at most 4096, each on a thread of the iterator's, however many
    /// processors there are, since calls may wait. 1, the default: one after the other, on the
    /// thread that asks for the element.
    pub parallel_calls: i64,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_map_options {}

impl Default for umbo_map_options {
    fn default() -> Self {
        umbo_map_options {
            struct_size: size_of::<Self>(),
            element_spec: std::ptr::null(),
            parallel_calls: 1,
        }
    }
}

fn parallel_calls(calls: i64) -> Result<i64> {
    if calls >= 1 {
        return Ok(calls);
    }
    Err(Error::invalid("options.parallel_calls", format!("{calls}; must be 1 to 4096")))
}

/// The results of `function` for each element, in the order of the elements however many calls run
/// at once. A failure of the function is that of umbo_iterator_next() in the place of the element;
/// after it the next elements come. `options` may be NULL.
///
/// INVALID_ARGUMENT: a number of calls that is not in [1, 4096]; while iterating, a result that is
/// not as its spec says. RESOURCE_EXHAUSTED, while iterating: no thread at all; with fewer than
/// `parallel_calls`, fewer calls run at once.
///
/// Replaces `*dataset` by a new handle and releases the one that was there (umbo_dataset_retain() keeps
/// what it stood for). If it fails, `*dataset` stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_dataset_map(
    dataset: *mut *mut umbo_dataset,
    function: umbo_map_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    options: *const umbo_map_options,
) -> umbo_status {
    // SAFETY: the caller says how the user data is released.
    let user_data = unsafe { UserData::new(user_data, destroy) };
    let map = move |dataset: Dataset| {
        let function = present(function, "function")?;
        // SAFETY: the caller gives NULL or a struct of the size that it states.
        let options = unsafe { options::read(options, "options") }?;
        let element_spec = match options.element_spec.is_null() {
            true => None,
            false => Some(spec_of(options.element_spec, "options.element_spec")?),
        };
        let map_options =
            MapOptions { parallel_calls: parallel_calls(options.parallel_calls)?, element_spec };
        let call = move |element: &Value| {
            let mut lent = Lent::new()?;
            let element = lent.lend(element.clone())?;
            let result = take_result("result", |result| {
                // SAFETY: the caller gives a function of this type and its user data.
                unsafe { function(element, user_data.pointer(), result) }
            })?;
            result.ok_or_else(|| {
                Error::invalid(
                    "result",
                    "the mapped function has stored none; it stores a value for each element",
                )
            })
        };
        dataset.map(call, map_options)
    };
    // SAFETY: the caller gives NULL or a place with a handle.
    unsafe { transformed("umbo_dataset_map", dataset, map) }
}
