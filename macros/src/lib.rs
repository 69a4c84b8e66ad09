//! How the C layer is written. The generator of the headers reads functions and structs as they stand in
//! the sources, with these attributes above them.

mod c_call;
mod c_struct;

use proc_macro::TokenStream;

/// Makes a C function of a Rust function: it is exported under its name, returns a `umbo_status`, and runs
/// the body, a `Result<()>`, in `ffi::boundary`, under its name, which begins the message of an error. A body
/// that ends with a statement has succeeded.
///
/// The arguments of the attribute say, in the order in which it happens, what is checked. Each binds its
/// parameter anew, by the function of `ffi::arguments` that is called so. An error names the parameter.
///
/// | argument | what the parameter becomes |
/// |---|---|
/// | `out(p)`, `optional_out(p)` | the place for an output; `p.write(...)` |
/// | `result(p)`, `optional_result(p)` | the place for a struct that begins with its size; `p.write(...)` |
/// | `optional_value(p)` | the place for a value and its handle |
/// | `buffer(p, capacity)` | room for a text; `p.write(&text, length)` |
/// | `room(p, capacity)` | room for an array, which the body writes |
/// | `options(p)`, `structure(p)` | a struct, by default where it is NULL or shorter, or that must be there |
/// | `text(p)`, `optional_text(p)`, `long_text(p)` | a `&str`, or an `Option` of one |
/// | `array(p, n)`, `optional_array(p, n)` | a slice of as many elements as the parameter `n` says |
/// | `texts(p, n)`, `optional_texts(p, n)` | a `Vec` of texts |
/// | `handles(p, n)` | a `Vec` of the objects of handles |
/// | `get(h)`, `get_optional(h)` | a reference of one's own to the object of a handle |
/// | `context(h)` | that of a replica context, which must be that of a callback that is running |
/// | `flag(i)`, `constant(i)`, `dtype(i)` | a `bool`, or what in the core the constant stands for |
/// | `index(i)`, `natural(i)`, `counted(i)` | a place in a list, a number that is not negative, one of at least 1 |
/// | `shape(p, ndim)` | a `Shape` |
/// | `device(p)`, `spec(h)`, `view(p)`, `reduction(p)`, `destination(p)` | what they are called |
/// | `present(f)` | a function that is there |
///
/// For these the rest of the function is a closure:
///
/// - `borrow(h)`: the object itself, for what neither waits nor runs the caller's code.
/// - `within(h)`: as `borrow`, and as `context`.
/// - `transforms(p)`: the dataset of the handle at `p`; the function's result is another one, whose handle takes
///   its place.
///
/// Others stand alone or first:
///
/// - `gives(user_data, destroy)`: the caller gives user data away, which is destroyed whatever else
///   happens; `user_data` becomes the `UserData`.
/// - `gives_by(user_data, options)`: the same, where a field of the options, `user_data_destroy`, says how it is
///   destroyed, whatever else is wrong with them.
/// - `quietly`: the function returns nothing and logs what is wrong, as a release does.
///
/// # Safety
///
/// The functions are unsafe, and this is the promise of their callers, which the header's
/// opening comment asks for: each pointer is NULL or leads to what its declaration says, of the
/// stated number of elements or the stated size, ended by a NUL if it is a text, until the call is
/// over; what is an output may be written. Handles may be any number. So the unsafe calls that are
/// made for the arguments above need no reason of their own.
#[proc_macro_attribute]
pub fn c_call(arguments: TokenStream, function: TokenStream) -> TokenStream {
    c_call::expand(arguments.into(), function.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a struct one of those that begin with their size and may grow (`ffi::options`): it is `repr(C)` and has a
/// first field `struct_size: usize`. The attribute says which defaults are not zero: `#[c_struct(keep = 5)]`. The
/// generator of the headers reads it too, for `UMBO_..._INIT` and the structs of C++.
///
/// # Safety
///
/// All fields are numbers, pointers, optional functions, or arrays or structs of these: all bytes zero is a value,
/// and so is whatever C puts there.
#[proc_macro_attribute]
pub fn c_struct(defaults: TokenStream, item: TokenStream) -> TokenStream {
    c_struct::expand(defaults.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
