//! Datasets whose elements the caller's functions make.

use crate::machinery::prelude::*;
use umbo_core::input::{Generator, MapOptions};

/// Begins a pass of a generator.
///
/// @param[out] pass What the other functions get. It is NULL before.
/// @return UMBO_OK, or another status, which umbo_iterator_next() then returns.
pub type umbo_generator_begin_fn = Option<
    unsafe extern "C-unwind" fn(user_data: *mut c_void, pass: *mut *mut c_void) -> umbo_status,
>;

/// Makes the next element of a pass.
///
/// @param[in] pass What umbo_generator.begin has stored, or NULL.
/// @param[out] element The element, which the library takes over. It is NULL before; if it stays
///   NULL, the pass has ended.
/// @return UMBO_OK, or another status, which umbo_iterator_next() then returns.
///
/// After UMBO_STATUS_RESOURCE_EXHAUSTED the next call makes the same element. After another failure
/// it makes the next one: a zip passes over the elements of other datasets that belong to the one
/// that failed.
pub type umbo_generator_next_fn = Option<
    unsafe extern "C-unwind" fn(
        pass: *mut c_void,
        user_data: *mut c_void,
        element: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// Takes a pass back to its beginning.
///
/// @param[in] pass What umbo_generator.begin has stored, or NULL.
/// @return UMBO_OK, or why it failed.
///
/// umbo_iterator_restore_position() calls it on a new pass as often as it was called on the saved
/// one.
pub type umbo_generator_reset_fn =
    Option<unsafe extern "C-unwind" fn(pass: *mut c_void, user_data: *mut c_void) -> umbo_status>;

/// Ends a pass, also one that has not reached its end.
///
/// @param[in] pass What umbo_generator.begin has stored, or NULL.
pub type umbo_generator_end_fn =
    Option<unsafe extern "C-unwind" fn(pass: *mut c_void, user_data: *mut c_void)>;

/// The functions of a generator. Start from UMBO_GENERATOR_INIT. One thread at a time uses a pass,
/// not always the same one. Passes of several iterators may be used at the same time.
#[c_struct]
pub struct umbo_generator {
    /// Begins a pass, when its first element is asked for. NULL: nothing to do.
    pub begin: umbo_generator_begin_fn,
    /// Makes the next element. Must be set. May be called again after a failure.
    pub next: umbo_generator_next_fn,
    /// Takes a pass back to its beginning. NULL: the pass is ended, and another one is begun.
    pub reset: umbo_generator_reset_fn,
    /// Ends a pass, exactly once for each that was begun. NULL: nothing to do.
    pub end: umbo_generator_end_fn,
}

/// Makes a dataset of elements that functions of the program make.
///
/// @param[in] element_spec What the elements are; another element is UMBO_STATUS_INVALID_ARGUMENT
///   of umbo_iterator_next().
/// @param[in] generator The functions, which are copied.
/// @param[in] destroy Releases `user_data`. NULL: nothing to release.
///
/// The number of elements is unknown.
#[c_call(
    owned(user_data, destroy),
    out(dataset),
    spec(element_spec),
    structure(generator)
)]
pub fn umbo_dataset_from_generator(
    element_spec: *const umbo_element_spec,
    generator: *const umbo_generator,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    dataset: *mut *mut umbo_dataset,
) {
    let functions = generator;
    let user_data = Arc::new(user_data);
    present(functions.next, "generator.next")?;
    let begin = move || -> Result<Box<dyn Generator>> {
        let mut generator = GeneratorPass {
            functions,
            user_data: Arc::clone(&user_data),
            pass: None,
        };
        generator.begin()?;
        Ok(Box::new(generator))
    };
    dataset.write(make(Dataset::from_generator(element_spec, begin)?)?);
}

/// A pass of the caller's generator.
struct GeneratorPass {
    functions: umbo_generator,
    user_data: Arc<UserData>,
    /// The caller's data about the pass, while it is begun.
    pass: Option<UserData>,
}

impl GeneratorPass {
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
            callback::run_infallible(|| unsafe { end(pass.pointer(), self.user_data.pointer()) });
        }
    }
}

impl Generator for GeneratorPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.pass.is_none() {
            self.begin()?;
        }
        let next = present(self.functions.next, "generator.next")?;
        let pass = self
            .pass
            .as_ref()
            .map_or(ptr::null_mut(), UserData::pointer);
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

