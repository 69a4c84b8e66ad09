//! How the C layer is written. The generator of the headers reads functions and structs as they stand in
//! the sources, with these attributes above them.

mod c_call;
mod c_struct;

use proc_macro::TokenStream;

/// Makes a C function of a signature and a body that is a `Result<()>`; a body that ends with a
/// statement has succeeded. It runs in `boundary`, or in `quietly` if the function returns nothing,
/// under the function's own name, which begins the message of an error.
///
/// The arguments of the attribute say, in the order in which it happens, what is checked, and each
/// binds its parameter anew. An error names the parameter.
///
/// | argument | what the parameter becomes |
/// |---|---|
/// | `out(p)` | the place for an output; `p.write(...)` |
/// | `result(p)` | the place for a struct that begins with its size; `p.write(...)` |
/// | `options(p)` | the struct of options, by default where it is NULL or shorter |
/// | `text(p)`, `optional_text(p)` | a `&str`, or an `Option` of one |
/// | `array(p)`, `array(p, n)` | a slice of as many elements as the parameter `count`, or `n`, says |
/// | `get(h)`, `get_optional(h)` | a reference of one's own to the object of a handle |
/// | `borrow(h)` | the object itself, for what neither waits nor runs the caller's code |
///
/// Others stand alone or first:
///
/// - `gives(user_data, destroy)`: the caller gives user data away, which is destroyed whatever else
///   happens; `user_data` becomes the `UserData`.
/// - `retain(h)`, `release(h)`: all that the function does, whose body is empty. The new handle is
///   written to the parameter `retained`.
///
/// # Safety
///
/// The functions are unsafe, and this is the promise of whoever calls them, which the header's
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

/// Makes a struct one of those that begin with their size and may grow (`ffi::options`). The attribute
/// says which defaults are not zero: `#[c_struct(keep = 5)]`. The generator of the headers reads it too, for `UMBO_..._INIT`.
///
/// # Safety
///
/// The struct is `repr(C)`, its first field is the `usize` called `struct_size`, and all other fields are
/// numbers, pointers, optional functions, or arrays or structs of these: all bytes zero is a value, and so is
/// whatever C puts there.
#[proc_macro_attribute]
pub fn c_struct(defaults: TokenStream, item: TokenStream) -> TokenStream {
    c_struct::expand(defaults.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
