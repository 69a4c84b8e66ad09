//! The list of all tensors of state that an optimizer keeps for each variable. All code that makes,
//! finds, saves or counts them asks this list.

use std::ops::Index;

use crate::rules::{Slot, UpdateRule};
use crate::state::average;
use umbo_base::error::{Error, Result};
use umbo_kernels::dtype::DType;
use umbo_kernels::float::real;
use umbo_kernels::update::eight_bit::CodeMap;
use umbo_tensor::values::variable::Variable;

/// Variables with fewer elements have states in full: what they take is little, and they are
/// biases and factors of normalisation, whose states are read at other scales.
pub(crate) const SMALLEST_CODED: usize = 4096;

/// The slots of one optimizer: those of its rule first, then its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotList {
    slots: Vec<Slot>,
    of_rule: usize,
    /// The index of that of the average of weights.
    average: Option<usize>,
    /// The maps by which the rule's slots can be kept in 8 bits.
    maps: Option<&'static [CodeMap]>,
    /// The rule's slots are kept so, where a variable is large enough.
    is_coded: bool,
}

impl SlotList {
    /// The slots of an optimizer that keeps what `rule` needs and, if it `averages`, an average of
    /// the weights. If it is `coded`, the rule's slots are kept in 8 bits.
    pub(crate) fn of(rule: &dyn UpdateRule, averages: bool, coded: bool) -> SlotList {
        let mut slots = rule.slots().to_vec();
        let of_rule = slots.len();
        if averages {
            slots.push(average::SLOT);
        }
        SlotList {
            slots,
            of_rule,
            average: averages.then_some(of_rule),
            maps: rule.code_maps(),
            is_coded: coded,
        }
    }

    /// Whether the rule's slots of large variables are kept in 8 bits.
    pub(crate) fn is_coded(&self) -> bool {
        self.is_coded
    }

    /// The maps by which the rule's slots can be kept in 8 bits; none if they cannot.
    pub(crate) fn maps(&self) -> &'static [CodeMap] {
        self.maps.unwrap_or_default()
    }

    /// Whether the rule's slots of `variable` are kept in 8 bits.
    pub(crate) fn codes(&self, variable: &Variable) -> bool {
        self.is_coded
            && real::computing(variable.dtype()) == DType::Float32
            && variable.shape().elements() >= SMALLEST_CODED
    }

    /// The index of the average of weights, if the optimizer keeps one.
    pub(crate) fn average(&self) -> Option<usize> {
        self.average
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slots in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Slot> {
        self.slots.iter()
    }

    /// The number of those that the rule reads and writes: the first ones.
    pub(crate) fn of_rule(&self) -> usize {
        self.of_rule
    }

    /// The number of the rule's slots that have an element for each of `variable`: the first ones.
    pub(crate) fn elementwise(&self, variable: &Variable) -> usize {
        let dimensions = variable.shape().len();
        let of_rule = self.slots[..self.of_rule].iter();
        of_rule
            .take_while(|slot| slot.extent.is_elementwise(dimensions))
            .count()
    }

    /// The index of the slot with this name. NotFound, with the names that there are, if the
    /// optimizer, whose rule is called `rule`, has none.
    pub(crate) fn index_of(&self, name: &str, rule: &str) -> Result<usize> {
        let found = self.slots.iter().position(|slot| slot.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.slots.iter().map(|slot| &*slot.name).collect();
            let known = match names.is_empty() {
                true => "nothing".to_owned(),
                false => names.join(", "),
            };
            Error::NotFound(format!("name: '{name}'; {rule} keeps {known}"))
        })
    }
}

impl Index<usize> for SlotList {
    type Output = Slot;

    fn index(&self, index: usize) -> &Slot {
        &self.slots[index]
    }
}

impl<'a> IntoIterator for &'a SlotList {
    type Item = &'a Slot;
    type IntoIter = std::slice::Iter<'a, Slot>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
