//! The expansion of `#[c_call]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Error, FnArg, Ident, ItemFn, Pat, PatIdent, PatType, Result, Stmt, Token, Type, TypePtr,
    parenthesized, parse2,
};

/// An instruction of the attribute for one or more parameters, such as `out(count)`.
struct Argument {
    binding: Ident,
    parameters: Vec<Ident>,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Argument> {
        let binding = input.parse()?;
        if !input.peek(syn::token::Paren) {
            return Ok(Argument {
                binding,
                parameters: Vec::new(),
            });
        }
        let inner;
        parenthesized!(inner in input);
        let parameters = Punctuated::<Ident, Token![,]>::parse_terminated(&inner)?;
        Ok(Argument {
            binding,
            parameters: parameters.into_iter().collect(),
        })
    }
}

pub(crate) fn expand(arguments: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let arguments = Punctuated::<Argument, Token![,]>::parse_terminated.parse2(arguments)?;
    let mut function: ItemFn = parse2(function)?;
    let mut runs = quote!(boundary);
    let mut before = TokenStream::new();
    let mut part = None;
    let inputs = function.sig.inputs.clone();
    let mut body = body_of(function.block.stmts);
    // The order is from the last to the first, because a borrowed object must exist in everything
    // that follows.
    for Argument {
        binding,
        parameters,
    } in arguments.iter().rev()
    {
        match (binding.to_string().as_str(), parameters.as_slice()) {
            ("owned", [data, destroy]) => {
                before = quote! {
                    let #data = unsafe {
                        crate::machinery::user_data::UserData::new(#data, #destroy)
                    };
                };
            }
            ("owned_by", [data, options]) => {
                before = quote! {
                    let #data = unsafe {
                        let known = crate::machinery::options::known_or_default(#options);
                        crate::machinery::user_data::UserData::new(#data, known.user_data_destroy)
                    };
                };
            }
            ("part", [name]) => part = Some(name.to_string()),
            ("quietly", []) => runs = quote!(quietly),
            ("usually", [shortcut]) => before = usual(shortcut, inputs.iter()),
            (_, [parameter, others @ ..]) => body = bound(binding, parameter, others, &body),
            _ => return Err(Error::new(binding.span(), "parameters are expected")),
        }
    }
    if let Some(options) = options_of(&arguments) {
        body = named_options(&options, &inputs, &body)?;
    }
    let body = only_with(part, body);
    let name = function.sig.ident.to_string();
    if runs.to_string() != "quietly" {
        function.sig.output = syn::parse_quote!(-> crate::machinery::status::umbo_status);
    }
    function.sig.unsafety = Some(syn::parse_quote!(unsafe));
    function.sig.abi = Some(syn::parse_quote!(extern "C"));
    function.block = syn::parse_quote!({
        #before
        crate::machinery::boundary::#runs(#name, move || { #body })
    });
    // Unit tests have no name for C, so that of all functions those are compiled that they call.
    Ok(quote! {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(
            unused_unsafe,
            reason = "arguments are bound in one way, also by functions that are not unsafe"
        )]
        #function
    })
}

