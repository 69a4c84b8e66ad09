//! Structs that may grow: `size_t struct_size` first, set by the caller.
//!
//! The size carries a mark, so that a struct whose defaults nobody has set is refused: one of
//! zeros, of garbage, or with its bare sizeof.
//!
//! A caller that was built with an older header has a shorter struct: the fields it does not know
//! have their defaults. One that was built with a newer header has a longer one: that is fine as
//! long as what this library does not know is zero. A field that a caller has set is taken as it
//! is; zero does not mean "default".
//!
//! A new field goes to the end, and not into padding that was there: older programs have left that
//! as it happened to be. `tests/abi` keeps sizes and offsets.

use std::mem::MaybeUninit;
use std::{ptr, slice};

pub(crate) use umbo_macros::c_struct;

use super::pointers::{Count, check};
use umbo_core::error::{Error, Result};

/// The mark that UMBO_STRUCT_SIZE() adds to the size of a struct.
pub const UMBO_STRUCT_MARK: usize = 0x554D_0000;

/// No struct will be longer; a size past this was not set.
const LONGEST: usize = 4096;

/// The `struct_size` of a struct that has its defaults.
pub const fn struct_size<T>() -> usize {
    UMBO_STRUCT_MARK + size_of::<T>()
}

/// A struct of options or of results. The `Default` of one that comes in is what its
/// `UMBO_..._INIT` says.
///
/// # Safety
/// The type is `repr(C)`, its first field is the `usize` called `struct_size`, and all its fields
/// are numbers, pointers or optional functions.
pub(crate) unsafe trait Extensible: Copy {
    /// The name of the type in C.
    const NAME: &'static str;

    /// The names of its fields.
    const FIELDS: &'static [&'static str];

    /// Refuses an array without its count, and a count without its array. `argument` is the struct.
    fn check_arrays(&self, argument: &'static str) -> Result<()>;
}

/// An array in a struct.
#[derive(Clone, Copy)]
pub(crate) struct ArrayField {
    /// The name of the field.
    pub(crate) name: &'static str,
    /// Whether the array is NULL.
    pub(crate) is_null: bool,
    /// Whether it may be NULL although its elements are counted.
    pub(crate) is_optional: bool,
}

/// Checks an array in a struct and its count, whose argument is the name of a field. The function
/// that reads the array says which numbers a count may be.
pub(crate) fn check_array(
    argument: &'static str,
    array: ArrayField,
    count: Count<i64>,
) -> Result<()> {
    let ArrayField {
        name: array,
        is_null,
        is_optional,
    } = array;
    let Count {
        number: count,
        argument: counted_by,
    } = count;
    if !is_null && count == 0 {
        return Err(invalid!(
            format!("{argument}.{counted_by}"),
            "is 0, but {argument}.{array} is given; set it to the number of elements there, or \
             {array} to NULL"
        ));
    }
    if is_null && count > 0 && !is_optional {
        return Err(invalid!(
            format!("{argument}.{array}"),
            "is NULL, but {argument}.{counted_by} is {count}; give as many elements, or set \
             {counted_by} to 0"
        ));
    }
    Ok(())
}

/// Calls `body`, in whose error an option is named as in C: an argument that is a field of `T`, and
/// not one of the function's own `parameters`, is a field of the parameter `name`.
pub(crate) fn with_fields_named<T: Extensible, R>(
    name: &'static str,
    parameters: &[&str],
    body: impl FnOnce() -> Result<R>,
) -> Result<R> {
    body().map_err(|error| with_field_named(error, name, T::FIELDS, parameters))
}

fn with_field_named(error: Error, name: &str, fields: &[&str], parameters: &[&str]) -> Error {
    let is_field = |argument: &str| {
        let word = argument.split(['.', '[']).next().unwrap_or_default();
        fields.contains(&word) && !parameters.contains(&word)
    };
    match error {
        Error::InvalidArgument { argument, problem } if is_field(&argument) => {
            Error::invalid(format!("{name}.{argument}"), problem)
        }
        error => error,
    }
}

