//! The declarations of a source file of the C layer: cbindgen says how C writes it, and syn reads
//! what cbindgen does not, the attributes.
//!
//! cbindgen sees items as they stand in its source, and not what attributes make of them. So it is
//! given a source of its own, in which the functions with `#[c_call]` and the structs with
//! `#[c_struct]` are written out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process};

use cbindgen::{Builder, Config, Language, Layout, Style};
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, BinOp, Expr, ExprLit, Fields, File, Ident, Item as Source, ItemFn, ItemStruct, Lit,
    Meta, MetaNameValue, Token, Type, UnOp, Visibility, parse_quote,
};

/// Something that a source file declares.
pub struct Declaration {
    /// Its documentation, line by line.
    pub documentation: Vec<String>,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: DeclarationKind,
    /// Whether it is a struct that the caller begins with its size and its defaults.
    pub is_begun: bool,
}

impl Declaration {
    /// Whether it is a constant of the enum with this name.
    pub fn is_constant_of(&self, name: &str) -> bool {
        match &self.kind {
            DeclarationKind::Constant { enumeration, .. } => enumeration.as_deref() == Some(name),
            _ => false,
        }
    }
}

/// The kinds of declarations.
pub enum DeclarationKind {
    /// A constant with its value, and its type if that is not one of Rust's own.
    Constant {
        value: String,
        enumeration: Option<String>,
    },
    /// A struct that is known by its name only.
    Opaque,
    /// A struct with its fields.
    Struct(Vec<Field>),
    /// Another name of a type.
    Alias(String),
    /// A type of functions: what they return and take.
    Callback {
        returns: String,
        parameters: Vec<String>,
    },
    /// A function: what it returns and takes.
    Function {
        returns: String,
        parameters: Vec<String>,
    },
}

/// A field of a struct.
pub struct Field {
    /// Its documentation, line by line.
    pub documentation: Vec<String>,
    /// Its type and its name, as C writes them.
    pub declaration: String,
    /// Its default, if that is not zero.
    pub default: Option<String>,
}

impl Field {
    /// Whether it is the one that options and information begin with.
    pub fn is_size(&self) -> bool {
        self.declaration == "size_t struct_size"
    }
}

/// The declarations of a source: constants, types, functions, each in its order.
pub fn items(source: &str) -> Result<Vec<Declaration>, String> {
    let File { items, .. } = syn::parse_file(source).map_err(|error| error.to_string())?;
    let declared: Vec<_> = items.into_iter().filter_map(declared).collect();
    let mut written = in_c(&declared)?;
    let mut items = Vec::new();
    for (name, source) in &declared {
        let mut kind = written
            .remove(&name.to_string())
            .ok_or_else(|| format!("{name}: C has no such thing"))?;
        match (&mut kind, source) {
            (DeclarationKind::Struct(fields), Source::Struct(source)) => complete(fields, source)?,
            (DeclarationKind::Constant { enumeration, .. }, Source::Const(source)) => {
                *enumeration = enum_of(&source.ty)
            }
            _ => {}
        }
        let attributes = attributes(source);
        let name = name.to_string();
        let is_begun = attribute(attributes, "c_struct").is_some();
        items.push(Declaration {
            documentation: documentation(attributes),
            name,
            kind,
            is_begun,
        });
    }
    items.sort_by_key(|item| match item.kind {
        DeclarationKind::Constant { .. } => 0,
        DeclarationKind::Function { .. } => 2,
        _ => 1,
    });
    Ok(items)
}

/// The mark of a function from which no call returns: at the end as cbindgen writes it, and at the
/// beginning in the headers.
const NO_RETURN: &str = "UMBO_NO_RETURN";

/// The declaration of an item in the headers, if it has one: its name, and the item as cbindgen is
/// to see it.
fn declared(item: Source) -> Option<(Ident, Source)> {
    let (visibility, name) = match &item {
        Source::Const(item) => (&item.vis, &item.ident),
        Source::Struct(item) => (&item.vis, &item.ident),
        Source::Type(item) => (&item.vis, &item.ident),
        Source::Fn(item) => (&item.vis, &item.sig.ident),
        _ => return None,
    };
    let name = name.clone();
    let is_public = matches!(visibility, Visibility::Public(_));
    if !is_public || !name.to_string().to_lowercase().starts_with("umbo_") {
        return None;
    }
    match item {
        Source::Fn(function) => Some((name, Source::Fn(written_out(function)))),
        Source::Struct(item) => Some((name, Source::Struct(with_size(item)))),
        other => Some((name, other)),
    }
}

