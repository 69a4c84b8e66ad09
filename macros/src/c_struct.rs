//! The expansion of `#[c_struct]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Error, Expr, Field, Fields, FieldsNamed, Ident, ItemStruct, Result, Token, Type, TypePtr,
    parse_quote, parse2,
};

/// The default of a field, such as `keep = 5`.
struct FieldDefault {
    name: Ident,
    value: Expr,
}

impl Parse for FieldDefault {
    fn parse(input: ParseStream<'_>) -> Result<FieldDefault> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(FieldDefault {
            name,
            value: input.parse()?,
        })
    }
}

/// How many elements an array has, such as `counted_by(axis_count)`.
struct Count {
    field: Ident,
    /// The array may be absent where its elements are counted.
    is_optional: bool,
}

impl Parse for Count {
    fn parse(input: ParseStream<'_>) -> Result<Count> {
        let field = input.parse()?;
        let is_optional = input.parse::<Option<Token![,]>>()?.is_some();
        if is_optional {
            let word: Ident = input.parse()?;
            if word != "optional" {
                return Err(Error::new(word.span(), "`optional` is expected"));
            }
        }
        Ok(Count { field, is_optional })
    }
}

pub(crate) fn expand(defaults: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let defaults = Punctuated::<FieldDefault, Token![,]>::parse_terminated.parse2(defaults)?;
    let mut item: ItemStruct = parse2(item)?;
    check(&item)?;
    let name = item.ident.clone();
    let Fields::Named(FieldsNamed { named: fields, .. }) = &mut item.fields else {
        return Err(Error::new(
            name.span(),
            "the fields of a struct for C have names",
        ));
    };
    let mut checks = TokenStream::new();
    for field in fields.iter_mut() {
        checks.extend(check_of_array(field)?);
    }
    let size = format!(" UMBO_STRUCT_SIZE({name}).");
    let text = name.to_string();
    fields.insert(0, parse_quote!(#[doc = #size] pub struct_size: usize));
    let names = fields
        .iter()
        .filter_map(|field| Some(field.ident.as_ref()?.unraw().to_string()));
    let names: Vec<String> = names.collect();
    let set = defaults
        .iter()
        .map(|FieldDefault { name, value }| quote!(options.#name = #value;));
    Ok(quote! {
        #[derive(Clone, Copy)]
        #[repr(C)]
        #item

        unsafe impl crate::machinery::options::Extensible for #name {
            const NAME: &'static str = #text;
            const FIELDS: &'static [&'static str] = &[#(#names),*];

            fn check_arrays(&self, argument: &'static str) -> umbo_core::error::Result<()> {
                #checks
                Ok(())
            }
        }

        impl Default for #name {
            fn default() -> Self {
                let mut options: Self = unsafe { ::std::mem::zeroed() };
                options.struct_size = crate::machinery::options::struct_size::<Self>();
                #(#set)*
                options
            }
        }
    })
}

/// Takes the attribute of an array from a field. Returns the code that checks the array and its
/// count against each other. An array without an attribute is refused, so that no struct forgets
/// the check.
fn check_of_array(field: &mut Field) -> Result<Option<TokenStream>> {
    let is_about_count =
        |path: &syn::Path| path.is_ident("counted_by") || path.is_ident("counted_by_function");
    let at = field
        .attrs
        .iter()
        .position(|attribute| is_about_count(attribute.path()));
    let attribute = at.map(|at| field.attrs.remove(at));
    let Some(attribute) = attribute else {
        return match is_array(&field.ty) {
            true => Err(Error::new_spanned(
                &*field,
                "an array needs `#[counted_by(FIELD)]` or `#[counted_by_function]`",
            )),
            false => Ok(None),
        };
    };
    if attribute.path().is_ident("counted_by_function") {
        return Ok(None);
    }
    let Count {
        field: count,
        is_optional,
    } = attribute.parse_args()?;
    let array = field.ident.as_ref().expect("the fields have names");
    let array_name = array.to_string();
    let count_name = count.to_string();
    Ok(Some(quote! {
        crate::machinery::options::check_array(
            argument,
            crate::machinery::options::ArrayField {
                name: #array_name,
                is_null: self.#array.is_null(),
                is_optional: #is_optional,
            },
            crate::machinery::pointers::Count::new(self.#count.into(), #count_name),
        )?;
    }))
}

/// Whether a field is an array of numbers or texts. Other pointers lead to a text, an object, or
/// something of the program's.
fn is_array(kind: &Type) -> bool {
    let Type::Ptr(TypePtr { elem, .. }) = kind else {
        return false;
    };
    match &**elem {
        Type::Ptr(_) => true,
        Type::Path(path) => path.path.get_ident().is_some_and(|name| {
            [
                "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "usize", "f32", "f64",
            ]
            .iter()
            .any(|number| name == number)
        }),
        _ => false,
    }
}

/// Refuses Rust features that C does not have.
fn check(item: &ItemStruct) -> Result<()> {
    for field in &item.fields {
        let plain = match &field.ty {
            Type::Path(path) => !["bool", "char"].iter().any(|name| path.path.is_ident(name)),
            other => matches!(other, Type::Ptr(_) | Type::Array(_)),
        };
        if !plain {
            return Err(Error::new_spanned(
                &field.ty,
                "not any bits are a value of this type",
            ));
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
                #[doc = " UMBO_STRUCT_SIZE(umbo_x)."]
                pub struct_size: usize,
                pub keep: i64,
                pub rest: f64,
            }

            unsafe impl crate::machinery::options::Extensible for umbo_x {
                const NAME: &'static str = "umbo_x";
                const FIELDS: &'static [&'static str] = &["struct_size", "keep", "rest"];

                fn check_arrays(&self, argument: &'static str) -> umbo_core::error::Result<()> {
                    Ok(())
                }
            }

            impl Default for umbo_x {
                fn default() -> Self {
                    let mut options: Self = unsafe { ::std::mem::zeroed() };
                    options.struct_size = crate::machinery::options::struct_size::<Self>();
                    options.keep = 5;
                    options
                }
            }
        };
        let made = expand(quote!(keep = 5), item).unwrap();
        assert_eq!(made.to_string(), expected.to_string());
    }

    #[test]
    fn an_array_is_checked_against_its_count() {
        let item = quote! {
            struct umbo_x {
                axis_count: i64,
                #[counted_by(axis_count)]
                axes: *const i32,
                #[counted_by(axis_count, optional)]
                names: *const *const c_char,
                #[counted_by_function]
                shape: *const i64,
                handle: *const umbo_x,
                text: *const c_char,
                user_data: *mut c_void,
            }
        };
        let made = expand(TokenStream::new(), item).unwrap().to_string();
        for (array, is_optional, name) in [
            (quote!(axes), false, "axes"),
            (quote!(names), true, "names"),
        ] {
            let check = quote! {
                crate::machinery::options::check_array(
                    argument,
                    crate::machinery::options::ArrayField {
                        name: #name,
                        is_null: self.#array.is_null(),
                        is_optional: #is_optional,
                    },
                    crate::machinery::pointers::Count::new(self.axis_count.into(), "axis_count"),
                )?;
            };
            assert!(made.contains(&check.to_string()), "{made}");
        }
        assert_eq!(made.matches("check_array (").count(), 2);
        assert!(!made.contains("counted_by"));
    }

    #[test]
    fn an_array_without_a_count_is_refused() {
        for array in [
            quote!(*const i32),
            quote!(*mut f64),
            quote!(*const usize),
            quote!(*const *const c_char),
            quote!(*const *mut umbo_x),
        ] {
            let error = expand(
                TokenStream::new(),
                quote! { struct umbo_x { array: #array } },
            )
            .unwrap_err();
            assert!(error.to_string().contains("counted_by"), "{error}");
        }
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