/// Reads options; NULL means all defaults.
///
/// # Safety
/// `pointer` is NULL or leads to a struct of as many bytes as its `struct_size` says, which
/// nobody writes meanwhile.
pub(crate) unsafe fn read<T: Extensible + Default>(
    pointer: *const T,
    argument: &'static str,
) -> Result<T> {
    // SAFETY: the caller's promise is the same.
    let (options, size) = unsafe { known_part(pointer, argument) }?;
    if size > size_of::<T>() {
        let known = size_of::<T>();
        // SAFETY: the caller promises `size` bytes, of which these are the last `size - known`.
        let unknown =
            unsafe { slice::from_raw_parts(pointer.cast::<u8>().add(known), size - known) };
        check_unknown(unknown, known, argument)?;
    }
    options.check_arrays(argument)?;
    Ok(options)
}

/// Refuses options that this version does not know, which follow `known` bytes that it does.
fn check_unknown(unknown: &[u8], known: usize, argument: &'static str) -> Result<()> {
    match unknown.iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(position) => Err(invalid!(
            argument,
            "byte {} is set, which this version ({}) does not know; its struct has {known} bytes",
            known + position,
            env!("CARGO_PKG_VERSION")
        )),
    }
}

/// The fields of a struct of options that this library knows, whatever else is wrong with the
/// struct. So a function in it which releases something is found before anything fails. The
/// defaults if the struct cannot be read.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn known_or_default<T: Extensible + Default>(pointer: *const T) -> T {
    // SAFETY: the caller's promise is the same.
    unsafe { known_part(pointer, "") }.map_or_else(|_| T::default(), |(known, _)| known)
}

/// The fields that this library knows, as by default where the caller's struct is shorter or NULL,
/// and the size that the caller states.
///
/// # Safety
/// As for [`read`].
unsafe fn known_part<T: Extensible + Default>(
    pointer: *const T,
    argument: &'static str,
) -> Result<(T, usize)> {
    let mut options = MaybeUninit::new(T::default());
    let mut size = 0;
    if !pointer.is_null() {
        // SAFETY: the caller's promise is the same.
        size = unsafe { size_of_struct(pointer, argument) }?;
        let from = pointer.cast::<u8>();
        let to = options.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller promises `size` bytes, of which these are the first; the destination
        // has as many.
        unsafe { ptr::copy_nonoverlapping(from, to, size.min(size_of::<T>())) };
    }
    // SAFETY: the default is a value, and what was copied over it is what the caller has
    // initialised as a struct of this type, of fields (`Extensible`) that have no values which
    // are none.
    Ok((unsafe { options.assume_init() }, size))
}

/// Checks a struct of results that the caller wants filled, before anything is done.
///
/// # Safety
/// `pointer` is NULL or leads to a struct of as many bytes as its `struct_size` says, which may
/// be written until the result is used up.
pub(crate) unsafe fn result<T: Extensible>(
    pointer: *mut T,
    argument: &'static str,
) -> Result<ExtensibleOut<T>> {
    check(pointer, argument, "a struct for the result is expected")?;
    // SAFETY: the caller's promise is the same.
    let size = unsafe { size_of_struct(pointer, argument) }?;
    Ok(ExtensibleOut { pointer, size })
}

/// As [`result`], for what the caller may not want.
///
/// # Safety
/// As for [`result`].
pub(crate) unsafe fn optional_result<T: Extensible>(
    pointer: *mut T,
    argument: &'static str,
) -> Result<ExtensibleOut<T>> {
    if pointer.is_null() {
        return Ok(ExtensibleOut { pointer, size: 0 });
    }
    // SAFETY: the caller's promise is the same.
    unsafe { result(pointer, argument) }
}

