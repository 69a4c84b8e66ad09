//! Quantities that must be equal on all ranks. Each has a name. They are hashed in each collective,
//! and formatted only if ranks differ.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The value of a quantity on this rank.
#[derive(Clone, Copy, Debug)]
pub enum Quantity<'a> {
    Count(u64),
    Number(f64),
    Flag(bool),
    Sizes(&'a [usize]),
    Words(&'a str),
    /// The rank has no such quantity.
    Nothing,
}

/// A function that takes one quantity, with its name.
pub type AddQuantity<'a> = dyn FnMut(&dyn fmt::Display, Quantity<'_>) + 'a;

/// A function that passes all quantities of a rank to an [`AddQuantity`], always in the same order.
pub type Quantities<'a> = dyn Fn(&mut AddQuantity<'_>) + 'a;

macro_rules! quantities {
    ($($type:ty => $Variant:ident),+ $(,)?) => { $(
        impl<'a> From<$type> for Quantity<'a> {
            fn from(quantity: $type) -> Self {
                Quantity::$Variant(quantity as _)
            }
        }
    )+ };
}

quantities! {
    u64 => Count, usize => Count, f64 => Number, bool => Flag,
    &'a str => Words, &'a [usize] => Sizes,
}

impl<'a, T: Into<Quantity<'a>>> From<Option<T>> for Quantity<'a> {
    fn from(quantity: Option<T>) -> Self {
        quantity.map_or(Quantity::Nothing, Into::into)
    }
}

impl Hash for Quantity<'_> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        std::mem::discriminant(self).hash(to);
        match self {
            Quantity::Count(count) => count.hash(to),
            Quantity::Number(number) => number.to_bits().hash(to),
            Quantity::Flag(flag) => flag.hash(to),
            Quantity::Sizes(sizes) => sizes.hash(to),
            Quantity::Words(words) => words.hash(to),
            Quantity::Nothing => {}
        }
    }
}

impl fmt::Display for Quantity<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Count(count) => write!(to, "{count}"),
            Quantity::Number(number) => write!(to, "{number}"),
            Quantity::Flag(true) => to.write_str("yes"),
            Quantity::Flag(false) => to.write_str("no"),
            Quantity::Sizes(sizes) => write!(to, "{sizes:?}"),
            Quantity::Words(words) => write!(to, "'{words}'"),
            Quantity::Nothing => to.write_str("nothing"),
        }
    }
}

/// A hash that is the same in all processes.
pub fn agreement(value: &impl Hash) -> u64 {
    // With fixed keys, unlike that of a `HashMap`.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The hash of quantities; 0 if there are none. Names are not hashed: they follow from the
/// operation.
pub fn agreement_of(quantities: &Quantities<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut any = false;
    quantities(&mut |_, quantity| {
        quantity.hash(&mut hasher);
        any = true;
    });
    if any { hasher.finish().max(1) } else { 0 }
}

/// The hash of each quantity and all before it.
pub(super) fn prefixes(quantities: &Quantities<'_>) -> Vec<u64> {
    let mut hasher = DefaultHasher::new();
    let mut prefixes = Vec::new();
    quantities(&mut |_, quantity| {
        quantity.hash(&mut hasher);
        prefixes.push(hasher.finish());
    });
    prefixes
}
