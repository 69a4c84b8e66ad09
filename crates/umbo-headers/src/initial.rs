//! The initial values of structs: the macros `UMBO_X_INIT`.

use std::collections::BTreeMap;

use crate::SourceItems;
use crate::items::{Declaration, DeclarationKind, Field};
use crate::layout::define;

/// The initial value of a field, by the type of the C layer that it has.
pub(crate) type Zeros = BTreeMap<String, String>;

/// The initial values of fields of the types that the sources declare.
pub(crate) fn zeros(sources: &SourceItems) -> Result<Zeros, String> {
    let items = || sources.values().flatten();
    let mut zeros = Zeros::new();
    for Declaration { name, kind, .. } in items() {
        let zero = match kind {
            DeclarationKind::Alias(target) if target == "int32_t" => {
                format!("UMBO_ENUM_VALUE({name}, 0)")
            }
            DeclarationKind::Callback { .. } => "NULL".to_owned(),
            _ => continue,
        };
        zeros.insert(name.clone(), zero);
    }
    for Declaration { name, kind, .. } in items() {
        if let DeclarationKind::Constant {
            value,
            enumeration: Some(enumeration),
        } = kind
            && value == "0"
        {
            zeros.insert(enumeration.clone(), name.clone());
        }
    }
    // Those that are fields of others: they do not begin with their size.
    for Declaration { name, kind, .. } in items() {
        if let DeclarationKind::Struct(fields) = kind
            && !fields.first().is_some_and(Field::is_size)
        {
            let values = fields.iter().map(|field| initial(field, &zeros));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            zeros.insert(name.clone(), format!("{{ {} }}", values.join(", ")));
        }
    }
    Ok(zeros)
}

/// The initial value of a field.
pub(crate) fn initial(field: &Field, zeros: &Zeros) -> Result<String, String> {
    if let Some(value) = &field.default {
        return Ok(value.clone());
    }
    let declaration = &field.declaration;
    let unreadable = || format!("nothing is known to begin '{declaration}' with");
    let (declaration, count) = match declaration.split_once('[') {
        Some((before, count)) => {
            let count = count
                .trim_end_matches(']')
                .parse()
                .map_err(|_| unreadable())?;
            (before, Some(count))
        }
        None => (declaration.as_str(), None),
    };
    let kind = declaration[..declaration.rfind([' ', '*']).ok_or_else(unreadable)? + 1].trim();
    let zero = match kind {
        "double" | "float" => "0.0",
        _ if kind.ends_with('*') => "NULL",
        _ if kind.ends_with("_t") => "0",
        _ => zeros.get(kind).ok_or_else(unreadable)?,
    };
    Ok(count.map_or(zero.to_owned(), |count| {
        format!("{{ {} }}", vec![zero; count].join(", "))
    }))
}

/// The macros that begin a struct with its size and its defaults.
pub(crate) fn initialiser(name: &str, fields: &[Field], zeros: &Zeros) -> Result<String, String> {
    let mut values = vec![format!("UMBO_STRUCT_SIZE({name})")];
    for field in &fields[1..] {
        values.push(initial(field, zeros).map_err(|problem| format!("{name}: {problem}"))?);
    }
    let values = values.join(", ");
    let macro_name = format!("{}_INIT", name.to_uppercase());
    if !name.ends_with("_options") {
        return Ok(format!(
            "\n{}",
            define(&macro_name, &format!("{{ {values} }}"))
        ));
    }
    let defaults = format!("{name}_defaults");
    let list = define(&defaults, &values);
    Ok(format!(
        "\n{list}{}",
        define(&macro_name, &format!("{{ {defaults} }}"))
    ))
}
