//! What a source file of the C layer declares, as C writes it. Functions with `#[c_call]` and structs with
//! `#[c_struct]` are declared as these attributes make them.

use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, BinOp, Expr, ExprLit, Field as SourceField, Fields, GenericArgument, Item as Source,
    ItemStruct, Lit, Meta, MetaNameValue, PathArguments, ReturnType, Token, Type, TypeBareFn, UnOp,
    Visibility,
};

/// Something that a source file declares.
pub struct Declaration {
    /// Its documentation, line by line.
    pub documentation: Vec<String>,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: DeclarationKind,
    /// Whether it is a struct that the caller begins with its size and its defaults.
    pub is_begun: bool,
}

/// What a source file can declare.
pub enum DeclarationKind {
    /// A constant with its value, and its type if that is not one of Rust's own.
    Constant { value: String, of: Option<String> },
    /// A struct that is known by its name only.
    Opaque,
    /// A struct with its fields.
    Struct(Vec<Field>),
    /// Another name of a type.
    Alias(String),
    /// A type of functions: what they return and take.
    Callback { returns: String, parameters: Vec<String> },
    /// A function: what it returns and takes.
    Function { returns: String, parameters: Vec<String> },
}

/// A field of a struct.
pub struct Field {
    /// Its documentation, line by line.
    pub documentation: Vec<String>,
    /// Its type and its name, as C writes them.
    pub declaration: String,
    /// What it is by default, if that is not zero.
    pub default: Option<String>,
}

/// What a source declares: constants, types, functions, each in its order.
pub fn items(source: &str) -> Result<Vec<Declaration>, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let mut items = Vec::new();
    for item in &file.items {
        let (visibility, name, attributes) = match item {
            Source::Const(item) => (&item.vis, &item.ident, &item.attrs),
            Source::Struct(item) => (&item.vis, &item.ident, &item.attrs),
            Source::Type(item) => (&item.vis, &item.ident, &item.attrs),
            Source::Fn(item) => (&item.vis, &item.sig.ident, &item.attrs),
            _ => continue,
        };
        let (is_public, name) = (matches!(visibility, Visibility::Public(_)), name.to_string());
        if is_public && name.to_lowercase().starts_with("umbo_") {
            let kind = kind(item).map_err(|problem| format!("{name}: {problem}"))?;
            let is_begun = attribute(attributes, "c_struct").is_some();
            let documentation = documentation(attributes);
            items.push(Declaration { documentation, name, kind, is_begun });
        }
    }
    items.sort_by_key(|item| match item.kind {
        DeclarationKind::Constant { .. } => 0,
        DeclarationKind::Function { .. } => 2,
        _ => 1,
    });
    Ok(items)
}

fn kind(item: &Source) -> Result<DeclarationKind, String> {
    Ok(match item {
        Source::Const(item) => {
            let of = Some(nameless(&item.ty)?).filter(|of| of.starts_with("umbo_"));
            DeclarationKind::Constant { value: value(&item.expr)?, of }
        }
        Source::Struct(item) => match &item.fields {
            Fields::Named(_) => DeclarationKind::Struct(fields(item)?),
            _ => DeclarationKind::Opaque,
        },
        Source::Type(item) => match callback(&item.ty) {
            None => DeclarationKind::Alias(nameless(&item.ty)?),
            Some(of) => {
                let named = |input: &syn::BareFnArg| {
                    let name = input.name.as_ref().map(|(name, _)| name.unraw().to_string());
                    declared(&input.ty, name.unwrap_or_default(), "")
                };
                let parameters = of.inputs.iter().map(named).collect::<Result<_, _>>()?;
                DeclarationKind::Callback { returns: returned(&of.output)?, parameters }
            }
        },
        Source::Fn(item) => {
            let named = |input: &syn::FnArg| match input {
                syn::FnArg::Typed(input) => match &*input.pat {
                    syn::Pat::Ident(name) => {
                        declared(&input.ty, name.ident.unraw().to_string(), "")
                    }
                    _ => Err("a nameless parameter".into()),
                },
                syn::FnArg::Receiver(_) => Err("a method".into()),
            };
            let mut parameters: Vec<_> =
                item.sig.inputs.iter().map(named).collect::<Result<_, _>>()?;
            if parameters.is_empty() {
                parameters.push("void".to_owned());
            }
            // The attribute adds the status that is returned, unless it says `quietly`.
            let is_quiet = |call: &Attribute| matches!(&call.meta, Meta::List(list) if list.tokens.to_string() == "quietly");
            let returns = match attribute(&item.attrs, "c_call") {
                Some(call) if !is_quiet(call) => "umbo_status".to_owned(),
                _ => returned(&item.sig.output)?,
            };
            DeclarationKind::Function { returns, parameters }
        }
        _ => return Err("C has no such thing".into()),
    })
}