/// The body of a function that is of a part of the library.
fn only_with(part: Option<String>, body: TokenStream) -> TokenStream {
    match part {
        None => body,
        Some(part) => quote! {
            umbo_core::built_with!(#part, "this function");
            #body
        },
    }
}

/// The parameter that is bound as options.
fn options_of(arguments: &Punctuated<Argument, Token![,]>) -> Option<Ident> {
    let mut arguments = arguments.iter();
    let bound = arguments.find(|argument| argument.binding == "options")?;
    bound.parameters.first().cloned()
}

/// The code, in whose errors arguments that are fields of the options are named as such.
fn named_options<'a>(
    options: &Ident,
    inputs: impl IntoIterator<Item = &'a FnArg>,
    body: &TokenStream,
) -> Result<TokenStream> {
    let mut kind = None;
    let mut others = Vec::new();
    for input in inputs {
        let FnArg::Typed(PatType { pat, ty, .. }) = input else {
            continue;
        };
        let Pat::Ident(PatIdent { ident, .. }) = &**pat else {
            continue;
        };
        match &**ty {
            Type::Ptr(TypePtr { elem, .. }) if ident == options => kind = Some(elem),
            _ => others.push(ident.unraw().to_string()),
        }
    }
    let kind = kind.ok_or_else(|| Error::new(options.span(), "no such pointer is a parameter"))?;
    let prefix = options.unraw().to_string();
    Ok(quote! {
        crate::machinery::options::with_fields_named::<#kind, _>(
            #prefix,
            &[#(#others),*],
            move || { #body },
        )
    })
}

/// A call of the function's shortcut, with all its parameters, which does what is usual and returns
/// whether it was.
fn usual<'a>(shortcut: &Ident, inputs: impl Iterator<Item = &'a FnArg>) -> TokenStream {
    let parameters = inputs.filter_map(|input| match input {
        FnArg::Typed(typed) => Some(&typed.pat),
        FnArg::Receiver(_) => None,
    });
    quote! {
        if unsafe { #shortcut(#(#parameters),*) } {
            return crate::machinery::status::UMBO_OK;
        }
    }
}

