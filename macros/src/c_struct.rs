//! The expansion of `#[c_struct]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Error, Expr, Fields, FieldsNamed, Ident, ItemStruct, Result, Token, Type, parse_quote, parse2,
};

/// The default of a field, such as `keep = 5`.
struct Field {
    name: Ident,
    value: Expr,
}

impl Parse for Field {
    fn parse(input: ParseStream<'_>) -> Result<Field> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Field { name, value: input.parse()? })
    }
}

pub(crate) fn expand(defaults: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let defaults = Punctuated::<Field, Token![,]>::parse_terminated.parse2(defaults)?;
    let mut item: ItemStruct = parse2(item)?;
    check(&item)?;
    let name = item.ident.clone();
    let Fields::Named(FieldsNamed { named: fields, .. }) = &mut item.fields else {
        return Err(Error::new(name.span(), "the fields of a struct for C have names"));
    };
    let size = format!(" sizeof({name}).");
    fields.insert(0, parse_quote!(#[doc = #size] pub struct_size: usize));
    let set = defaults.iter().map(|Field { name, value }| quote!(options.#name = #value;));
    Ok(quote! {
        #[derive(Clone, Copy)]
        #[repr(C)]
        #item

        unsafe impl crate::ffi::options::Extensible for #name {}

        impl Default for #name {
            fn default() -> Self {
                let mut options: Self = unsafe { ::std::mem::zeroed() };
                options.struct_size = size_of::<Self>();
                #(#set)*
                options
            }
        }
    })
}

/// Refuses Rust features that C does not have.
fn check(item: &ItemStruct) -> Result<()> {
    for field in &item.fields {
        let plain = match &field.ty {
            Type::Path(path) => !["bool", "char"].iter().any(|name| path.path.is_ident(name)),
            other => matches!(other, Type::Ptr(_) | Type::Array(_)),
        };
        if !plain {
            return Err(Error::new_spanned(&field.ty, "not any bits are a value of this type"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_zero() {
        let item = quote! {
            pub struct umbo_x {
                pub keep: i64,
                pub rest: f64,
            }
        };
        let expected = quote! {
            #[derive(Clone, Copy)]
            #[repr(C)]
            pub struct umbo_x {
                #[doc = " sizeof(umbo_x)."]
                pub struct_size: usize,
                pub keep: i64,
                pub rest: f64,
            }

            unsafe impl crate::ffi::options::Extensible for umbo_x {}

            impl Default for umbo_x {
                fn default() -> Self {
                    let mut options: Self = unsafe { ::std::mem::zeroed() };
                    options.struct_size = size_of::<Self>();
                    options.keep = 5;
                    options
                }
            }
        };
        let made = expand(quote!(keep = 5), item).unwrap();
        assert_eq!(made.to_string(), expected.to_string());
    }

    #[test]
    fn what_c_has_not_is_refused() {
        for item in [
            quote! { struct umbo_x(i64); },
            quote! { struct umbo_x { yes: bool } },
            quote! { struct umbo_x { function: fn() } },
            quote! { struct umbo_x { name: &'static i8 } },
        ] {
            assert!(expand(TokenStream::new(), item).is_err());
        }
    }
}