/// The type of functions that an optional one is of.
fn callback(of: &Type) -> Option<&TypeBareFn> {
    let Type::Path(of) = of else { return None };
    match &of.path.segments.last()?.arguments {
        PathArguments::AngleBracketed(of) => match of.args.first()? {
            GenericArgument::Type(Type::BareFn(function)) => Some(function),
            _ => None,
        },
        _ => None,
    }
}

/// The declaration of something of this type. `what` is its name, with what stands around it in C, and `constant`
/// is "const " if it cannot be written.
fn declared(of: &Type, what: String, constant: &str) -> Result<String, String> {
    match of {
        Type::Ptr(of) => {
            let of_target = if of.const_token.is_some() { "const " } else { "" };
            declared(&of.elem, format!("*{constant}{what}"), of_target)
        }
        Type::Array(of) => declared(&of.elem, format!("{what}[{}]", value(&of.len)?), constant),
        Type::Path(of) => {
            let name = of.path.segments.last().ok_or("a nameless type")?.ident.to_string();
            let name = match name.as_str() {
                "c_char" => "char",
                "c_void" => "void",
                "f32" => "float",
                "f64" => "double",
                "i32" => "int32_t",
                "i64" => "int64_t",
                "u32" => "uint32_t",
                "u64" => "uint64_t",
                "usize" => "size_t",
                own if own.starts_with("umbo_") || own.starts_with("DL") => own,
                other => return Err(format!("C has no {other}")),
            };
            Ok(format!("{constant}{name} {what}"))
        }
        _ => Err("a type that C does not have".into()),
    }
}

fn nameless(of: &Type) -> Result<String, String> {
    declared(of, String::new(), "").map(|of| of.trim_end().to_owned())
}

fn returned(of: &ReturnType) -> Result<String, String> {
    match of {
        ReturnType::Default => Ok("void".into()),
        ReturnType::Type(_, of) => nameless(of),
    }
}

/// The fields of a struct, with the size that `#[c_struct]` adds and the defaults that it says.
fn fields(source: &ItemStruct) -> Result<Vec<Field>, String> {
    let (mut fields, mut defaults) = (Vec::new(), Punctuated::new());
    if let Some(begun) = attribute(&source.attrs, "c_struct") {
        let size = format!("sizeof({}).", source.ident);
        let declaration = "size_t struct_size".to_owned();
        fields.push(Field { documentation: vec![size], declaration, default: None });
        if let Meta::List(list) = &begun.meta {
            let parser = Punctuated::<MetaNameValue, Token![,]>::parse_terminated;
            defaults = list.parse_args_with(parser).map_err(|error| error.to_string())?;
        }
    }
    for SourceField { ident, ty, attrs, .. } in &source.fields {
        let name = ident.as_ref().ok_or("a nameless field")?;
        let default = defaults.iter().find(|default| default.path.is_ident(name));
        fields.push(Field {
            documentation: documentation(attrs),
            declaration: declared(ty, name.unraw().to_string(), "")?,
            default: default.map(|default| value(&default.value)).transpose()?,
        });
    }
    Ok(fields)
}

/// A number, as C writes it.
fn value(of: &Expr) -> Result<String, String> {
    match of {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => Ok(number.base10_digits().to_owned()),
        Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => Ok(number.to_string()),
        Expr::Unary(of) if matches!(of.op, UnOp::Neg(_)) => Ok(format!("-{}", value(&of.expr)?)),
        Expr::Binary(of) if matches!(of.op, BinOp::Shl(_)) => {
            Ok(format!("{} << {}", value(&of.left)?, value(&of.right)?))
        }
        // C converts by itself.
        Expr::Cast(of) => value(&of.expr),
        Expr::Path(of) => of.path.get_ident().map(ToString::to_string).ok_or("a path".into()),
        _ => Err("its value is no number".into()),
    }
}

/// The lines of documentation.
fn documentation(attributes: &[Attribute]) -> Vec<String> {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value()),
            _ => None,
        },
        _ => None,
    });
    lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned()).collect()
}

/// The attribute of this name.
fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|attribute| attribute.path().is_ident(name))
}