/// The statements. If they do not end with a result, success follows them.
fn body_of(statements: Vec<Stmt>) -> TokenStream {
    match statements.last() {
        Some(Stmt::Expr(_, None)) => quote!(#(#statements)*),
        _ => quote!(#(#statements)* Ok(())),
    }
}

/// The code in `rest`, after code that checks and binds a parameter by the function of
/// `ffi::arguments` with the name `binding`.
fn bound(binding: &Ident, parameter: &Ident, others: &[Ident], rest: &TokenStream) -> TokenStream {
    let name = parameter.unraw().to_string();
    let others = others.iter().map(|other| {
        let name = other.to_string();
        quote!(crate::machinery::pointers::Count::new(#other, #name),)
    });
    let call = quote!(crate::machinery::arguments::#binding);
    match binding.to_string().as_str() {
        "borrow" => quote!(#call(#parameter, #name, |#parameter| { #rest })?),
        "within" => quote!(#call(#parameter, #name, |#parameter| { #rest })),
        "transforms" => quote!(unsafe { #call(#parameter, #name, move |#parameter| { #rest }) }),
        _ => quote!(let #parameter = unsafe { #call(#parameter, #(#others)* #name) }?; #rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: TokenStream, function: TokenStream) -> String {
        text(expand(arguments, function).unwrap_or_else(Error::into_compile_error))
    }

    /// The tokens as text, independent of the spaces that the parser has put between them.
    fn text(tokens: TokenStream) -> String {
        tokens.to_string().replace("| |", "||")
    }

    #[test]
    fn parameters_are_bound_in_order_under_the_functions_name() {
        let made = expanded(
            quote!(out(count), borrow(metrics), array(items, many)),
            quote! {
                pub fn umbo_x(
                    metrics: *const umbo_metrics,
                    items: *const i64,
                    many: i64,
                    count: *mut i64,
                ) {
                    count.write(metrics.len());
                }
            },
        );
        let expected = quote! {
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[allow(
                unused_unsafe,
                reason = "arguments are bound in one way, also by functions that are not unsafe"
            )]
            pub unsafe extern "C" fn umbo_x(
                metrics: *const umbo_metrics,
                items: *const i64,
                many: i64,
                count: *mut i64,
            ) -> crate::machinery::status::umbo_status {
                crate::machinery::boundary::boundary("umbo_x", move || {
                    let count = unsafe { crate::machinery::arguments::out(count, "count") }?;
                    crate::machinery::arguments::borrow(metrics, "metrics", |metrics| {
                        let items = unsafe {
                            crate::machinery::arguments::array(
                                items,
                                crate::machinery::pointers::Count::new(many, "many"),
                                "items"
                            )
                        }?;
                        count.write(metrics.len());
                        Ok(())
                    })?
                })
            }
        };
        assert_eq!(made, text(expected));
    }

    #[test]
    fn what_is_usual_is_done_before_the_boundary() {
        let made = expanded(
            quote!(usually(shortcut)),
            quote!(
                pub fn umbo_x(row: i64, out: *mut i64) {
                    work(row, out);
                }
            ),
        );
        let expected = quote! {
            if unsafe { shortcut(row, out) } {
                return crate::machinery::status::UMBO_OK;
            }
            crate::machinery::boundary::boundary("umbo_x", move || { work(row, out); Ok(()) })
        };
        assert!(made.contains(&text(expected)), "{made}");
    }

    #[test]
    fn what_returns_nothing_fails_quietly() {
        let made = expanded(
            quote!(quietly),
            quote! { pub fn umbo_release(x: *const c_void) { release(x) } },
        );
        let expected = quote! {
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[allow(
                unused_unsafe,
                reason = "arguments are bound in one way, also by functions that are not unsafe"
            )]
            pub unsafe extern "C" fn umbo_release(x: *const c_void) {
                crate::machinery::boundary::quietly("umbo_release", move || { release(x) })
            }
        };
        assert_eq!(made, text(expected));
    }

    #[test]
    fn user_data_is_taken_over_before_anything_fails() {
        let made = expanded(
            quote!(owned(user_data, destroy), get(x)),
            quote! { fn umbo_x() { x.run(user_data) } },
        );
        let expected = quote! {
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[allow(
                unused_unsafe,
                reason = "arguments are bound in one way, also by functions that are not unsafe"
            )]
            unsafe extern "C" fn umbo_x() -> crate::machinery::status::umbo_status {
                let user_data = unsafe {
                    crate::machinery::user_data::UserData::new(user_data, destroy)
                };
                crate::machinery::boundary::boundary("umbo_x", move || {
                    let x = unsafe { crate::machinery::arguments::get(x, "x") }?;
                    x.run(user_data)
                })
            }
        };
        assert_eq!(made, text(expected));
    }

    #[test]
    fn the_options_say_how_user_data_is_destroyed() {
        let made = expanded(
            quote!(owned_by(user_data, options)),
            quote! { fn umbo_x() { run(user_data); } },
        );
        let expected = quote! {
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[allow(
                unused_unsafe,
                reason = "arguments are bound in one way, also by functions that are not unsafe"
            )]
            unsafe extern "C" fn umbo_x() -> crate::machinery::status::umbo_status {
                let user_data = unsafe {
                    let known = crate::machinery::options::known_or_default(options);
                    crate::machinery::user_data::UserData::new(user_data, known.user_data_destroy)
                };
                crate::machinery::boundary::boundary("umbo_x", move || {
                    run(user_data);
                    Ok(())
                })
            }
        };
        assert_eq!(made, text(expected));
    }

    #[test]
    fn errors_name_the_fields_of_options() {
        let made = expanded(
            quote!(options(options)),
            quote!(
                pub fn umbo_x(count: i64, options: *const umbo_x_options) {
                    work(count, options);
                }
            ),
        );
        let expected = quote! {
            crate::machinery::boundary::boundary("umbo_x", move || {
                crate::machinery::options::with_fields_named::<umbo_x_options, _>(
                    "options",
                    &["count"],
                    move || {
                        let options = unsafe {
                            crate::machinery::arguments::options(options, "options")
                        }?;
                        work(count, options);
                        Ok(())
                    },
                )
            })
        };
        assert!(made.contains(&text(expected)), "{made}");
    }

    #[test]
    fn what_names_no_parameter_is_an_error_where_it_stands() {
        assert!(
            expanded(
                quote!(out),
                quote!(
                    fn umbo_x() {}
                )
            )
            .contains("compile_error")
        );
    }
}