impl Drop for GeneratorPass {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes an element from an element.
///
/// @param[in] element The element, lent for the call.
/// @param[out] result The value, which the library takes over. It is NULL before, and must be set.
/// @return UMBO_OK, or another status, which umbo_iterator_next() then returns. The element is left
///   out; but after UMBO_STATUS_RESOURCE_EXHAUSTED the next call makes it again.
///
/// Several calls may run at the same time. The function may wait.
pub type umbo_map_fn = Option<
    unsafe extern "C-unwind" fn(
        element: *const umbo_value,
        user_data: *mut c_void,
        result: *mut *mut umbo_value,
    ) -> umbo_status,
>;

/// How a function is applied to elements. Start from UMBO_MAP_OPTIONS_INIT.
#[c_struct(parallel_call_count = 1)]
pub struct umbo_map_options {
    /// The spec of the results. NULL: that of the elements.
    pub element_spec: *const umbo_element_spec,
    /// How many calls may run at the same time, 1 to 4096, each on a thread of the iterator; 1: on
    /// the thread that asks for the element. There may be more than processors, for calls that
    /// wait.
    pub parallel_call_count: i64,
}

/// Applies a function to each element. The results come in the order of the elements.
///
/// @param[in] destroy Releases `user_data`. NULL: nothing to release.
/// @param[in] options `options` may be NULL.
///
/// A result that is not as its spec says is UMBO_STATUS_INVALID_ARGUMENT of umbo_iterator_next().
/// If the system gives fewer threads than options ask for, fewer calls run at the same time.
#[c_call(
    owned(user_data, destroy),
    transforms(dataset),
    present(function),
    options(options)
)]
pub fn umbo_dataset_map(
    dataset: *mut *mut umbo_dataset,
    function: umbo_map_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    options: *const umbo_map_options,
) {
    let element_spec = optional_spec(options.element_spec)?;
    let parallel_calls = options.parallel_call_count;
    if parallel_calls < 1 {
        return Err(invalid!(
            "options.parallel_call_count",
            "{parallel_calls}; must be 1 to 4096"
        ));
    }
    let call = move |element: &Value| {
        let mut lent = LentHandle::new()?;
        let element = lent.lend(element.clone())?;
        let missing = "the mapped function has stored none; it stores a value for each element";
        // SAFETY: the caller gives a function of this type and its user data.
        must_store("result", missing, |result| unsafe {
            function(element, user_data.pointer(), result)
        })
    };
    dataset.map(
        call,
        MapOptions {
            parallel_calls,
            element_spec,
        },
    )
}

/// Says whether an element is kept.
///
/// @param[in] element The element, lent for the call.
/// @param[out] keep 1: the element is kept. 0: it is left out. It must be set.
/// @return UMBO_OK, or another status, which umbo_iterator_next() then returns. The element is left
///   out; but after UMBO_STATUS_RESOURCE_EXHAUSTED the next call has it again.
///
/// One thread at a time calls it for an iterator, not always the same one.
pub type umbo_filter_fn = Option<
    unsafe extern "C-unwind" fn(
        element: *const umbo_value,
        user_data: *mut c_void,
        keep: *mut i32,
    ) -> umbo_status,
>;

/// Keeps the elements for which a function says so, in their order.
///
/// @param[in] destroy Releases `user_data`. NULL: nothing to release.
///
/// The number of elements is unknown. Elements are made until one is kept, which may take long: a
/// limit of umbo_train_epoch() ends that between two of them, and the next request continues from
/// the next element. A dataset without end of which no element is kept has no first element.
///
/// An element whose call fails might have been kept or left out, so that in a zip the elements
/// after it do not belong together any more. Filter the zipped elements instead.
#[c_call(owned(user_data, destroy), transforms(dataset), present(function))]
pub fn umbo_dataset_filter(
    dataset: *mut *mut umbo_dataset,
    function: umbo_filter_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
) {
    let keeps = move |element: &Value| {
        let mut lent = LentHandle::new()?;
        let element = lent.lend(element.clone())?;
        // Neither yes nor no, so that a function that says nothing is refused.
        let mut keep = -1;
        // SAFETY: the caller gives a function of this type and its user data.
        callback::run(|| unsafe { function(element, user_data.pointer(), &raw mut keep) })?;
        flag(keep, "keep")
    };
    dataset.filter(keeps)
}