/// Reads a struct that has to be there.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn structure<T: Extensible + Default>(
    pointer: *const T,
    argument: &'static str,
) -> Result<T> {
    check(pointer, argument, "a struct is expected")?;
    // SAFETY: the caller's promise is the same.
    unsafe { read(pointer, argument) }
}

/// A struct of results that was checked. One that the caller does not want is NULL.
pub(crate) struct ExtensibleOut<T> {
    pointer: *mut T,
    size: usize,
}

impl<T: Extensible> ExtensibleOut<T> {
    /// Fills as much of the struct as the caller and this library know; what this library does not
    /// know stays as it is, as does `struct_size`. A size that was never set can therefore not make
    /// it write past the struct.
    pub(crate) fn write(self, value: T) {
        if self.pointer.is_null() {
            return;
        }
        let header = size_of::<usize>();
        let known = self.size.min(size_of::<T>());
        // SAFETY: `result`'s caller promised `size` bytes, of which `known` are copied from a
        // struct of at least that size.
        unsafe {
            let to = self.pointer.cast::<u8>();
            let from = ptr::from_ref(&value).cast::<u8>();
            ptr::copy_nonoverlapping(from.add(header), to.add(header), known - header);
        }
    }
}

/// The size of the struct by its first field, without the mark.
///
/// # Safety
/// `pointer` is not NULL and leads at least to a `struct_size`.
unsafe fn size_of_struct<T: Extensible>(
    pointer: *const T,
    argument: &'static str,
) -> Result<usize> {
    check(pointer, argument, "a struct is expected")?;
    // SAFETY: promised, and the alignment of the struct, just checked, is at least the field's.
    let marked = unsafe { pointer.cast::<usize>().read() };
    match marked.checked_sub(UMBO_STRUCT_MARK) {
        Some(size) if (size_of::<usize>()..=LONGEST).contains(&size) => Ok(size),
        _ => Err(invalid!(
            argument,
            "struct_size is {marked}, so nothing has set the defaults; start from {}",
            beginning(T::NAME)
        )),
    }
}

