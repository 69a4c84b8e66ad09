//! Datasets whose elements the caller's functions make.

use super::prelude::*;
use crate::input::{Generator, MapOptions};

/// Begins a pass of a generator.
///
/// @param[in] user_data What was given to umbo_dataset_from_generator().
/// @param[out] pass What the program keeps about the pass. The generator's other functions get it.
///   It is NULL when the function is called.
/// @return UMBO_OK, or why it fails; umbo_iterator_next() then fails with it.
pub type umbo_generator_begin_fn = Option<
    unsafe extern "C-unwind" fn(user_data: *mut c_void, pass: *mut *mut c_void) -> umbo_status,
>;

/// Makes the next element of a pass.
///
/// @param[in] pass What umbo_generator.begin has stored; NULL if there is no such function.
/// @param[in] user_data What was given to umbo_dataset_from_generator().
/// @param[out] element The element, which the library takes over. It is NULL when the function is
///   called. If it stays NULL, the pass is at its end.
/// @return UMBO_OK, or why it fails; umbo_iterator_next() then fails with it.
pub type umbo_generator_next_fn = Option<
    unsafe extern "C-unwind" fn(
        pass: *mut c_void,
        user_data: *mut c_void,
        element: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// Takes a pass back to its beginning.
///
/// @param[in] pass What umbo_generator.begin has stored; NULL if there is no such function.
/// @param[in] user_data What was given to umbo_dataset_from_generator().
/// @return UMBO_OK, or why it fails.
///
/// umbo_iterator_restore_position() calls it on a pass that was just begun, as often as it was called
/// on the pass whose place is to be found again.
pub type umbo_generator_reset_fn =
    Option<unsafe extern "C-unwind" fn(pass: *mut c_void, user_data: *mut c_void) -> umbo_status>;

/// Ends a pass, also one that has not reached its end.
///
/// @param[in] pass What umbo_generator.begin has stored; NULL if there is no such function.
/// @param[in] user_data What was given to umbo_dataset_from_generator().
pub type umbo_generator_end_fn =
    Option<unsafe extern "C-unwind" fn(pass: *mut c_void, user_data: *mut c_void)>;

/// The functions of a generator. Start from UMBO_GENERATOR_INIT.
///
/// One thread at a time uses a pass. It need not be the caller's thread, nor always the same one.
/// Several passes, of several iterators, may be used at the same time. The functions may use other
/// iterators, but not the one that calls them (UMBO_STATUS_FAILED_PRECONDITION).
#[c_struct]
#[repr(C)]
pub struct umbo_generator {
    /// `sizeof(umbo_generator)`; UMBO_GENERATOR_INIT sets it.
    pub struct_size: usize,
    /// Begins a pass, when its first element is asked for. NULL: there is nothing to do.
    pub begin: umbo_generator_begin_fn,
    /// Makes the next element. It must be set. After a failure it may be called again.
    pub next: umbo_generator_next_fn,
    /// Takes a pass back to its beginning. NULL: the pass is ended, and another one is begun.
    pub reset: umbo_generator_reset_fn,
    /// Ends a pass, exactly once for each that was begun. NULL: there is nothing to do.
    pub end: umbo_generator_end_fn,
}

/// Makes a dataset of what functions of the program make.
///
/// @param[in] element_spec What the elements are. The dataset keeps it; the caller still releases
///   its own handle.
/// @param[in] generator The functions. The struct is copied.
/// @param[in] user_data What the functions are given.
/// @param[in] destroy Releases `user_data`, exactly once, on any thread, also if this function
///   fails. NULL: nothing to release.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `generator` has no `next`, or `element_spec` has no
///   tensor or has a per-replica value in it, or is not a valid handle.
///
/// The number of elements is not known before a pass ends. umbo_iterator_next() fails with
/// UMBO_STATUS_INVALID_ARGUMENT for an element that is not as `element_spec` says.
#[c_call(gives(user_data, destroy), out(dataset), spec(element_spec), structure(generator))]
pub fn umbo_dataset_from_generator(
    element_spec: *const umbo_element_spec,
    generator: *const umbo_generator,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    dataset: *mut *mut umbo_dataset,
) {
    let (functions, user_data) = (generator, Arc::new(user_data));
    present(functions.next, "generator.next")?;
    let begin = move || -> Result<Box<dyn Generator>> {
        let mut generator = Pass { functions, user_data: Arc::clone(&user_data), pass: None };
        generator.begin()?;
        Ok(Box::new(generator))
    };
    dataset.write(make(Dataset::from_generator(element_spec, begin)?)?);
}

/// A pass of the caller's generator.
struct Pass {
    functions: umbo_generator,
    user_data: Arc<UserData>,
    /// What the caller keeps about the pass, while it is begun.
    pass: Option<UserData>,
}

impl Pass {
    fn begin(&mut self) -> Result<()> {
        let mut pass = ptr::null_mut();
        if let Some(begin) = self.functions.begin {
            // SAFETY: the caller gives a function of this type and its user data.
            callback::run(|| unsafe { begin(self.user_data.pointer(), &raw mut pass) })?;
        }
        self.pass = Some(UserData::kept(pass));
        Ok(())
    }

    fn end(&mut self) {
        if let (Some(pass), Some(end)) = (self.pass.take(), self.functions.end) {
            // SAFETY: the caller gives a function of this type, its user data and its pass.
            unsafe { end(pass.pointer(), self.user_data.pointer()) }
        }
    }
}

impl Generator for Pass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.pass.is_none() {
            self.begin()?;
        }
        let next = present(self.functions.next, "generator.next")?;
        let pass = self.pass.as_ref().map_or(ptr::null_mut(), UserData::pointer);
        stored("element", |element| {
            // SAFETY: the caller gives a function of this type, its user data and its pass.
            unsafe { next(pass, self.user_data.pointer(), element) }
        })
    }

    fn reset(&mut self) -> Result<()> {
        if self.pass.is_none() && self.functions.reset.is_some() {
            self.begin()?;
        }
        match (self.functions.reset, &self.pass) {
            (Some(reset), Some(pass)) => {
                // SAFETY: the caller gives a function of this type, its user data and its pass.
                callback::run(|| unsafe { reset(pass.pointer(), self.user_data.pointer()) })
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

/// Makes an element from an element.
///
/// @param[in] element The element, lent for the call.
/// @param[in] user_data What was given to umbo_dataset_map().
/// @param[out] result The value that is made, which the library takes over. It is NULL when the
///   function is called, and must be set.
/// @return UMBO_OK, or why it fails; umbo_iterator_next() then fails with it.
///
/// Several calls may run at the same time. The function may wait, and may use other iterators, but
/// not the one that calls it (UMBO_STATUS_FAILED_PRECONDITION).
pub type umbo_map_fn = Option<
    unsafe extern "C-unwind" fn(
        element: *const umbo_value,
        user_data: *mut c_void,
        result: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// How a function is applied to elements. Start from UMBO_MAP_OPTIONS_INIT.
#[c_struct(parallel_calls = 1)]
#[repr(C)]
pub struct umbo_map_options {
    /// `sizeof(umbo_map_options)`; UMBO_MAP_OPTIONS_INIT sets it.
    pub struct_size: usize,
    /// The spec of the results. NULL, the default: that of the elements. The caller still releases
    /// it.
    pub element_spec: *const umbo_element_spec,
    /// How many calls may run at the same time, 1 to 4096. 1, the default: one after the other, on
    /// the thread that asks for the element. With more, each call has a thread of the iterator's.
    /// There may be more of them than processors, since calls may wait.
    pub parallel_calls: i64,
}

fn parallel_calls(calls: i64) -> Result<i64> {
    if calls >= 1 {
        return Ok(calls);
    }
    Err(Error::invalid("options.parallel_calls", format!("{calls}; must be 1 to 4096")))
}

/// Applies a function to each element.
///
/// @param[in,out] dataset Replaces `*dataset` by a new handle and releases the one before. To keep
///   that dataset, retain it first. If the call fails, `*dataset` stays as it is.
/// @param[in] function Makes a result from an element.
/// @param[in] user_data What `function` is given.
/// @param[in] destroy Releases `user_data`, exactly once, on any thread, also if this function
///   fails. NULL: nothing to release.
/// @param[in] options How many calls run at the same time, and the spec of the results. `options`
///   may be NULL: the defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `parallel_calls` is not in [1, 4096], the spec has no
///   tensor or has a per-replica value in it, a handle is not valid, or the dataset has 256 transformations
///   already.
///
/// The results come in the order of the elements, however many calls run at the same time.
/// Iterators call the function when an element is asked for. umbo_iterator_next() then also
/// returns:
/// - The status with which the function fails. Its element is left out, and the next call gives the
///   next one. But if the status is UMBO_STATUS_RESOURCE_EXHAUSTED, nothing is left out: the next call
///   calls the function with the same element again.
/// - UMBO_STATUS_INVALID_ARGUMENT: a result is not as its spec says.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: the system gives no thread for parallel calls. If it gives
///   fewer threads than `parallel_calls`, fewer calls run at the same time.
#[c_call(gives(user_data, destroy), transforms(dataset), present(function), options(options))]
pub fn umbo_dataset_map(
    dataset: *mut *mut umbo_dataset,
    function: umbo_map_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    options: *const umbo_map_options,
) {
    let element_spec = optional_spec(options.element_spec)?;
    let parallel_calls = parallel_calls(options.parallel_calls)?;
    let call = move |element: &Value| {
        let mut lent = Lent::new()?;
        let element = lent.lend(element.clone())?;
        // SAFETY: the caller gives a function of this type and its user data.
        let result =
            stored("result", |result| unsafe { function(element, user_data.pointer(), result) })?;
        result.ok_or_else(|| {
            let problem = "the mapped function has stored none; it stores a value for each element";
            Error::invalid("result", problem)
        })
    };
    dataset.map(call, MapOptions { parallel_calls, element_spec })
}
