//! The expansion of `#[c_call]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Error, Ident, ItemFn, Result, ReturnType, Stmt, Token, parenthesized, parse2};

/// What the attribute says of one or more parameters, such as `out(count)`.
struct Argument {
    what: Ident,
    parameters: Vec<Ident>,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Argument> {
        let what = input.parse()?;
        if !input.peek(syn::token::Paren) {
            return Ok(Argument { what, parameters: Vec::new() });
        }
        let inner;
        parenthesized!(inner in input);
        let parameters = Punctuated::<Ident, Token![,]>::parse_terminated(&inner)?;
        Ok(Argument { what, parameters: parameters.into_iter().collect() })
    }
}

pub(crate) fn expand(arguments: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let arguments = Punctuated::<Argument, Token![,]>::parse_terminated.parse2(arguments)?;
    let mut function: ItemFn = parse2(function)?;
    let runs = match function.sig.output {
        ReturnType::Default => quote!(quietly),
        ReturnType::Type(..) => quote!(boundary),
    };
    let mut before = TokenStream::new();
    let mut body = body_of(function.block.stmts);
    // From the last to the first, since what is borrowed is there in all that follows.
    for Argument { what, parameters } in arguments.iter().rev() {
        match (what.to_string().as_str(), parameters.as_slice()) {
            ("gives", [data, destroy]) => {
                before = quote! {
                    let #data = unsafe { crate::ffi::callback::UserData::new(#data, #destroy) };
                };
            }
            (_, [parameter]) => body = bound(what, parameter, body)?,
            ("array", [array, count]) => {
                let (name, counted_by) = (array.to_string(), count.to_string());
                body = quote! {
                    let #array = unsafe {
                        crate::ffi::boundary::array_of(#array, (#count, #counted_by), #name)
                    }?;
                    #body
                };
            }
            _ => return Err(unknown(what)),
        }
    }
    let name = function.sig.ident.to_string();
    function.block = syn::parse_quote!({
        #before
        crate::ffi::boundary::#runs(#name, move || { #body })
    });
    Ok(quote!(#function))
}

/// The statements, with success behind them if they do not end with a result.
fn body_of(statements: Vec<Stmt>) -> TokenStream {
    match statements.last() {
        Some(Stmt::Expr(_, None)) => quote!(#(#statements)*),
        _ => quote!(#(#statements)* Ok(())),
    }
}

/// What follows, with a parameter that is checked and bound before it.
fn bound(what: &Ident, parameter: &Ident, rest: TokenStream) -> Result<TokenStream> {
    let name = parameter.to_string();
    let checked = match what.to_string().as_str() {
        "out" => quote!(unsafe { crate::ffi::boundary::out(#parameter, #name) }),
        "result" => quote!(unsafe { crate::ffi::options::out(#parameter, #name) }),
        "options" => quote!(unsafe { crate::ffi::options::read(#parameter, #name) }),
        "text" | "optional_text" => {
            quote!(unsafe { crate::ffi::text::#what(#parameter, #name) })
        }
        "array" => quote!(unsafe { crate::ffi::boundary::array(#parameter, count, #name) }),
        "get" | "get_optional" => quote!(crate::ffi::handle::#what(#parameter, #name)),
        "borrow" => {
            return Ok(quote! {
                crate::ffi::handle::borrow(#parameter, #name, |#parameter| { #rest })?
            });
        }
        "release" => return Ok(quote!(crate::ffi::handle::release(#parameter, #name))),
        "retain" => {
            return Ok(quote!(unsafe { crate::ffi::handle::retain(#parameter, #name, retained) }));
        }
        _ => return Err(unknown(what)),
    };
    Ok(quote!(let #parameter = #checked?; #rest))
}

fn unknown(what: &Ident) -> Error {
    Error::new(what.span(), format!("c_call knows no `{what}` with so many parameters"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: TokenStream, function: TokenStream) -> String {
        text(expand(arguments, function).unwrap_or_else(Error::into_compile_error))
    }

    /// The tokens, however what parsed them has spaced them.
    fn text(tokens: TokenStream) -> String {
        tokens.to_string().replace("| |", "||")
    }

    #[test]
    fn parameters_are_bound_in_order_under_the_functions_name() {
        let made = expanded(
            quote!(out(count), borrow(metrics), array(items, many)),
            quote! {
                pub unsafe extern "C" fn umbo_x(
                    metrics: *const umbo_metrics,
                    items: *const i64,
                    many: i64,
                    count: *mut i64,
                ) -> umbo_status {
                    count.write(metrics.len());
                }
            },
        );
        let expected = quote! {
            pub unsafe extern "C" fn umbo_x(
                metrics: *const umbo_metrics,
                items: *const i64,
                many: i64,
                count: *mut i64,
            ) -> umbo_status {
                crate::ffi::boundary::boundary("umbo_x", move || {
                    let count = unsafe { crate::ffi::boundary::out(count, "count") }?;
                    crate::ffi::handle::borrow(metrics, "metrics", |metrics| {
                        let items = unsafe {
                            crate::ffi::boundary::array_of(items, (many, "many"), "items")
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
    fn a_function_without_a_status_fails_quietly() {
        let made = expanded(
            quote!(release(x)),
            quote! { pub unsafe extern "C" fn umbo_x_release(x: *const umbo_x) {} },
        );
        let expected = quote! {
            pub unsafe extern "C" fn umbo_x_release(x: *const umbo_x) {
                crate::ffi::boundary::quietly("umbo_x_release", move || {
                    crate::ffi::handle::release(x, "x")
                })
            }
        };
        assert_eq!(made, text(expected));
    }

    #[test]
    fn user_data_is_taken_over_before_anything_fails() {
        let made = expanded(
            quote!(gives(user_data, destroy), get(x)),
            quote! { fn umbo_x() -> umbo_status { x.run(user_data) } },
        );
        let expected = quote! {
            fn umbo_x() -> umbo_status {
                let user_data = unsafe {
                    crate::ffi::callback::UserData::new(user_data, destroy)
                };
                crate::ffi::boundary::boundary("umbo_x", move || {
                    let x = crate::ffi::handle::get(x, "x")?;
                    x.run(user_data)
                })
            }
        };
        assert_eq!(made, text(expected));
    }

    #[test]
    fn what_is_unknown_is_an_error_where_it_stands() {
        for arguments in [quote!(give(x)), quote!(out), quote!(out(x, y))] {
            assert!(
                expanded(
                    arguments,
                    quote!(
                        fn umbo_x() {}
                    )
                )
                .contains("compile_error")
            );
        }
    }
}