/// The macros that a struct of this name begins with.
fn beginning(name: &str) -> String {
    let initial = format!("{}_INIT", name.to_uppercase());
    match name.strip_suffix("_options") {
        Some(noun) => format!("{initial} or UMBO_OPTIONS({noun}, ...)"),
        None => initial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    #[repr(C)]
    struct Example {
        struct_size: usize,
        first: i64,
        second: f64,
    }

    // SAFETY: `repr(C)`, `struct_size` first, numbers.
    unsafe impl Extensible for Example {
        const NAME: &'static str = "umbo_example_options";
        const FIELDS: &'static [&'static str] = &["struct_size", "first", "second"];

        fn check_arrays(&self, argument: &'static str) -> Result<()> {
            // What is 13 is an array.
            check_array(
                argument,
                ArrayField {
                    name: "array",
                    is_null: self.second != 13.0,
                    is_optional: true,
                },
                Count::new(self.first, "first"),
            )
        }
    }

    impl Default for Example {
        fn default() -> Example {
            Example {
                struct_size: struct_size::<Example>(),
                first: 3,
                second: 0.5,
            }
        }
    }

    fn read_words(words: &[usize]) -> Result<Example> {
        // SAFETY: each test gives at least as many bytes as its first word says or is refused.
        unsafe { read(words.as_ptr().cast::<Example>(), "options") }
    }

    #[test]
    fn an_array_and_its_count_belong_together() {
        let array = 13_f64.to_bits() as usize;
        assert!(read_words(&[UMBO_STRUCT_MARK + 24, 2, array]).is_ok());
        let problem = read_words(&[UMBO_STRUCT_MARK + 24, 0, array])
            .unwrap_err()
            .to_string();
        assert!(
            problem.starts_with("options.first: is 0, but options.array is given"),
            "{problem}"
        );
        let check = |is_null, is_optional, count| {
            let field = ArrayField {
                name: "array",
                is_null,
                is_optional,
            };
            check_array("options", field, Count::new(count, "first"))
        };
        let absent = |is_optional, count| check(true, is_optional, count);
        assert!(absent(true, 2).is_ok() && absent(false, 0).is_ok());
        let problem = absent(false, 2).unwrap_err().to_string();
        assert!(
            problem.starts_with("options.array: is NULL, but options.first is 2"),
            "{problem}"
        );
        // A negative count is for the function to refuse.
        assert!(absent(false, -1).is_ok());
        assert!(check(false, false, -1).is_ok());
    }

    #[test]
    fn null_is_all_defaults() {
        // SAFETY: NULL is allowed.
        let options = unsafe { read(ptr::null::<Example>(), "options") }.unwrap();
        assert_eq!((options.first, options.second), (3, 0.5));
    }

    #[test]
    fn shorter_structs_miss_fields() {
        let options = read_words(&[UMBO_STRUCT_MARK + 16, 7, usize::MAX]).unwrap();
        assert_eq!((options.first, options.second), (7, 0.5));
    }

    #[test]
    fn zero_is_zero() {
        let options = read_words(&[UMBO_STRUCT_MARK + 24, 0, 0]).unwrap();
        assert_eq!((options.first, options.second), (0, 0.0));
    }

    #[test]
    fn longer_structs_are_fine_while_the_rest_is_zero() {
        assert_eq!(
            read_words(&[UMBO_STRUCT_MARK + 48, 7, 0, 0, 0, 0])
                .unwrap()
                .first,
            7
        );
        let problem = read_words(&[UMBO_STRUCT_MARK + 48, 7, 0, 0, 0, 256])
            .unwrap_err()
            .to_string();
        assert!(problem.starts_with("options: byte 41 is set"), "{problem}");
    }

    #[test]
    fn sizes_that_were_not_set_are_refused() {
        let sizes = [0, 7, LONGEST + 1];
        let marked = sizes.map(|size| UMBO_STRUCT_MARK + size);
        let others = [0, 7, size_of::<Example>(), UMBO_STRUCT_MARK - 1, usize::MAX];
        for size in marked.into_iter().chain(others) {
            let problem = read_words(&[size, 0, 0, 0]).unwrap_err().to_string();
            let expected = format!(
                "options: struct_size is {size}, so nothing has set the defaults; start from \
                 UMBO_EXAMPLE_OPTIONS_INIT or UMBO_OPTIONS(umbo_example, ...)"
            );
            assert_eq!(problem, expected);
        }
        assert_eq!(beginning("umbo_x_info"), "UMBO_X_INFO_INIT");
    }

    #[test]
    fn a_mark_fits_into_32_bits() {
        assert!(u32::try_from(UMBO_STRUCT_MARK + LONGEST).is_ok());
        const { assert!(UMBO_STRUCT_MARK > LONGEST) };
    }

    #[test]
    fn results_fill_what_both_sides_know() {
        let value = Example {
            struct_size: 0,
            first: 5,
            second: 1.0,
        };
        let shorter = UMBO_STRUCT_MARK + 16;
        let mut words = [shorter, 0, 9, 9, 9, 9];
        // SAFETY: the array is longer than the sizes it states.
        unsafe { result(words.as_mut_ptr().cast::<Example>(), "info") }
            .unwrap()
            .write(value);
        assert_eq!(words, [shorter, 5, 9, 9, 9, 9]);
        let longer = UMBO_STRUCT_MARK + LONGEST;
        words[0] = longer;
        // SAFETY: only what the library knows, three words, is touched.
        unsafe { result(words.as_mut_ptr().cast::<Example>(), "info") }
            .unwrap()
            .write(value);
        assert_eq!(words, [longer, 5, 1.0f64.to_bits() as usize, 9, 9, 9]);
    }
}
