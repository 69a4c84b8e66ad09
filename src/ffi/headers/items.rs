//! What a source file of the C layer declares, read from its syntax.

use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, BinOp, Expr, ExprLit, FnArg, GenericArgument, Item as Source, ItemFn, ItemStruct,
    Lit, Meta, MetaNameValue, Pat, PathArguments, ReturnType, Token, Type, UnOp, Visibility,
};

/// Something that a source file declares.
pub struct Item {
    /// Its documentation, line by line.
    pub documentation: Vec<String>,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a source file can declare.
pub enum Kind {
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
pub fn items(source: &str) -> Result<Vec<Item>, String> {
    let file = syn::parse_file(source).map_err(|error| error.to_string())?;
    let items = file.items.iter().filter_map(|item| one(item).transpose());
    let mut items = items.collect::<Result<Vec<_>, _>>()?;
    items.sort_by_key(|item| match item.kind {
        Kind::Constant { .. } => 0,
        Kind::Function { .. } => 2,
        _ => 1,
    });
    Ok(items)
}

/// What an item declares in C, if it does.
fn one(item: &Source) -> Result<Option<Item>, String> {
    let (visibility, name, attributes, kind) = match item {
        Source::Const(item) => {
            let of = written(&item.ty, false, String::new());
            let of = of.ok().filter(|of| of.starts_with("umbo_"));
            let kind = value(&item.expr).map(|value| Kind::Constant { value, of });
            (&item.vis, &item.ident, &item.attrs, kind)
        }
        Source::Struct(item) => {
            let is_laid_out = attribute(&item.attrs, "repr").is_some();
            let kind = if is_laid_out { fields(item) } else { Ok(Kind::Opaque) };
            (&item.vis, &item.ident, &item.attrs, kind)
        }
        Source::Type(item) => (&item.vis, &item.ident, &item.attrs, alias(&item.ty)),
        Source::Fn(item) => (&item.vis, &item.sig.ident, &item.attrs, function(item)),
        _ => return Ok(None),
    };
    let name = name.to_string();
    if !matches!(visibility, Visibility::Public(_)) || !name.to_lowercase().starts_with("umbo_") {
        return Ok(None);
    }
    let kind = kind.map_err(|problem| format!("{name}: {problem}"))?;
    Ok(Some(Item { documentation: documentation(attributes), name, kind }))
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

/// The value of a constant, as C writes it.
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

fn fields(of: &ItemStruct) -> Result<Kind, String> {
    let defaults = match attribute(&of.attrs, "c_struct") {
        Some(Attribute { meta: Meta::List(list), .. }) => {
            let parser = Punctuated::<MetaNameValue, Token![,]>::parse_terminated;
            list.parse_args_with(parser).map_err(|error| error.to_string())?
        }
        _ => Punctuated::new(),
    };
    let field = |field: &syn::Field| {
        let name = field.ident.as_ref().ok_or("a nameless field")?;
        let default = defaults.iter().find(|default| default.path.is_ident(name));
        Ok::<_, String>(Field {
            documentation: documentation(&field.attrs),
            declaration: written(&field.ty, false, name.unraw().to_string())?,
            default: default.map(|default| value(&default.value)).transpose()?,
        })
    };
    of.fields.iter().map(field).collect::<Result<_, _>>().map(Kind::Struct)
}

/// What a type is another name of. Functions are optional, since NULL is a pointer to none.
fn alias(of: &Type) -> Result<Kind, String> {
    if let Type::Path(path) = of
        && let Some(last) = path.path.segments.last()
        && let PathArguments::AngleBracketed(arguments) = &last.arguments
        && let Some(GenericArgument::Type(Type::BareFn(function))) = arguments.args.first()
    {
        let parameters = function.inputs.iter().map(|parameter| {
            let name = parameter.name.as_ref().map(|(name, _)| name.to_string());
            written(&parameter.ty, false, name.unwrap_or_default())
        });
        let parameters = parameters.collect::<Result<_, _>>()?;
        return Ok(Kind::Callback { returns: returned(&function.output)?, parameters });
    }
    written(of, false, String::new()).map(Kind::Alias)
}

/// A function with `#[c_call]`, or one that is written out. The attribute adds the status to what returns
/// nothing, unless it says `quietly`.
fn function(of: &ItemFn) -> Result<Kind, String> {
    let returns = match (&of.sig.output, attribute(&of.attrs, "c_call")) {
        (ReturnType::Default, Some(call)) if !is_quiet(call) => "umbo_status".to_owned(),
        (output, _) => returned(output)?,
    };
    let parameter = |parameter: &FnArg| match parameter {
        FnArg::Typed(typed) if let Pat::Ident(name) = &*typed.pat => {
            written(&typed.ty, false, name.ident.unraw().to_string())
        }
        _ => Err("a parameter without a name".to_owned()),
    };
    let mut parameters = of.sig.inputs.iter().map(parameter).collect::<Result<Vec<_>, _>>()?;
    if parameters.is_empty() {
        parameters.push("void".to_owned());
    }
    Ok(Kind::Function { returns, parameters })
}

/// Whether an attribute `c_call` says `quietly`.
fn is_quiet(call: &Attribute) -> bool {
    matches!(&call.meta, Meta::List(list) if list.tokens.to_string() == "quietly")
}

/// The attribute of this name.
fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|attribute| attribute.path().is_ident(name))
}

fn returned(output: &ReturnType) -> Result<String, String> {
    match output {
        ReturnType::Default => Ok("void".to_owned()),
        ReturnType::Type(_, of) => written(of, false, String::new()),
    }
}

/// The C declaration of something of a type; `inner` is its name with what is written around it.
fn written(of: &Type, is_const: bool, inner: String) -> Result<String, String> {
    match of {
        Type::Ptr(pointer) => {
            let inner = if is_const { format!("*const {inner}") } else { format!("*{inner}") };
            written(&pointer.elem, pointer.mutability.is_none(), inner)
        }
        Type::Array(array) => {
            written(&array.elem, is_const, format!("{inner}[{}]", value(&array.len)?))
        }
        Type::Path(path) => {
            let name = path.path.segments.last().map(|last| last.ident.to_string());
            let name = match name.unwrap_or_default().as_str() {
                "c_char" => "char".to_owned(),
                "c_void" => "void".to_owned(),
                "f32" => "float".to_owned(),
                "f64" => "double".to_owned(),
                "usize" => "size_t".to_owned(),
                name @ ("i32" | "i64") => format!("int{}_t", &name[1..]),
                name @ ("u8" | "u32" | "u64") => format!("uint{}_t", &name[1..]),
                name => name.to_owned(),
            };
            let start = if is_const { "const " } else { "" };
            Ok(format!("{start}{name} {inner}").trim_end().to_owned())
        }
        _ => Err("a type that C has not".into()),
    }
}
