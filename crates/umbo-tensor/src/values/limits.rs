//! Limits for the depth and the size of nests.
//!
//! Functions process a nest item by item, on the stack of their thread: the caller's thread or a
//! replica's. So all functions can process every nest that can be built.

use umbo_base::error::{Error, Result};

/// The largest depth of a nest: a tuple of tensors has depth 1, and a struct of such tuples depth
/// 2.
pub const MAX_NEST_DEPTH: usize = 64;

/// The largest number of values in a nest. It counts the nest itself, the nests in it, and each
/// value as often as it appears.
pub const MAX_NEST_VALUES: usize = 1 << 20;

/// The depth of a nest, and the number of its values.
#[derive(Clone, Copy, Debug)]
pub struct NestSize {
    depth: usize,
    values: usize,
}

impl NestSize {
    /// The size of a value that is not a nest.
    pub const LEAF: NestSize = NestSize {
        depth: 0,
        values: 1,
    };

    /// The size of a nest with items of these sizes.
    pub(crate) fn around(items: impl Iterator<Item = NestSize>) -> NestSize {
        let inside = items.fold(
            NestSize {
                depth: 0,
                values: 0,
            },
            |all, item| NestSize {
                depth: all.depth.max(item.depth),
                values: all.values.saturating_add(item.values),
            },
        );
        NestSize {
            depth: inside.depth + 1,
            values: inside.values.saturating_add(1),
        }
    }
}

/// Refuses a nest of this size if it exceeds the limits.
pub fn check(size: NestSize, argument: &'static str) -> Result<()> {
    let NestSize { depth, values } = size;
    let problem = if depth > MAX_NEST_DEPTH {
        format!(
            "the nest would be {depth} deep; at most {MAX_NEST_DEPTH} nests can be in one another. \
             Put the items side by side, in one tuple or struct"
        )
    } else if values > MAX_NEST_VALUES {
        format!(
            "the nest would consist of {values} values, each counted as often as it appears; \
             at most {MAX_NEST_VALUES} are possible"
        )
    } else {
        return Ok(());
    };
    Err(Error::invalid(argument, problem))
}