/// A function as `#[c_call]` makes it, without its body. The attribute adds the status that is
/// returned, unless it says `quietly`.
fn written_out(mut function: ItemFn) -> ItemFn {
    if let Some(call) = attribute(&function.attrs, "c_call") {
        let is_quiet =
            matches!(&call.meta, Meta::List(list) if list.tokens.to_string() == "quietly");
        if !is_quiet {
            function.sig.output = parse_quote!(-> umbo_status);
        }
        function.sig.abi = Some(parse_quote!(extern "C"));
        function.attrs.push(parse_quote!(#[unsafe(no_mangle)]));
    }
    *function.block = parse_quote!({});
    function
}

/// A struct as `#[c_struct]` makes it.
fn with_size(mut item: ItemStruct) -> ItemStruct {
    if attribute(&item.attrs, "c_struct").is_some()
        && let Fields::Named(fields) = &mut item.fields
    {
        let size = format!(" UMBO_STRUCT_SIZE({}).", item.ident);
        fields
            .named
            .insert(0, parse_quote!(#[doc = #size] pub struct_size: usize));
        item.attrs.push(parse_quote!(#[repr(C)]));
    }
    item
}

/// Has cbindgen write the declarations in C, and reads them by their names.
fn in_c(declared: &[(Ident, Source)]) -> Result<BTreeMap<String, DeclarationKind>, String> {
    let mut config = Config {
        language: Language::C,
        no_includes: true,
        documentation: false,
        usize_is_size_t: true,
        style: Style::Type,
        // One declaration is one line; what is too long is broken where it is put into a header.
        line_length: usize::MAX,
        ..Config::default()
    };
    config.function.args = Layout::Horizontal;
    config.function.no_return = Some(NO_RETURN.to_owned());
    // Also those that no function of the file takes.
    config.export.include = declared.iter().map(|(name, _)| name.to_string()).collect();
    let sources = declared.iter().map(|(_, source)| source);
    let source = quote!(#(#sources)*).to_string();

    // cbindgen reads files.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = env::temp_dir().join(format!("umbo-headers-{}-{number}.rs", process::id()));
    fs::write(&path, source).map_err(|error| format!("{}: {error}", path.display()))?;
    let bindings = Builder::new()
        .with_config(config)
        .with_src(&path)
        .generate();
    let _ = fs::remove_file(&path);

    let mut text = Vec::new();
    bindings
        .map_err(|error| error.to_string())?
        .write(&mut text);
    parse(&String::from_utf8(text).map_err(|error| error.to_string())?)
}

/// Reads what cbindgen has written.
fn parse(text: &str) -> Result<BTreeMap<String, DeclarationKind>, String> {
    let mut items = BTreeMap::new();
    let mut fields: Option<Vec<Field>> = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line == "typedef struct {" {
            fields = Some(Vec::new());
        } else if let Some(mut list) = fields.take() {
            if let Some(name) = line
                .strip_prefix("} ")
                .and_then(|line| line.strip_suffix(';'))
            {
                items.insert(name.to_owned(), DeclarationKind::Struct(list));
            } else {
                let declaration = line.trim_end_matches(';').to_owned();
                list.push(Field {
                    documentation: Vec::new(),
                    declaration,
                    default: None,
                });
                fields = Some(list);
            }
        } else {
            let (name, kind) = declaration(line).ok_or_else(|| format!("what is '{line}'?"))?;
            items.insert(name, kind);
        }
    }
    Ok(items)
}

/// The name and the kind of what one line declares.
fn declaration(line: &str) -> Option<(String, DeclarationKind)> {
    if let Some(define) = line.strip_prefix("#define ") {
        let (name, value) = define.split_once(' ')?;
        let value = value
            .strip_prefix('(')
            .and_then(|value| value.strip_suffix(')'))
            .unwrap_or(value);
        return Some((
            name.to_owned(),
            DeclarationKind::Constant {
                value: value.to_owned(),
                enumeration: None,
            },
        ));
    }
    let line = line.strip_suffix(';')?;
    let Some(definition) = line.strip_prefix("typedef ") else {
        let (line, start) = match line.strip_suffix(NO_RETURN) {
            Some(line) => (line.trim(), format!("{NO_RETURN} ")),
            None => (line, String::new()),
        };
        let (before, parameters) = line.strip_suffix(')')?.split_once('(')?;
        let name = &before[before.rfind([' ', '*'])? + 1..];
        let returns = start + before.strip_suffix(name)?.trim();
        let kind = DeclarationKind::Function {
            returns,
            parameters: list(parameters),
        };
        return Some((name.to_owned(), kind));
    };
    if let Some((returns, rest)) = definition.split_once("(*") {
        let (name, parameters) = rest.strip_suffix(')')?.split_once(")(")?;
        let returns = returns.trim().to_owned();
        return Some((
            name.to_owned(),
            DeclarationKind::Callback {
                returns,
                parameters: list(parameters),
            },
        ));
    }
    let (target, name) = definition.rsplit_once(' ')?;
    let kind = if target.starts_with("struct ") {
        DeclarationKind::Opaque
    } else {
        DeclarationKind::Alias(target.to_owned())
    };
    Some((name.to_owned(), kind))
}

fn list(parameters: &str) -> Vec<String> {
    parameters
        .split(',')
        .map(|parameter| parameter.trim().to_owned())
        .collect()
}

/// Adds to the fields of a struct their documentation, and the defaults that `#[c_struct]` says.
fn complete(fields: &mut [Field], source: &ItemStruct) -> Result<(), String> {
    let defaults = match attribute(&source.attrs, "c_struct") {
        Some(Attribute {
            meta: Meta::List(list),
            ..
        }) => {
            let parser = Punctuated::<MetaNameValue, Token![,]>::parse_terminated;
            list.parse_args_with(parser)
                .map_err(|error| error.to_string())?
        }
        _ => Punctuated::new(),
    };
    for (field, source) in fields.iter_mut().zip(&source.fields) {
        let name = source.ident.as_ref().ok_or("a nameless field")?;
        field.documentation = documentation(&source.attrs);
        let default = defaults.iter().find(|default| default.path.is_ident(name));
        field.default = default.map(|default| value(&default.value)).transpose()?;
    }
    Ok(())
}

/// The value of a default, as C writes it.
fn value(expression: &Expr) -> Result<String, String> {
    match expression {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => Ok(number.base10_digits().to_owned()),
        Expr::Lit(ExprLit {
            lit: Lit::Float(number),
            ..
        }) => Ok(number.to_string()),
        Expr::Unary(expression) if matches!(expression.op, UnOp::Neg(_)) => {
            Ok(format!("-{}", value(&expression.expr)?))
        }
        Expr::Binary(expression) if matches!(expression.op, BinOp::Shl(_)) => Ok(format!(
            "{} << {}",
            value(&expression.left)?,
            value(&expression.right)?
        )),
        // C converts by itself.
        Expr::Cast(expression) => value(&expression.expr),
        Expr::Path(expression) => expression
            .path
            .get_ident()
            .map(ToString::to_string)
            .ok_or("a path".into()),
        _ => Err("its value is not a number".into()),
    }
}

/// The type of a constant, if it is one of the C layer's.
fn enum_of(source: &Type) -> Option<String> {
    Some(source.to_token_stream().to_string()).filter(|name| name.starts_with("umbo_"))
}

/// The lines of documentation.
fn documentation(attributes: &[Attribute]) -> Vec<String> {
    let lines = attributes
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
                Expr::Lit(ExprLit {
                    lit: Lit::Str(line),
                    ..
                }) => Some(line.value()),
                _ => None,
            },
            _ => None,
        });
    lines
        .map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned())
        .collect()
}

fn attributes(item: &Source) -> &[Attribute] {
    match item {
        Source::Const(item) => &item.attrs,
        Source::Struct(item) => &item.attrs,
        Source::Type(item) => &item.attrs,
        Source::Fn(item) => &item.attrs,
        _ => &[],
    }
}

/// The attribute of this name.
fn attribute<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    attributes
        .iter()
        .find(|attribute| attribute.path().is_ident(name))
}
