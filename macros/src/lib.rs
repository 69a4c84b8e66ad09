//! The attributes with which the C layer is written. The generator of the headers reads the
//! functions and structs in the sources that have these attributes.

mod c_call;
mod c_struct;

use proc_macro::TokenStream;

/// Makes a C function of a Rust function. The C function is exported under the same name and
/// returns a `umbo_status`. It runs the body, a `Result<()>`, in `ffi::boundary`, with the
/// function's name, with which an error message begins. A body that ends with a statement has
/// succeeded.
///
/// The arguments of the attribute name the checks, in the order in which they happen. Each check
/// binds its parameter again, by the function of `ffi::arguments` with the same name. An error
/// names the parameter.
///
/// | argument | what the parameter becomes |
/// |---|---|
/// | `out(p)`, `optional_out(p)` | the place for an output; `p.write(...)` |
/// | `result(p)`, `optional_result(p)` | the place for a struct with its size; `p.write(...)` |
/// | `optional_value(p)` | the place for a value and its handle |
/// | `buffer(p, capacity)` | memory for a text; `p.write(&text, length)` |
/// | `array_out(p, capacity)` | memory for an array, which the body writes |
/// | `options(p)`, `structure(p)` | a struct; `options` has defaults for a NULL or short one |
/// | `text(p)`, `optional_text(p)`, `long_text(p)` | a `&str`, or an `Option` of one |
/// | `path(p)` | a `&Path`, which need not be UTF-8 |
/// | `array(p, n)`, `optional_array(p, n)` | a slice of as many elements as `n` says |
/// | `texts(p, n)`, `optional_texts(p, n)`, `paths(p, n)` | a `Vec` of texts or paths |
/// | `handles(p, n)` | a `Vec` of the objects of handles |
/// | `get(h)`, `get_optional(h)` | a new reference to the object of a handle |
/// | `context(h)` | the replica context, which must be that of a running callback |
/// | `flag(i)`, `constant(i)`, `dtype(i)` | a `bool`, or the core's value for the constant |
/// | `index(i)`, `natural(i)`, `counted(i)` | a place in a list, a number from 0, one from 1 |
/// | `shape(p, ndim)` | a `Shape` |
/// | `device(p)`, `spec(h)`, `view(p)`, `reduction(p)`, `destination(p)` | what the name says |
/// | `present(f)` | a function that is not NULL |
///
/// For the following arguments, the rest of the function is a closure:
///
/// - `borrow(h)`: the object itself, for code that neither waits nor runs the caller's code.
/// - `within(h)`: the same as `borrow` together with `context`.
/// - `transforms(p)`: the dataset of the handle at `p`. The function's result is another dataset,
///   whose handle replaces it.
///
/// The following arguments stand alone or first:
///
/// - `owned(user_data, destroy)`: the caller transfers user data, which is destroyed whatever else
///   happens. `user_data` becomes the `UserData`.
/// - `owned_by(user_data, options)`: the same, but the field `user_data_destroy` of the options has
///   the function that destroys it, whatever else is wrong with the options.
/// - `part(f)`: the function is of an optional part of the library, the feature `f`, without which
///   it fails with UNIMPLEMENTED.
/// - `quietly`: the function returns nothing and logs errors, like a release.
/// - `usually(f)`: `f` gets all parameters, and does without the boundary what takes less time than
///   that; it returns whether it has done it. It neither panics nor computes with floats.
///
/// # Safety
///
/// The functions are unsafe, and their callers make this promise, which the header's opening
/// comment demands. Each pointer is NULL or points to what its declaration names, with the stated
/// number of elements or the stated size, and with a NUL at the end if it is a text. This holds
/// until the call is over. Outputs may be written. Handles may be any number. So the unsafe calls
/// that are made for the arguments above need no SAFETY comment of their own.
#[proc_macro_attribute]
pub fn c_call(arguments: TokenStream, function: TokenStream) -> TokenStream {
    c_call::expand(arguments.into(), function.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a struct one of those that begin with their size and may grow (`ffi::options`): it is
/// `repr(C)` and has a first field `struct_size: usize`, the size with a mark. The attribute names
/// the defaults that are not zero: `#[c_struct(keep = 5)]`. The generator of the headers also reads
/// it, for `UMBO_..._INIT` and the structs of C++.
///
/// A field that is an array (a pointer to numbers or to pointers) says where the number of its
/// elements is. `#[counted_by(FIELD)]` refuses an array without elements, and elements without an
/// array, wherever the struct comes in; with `#[counted_by(FIELD, optional)]` the array may be
/// absent. Under `#[counted_by_function]` the function that reads the struct checks this.
///
/// # Safety
///
/// All fields are numbers, pointers, optional functions, or arrays or structs of these. So all
/// bytes zero is a valid value, and so is every value that C writes.
#[proc_macro_attribute]
pub fn c_struct(defaults: TokenStream, item: TokenStream) -> TokenStream {
    c_struct::expand(defaults.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
