//! How deep and how large nests may be.
//!
//! What is done with a nest is done item by item, on the stack of the thread that does it: the caller's
//! thread or a replica's. So a nest that can be built can be handled by all of them.

use crate::error::{Error, Result};
use crate::text::Text;

/// The most nests that may lie in one another: a tuple of tensors has depth 1, a struct of such
/// tuples depth 2.
pub const MAX_NEST_DEPTH: usize = 64;

/// The most values that a nest may consist of, itself and the nests in it counted, and each as often
/// as it appears.
pub const MAX_NEST_VALUES: usize = 1 << 20;

/// How deep a nest is, and how many values it consists of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NestSize {
    depth: usize,
    values: usize,
}

impl NestSize {
    /// Of a value that is no nest.
    pub(crate) const LEAF: NestSize = NestSize { depth: 0, values: 1 };

    /// Of a nest of items of these sizes.
    pub(crate) fn around(items: impl Iterator<Item = NestSize>) -> NestSize {
        let inside = items.fold(NestSize { depth: 0, values: 0 }, |all, item| NestSize {
            depth: all.depth.max(item.depth),
            values: all.values.saturating_add(item.values),
        });
        NestSize { depth: inside.depth + 1, values: inside.values.saturating_add(1) }
    }
}

/// Refuses a nest of this size if it is beyond the limits.
pub(crate) fn check(size: NestSize, argument: &'static str) -> Result<()> {
    let NestSize { depth, values } = size;
    let problem = if depth > MAX_NEST_DEPTH {
        format!(
            "the nest would be {depth} deep; {MAX_NEST_DEPTH} nests in one another are the most. \
             Put the items side by side, in one tuple or struct"
        )
    } else if values > MAX_NEST_VALUES {
        format!(
            "the nest would consist of {values} values, each counted as often as it appears; \
             {MAX_NEST_VALUES} are the most"
        )
    } else {
        return Ok(());
    };
    Err(Error::invalid(argument, problem))
}

/// Refuses fields of which two have one name.
pub(crate) fn check_names<T>(fields: &[(Text, T)]) -> Result<()> {
    for (position, (name, _)) in fields.iter().enumerate() {
        if fields[..position].iter().any(|(earlier, _)| earlier == name) {
            let problem = format!("'{name}' appears twice; give each field a name of its own");
            return Err(Error::invalid("names", problem));
        }
    }
    Ok(())
}
