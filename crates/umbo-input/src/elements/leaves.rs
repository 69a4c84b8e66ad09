//! The positions of the tensors in a dataset's elements.

use crate::elements::spec::{ElementSpec, LeafSpec};
use umbo_base::error::Result;
use umbo_tensor::Tensor;
use umbo_tensor::values::Value;

/// The path to each tensor of an element. Paths are computed once for all elements of a dataset: an
/// element may have thousands of tensors, and finding one must not walk over all those before it.
pub(crate) struct Leaves {
    /// The place where the path to each tensor ends in `steps`. It begins where the one before
    /// ends.
    ends: Vec<usize>,
    /// Positions in tuples and structs, from the outermost to the innermost.
    steps: Vec<usize>,
}

impl Leaves {
    /// The paths of elements like `spec`.
    pub(crate) fn of(spec: &ElementSpec) -> Leaves {
        let mut leaves = Leaves {
            ends: Vec::with_capacity(spec.leaves()),
            steps: Vec::new(),
        };
        leaves.add(spec, &mut Vec::new());
        leaves
    }

    fn add(&mut self, spec: &ElementSpec, way: &mut Vec<usize>) {
        if let ElementSpec::Leaf(_) | ElementSpec::PerReplica(..) = spec {
            self.steps.extend_from_slice(way);
            self.ends.push(self.steps.len());
        }
        for (position, item) in spec.items().iter().enumerate() {
            way.push(position);
            self.add(item, way);
            way.pop();
        }
    }

    /// The number of tensors.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    fn way(&self, leaf: usize) -> Option<&[usize]> {
        let start = leaf
            .checked_sub(1)
            .map_or(Some(&0), |before| self.ends.get(before))?;
        self.steps.get(*start..*self.ends.get(leaf)?)
    }

    /// The tensor of an element at position `leaf`. INVALID_ARGUMENT if the element does not match
    /// its spec.
    pub(crate) fn tensor<'a>(&self, element: &'a Value, leaf: usize) -> Result<&'a Tensor> {
        let found = self.way(leaf).and_then(|way| {
            let found = way
                .iter()
                .try_fold(element, |value, &at| value.items().get(at));
            match found {
                Some(Value::Tensor(tensor)) => Some(tensor),
                _ => None,
            }
        });
        found.ok_or_else(|| {
            invalid!(
                "dataset",
                "an element has no tensor {leaf}, as its spec says"
            )
        })
    }

    /// The spec of the tensor at position `leaf`. `spec` is that of the elements.
    pub(crate) fn spec<'a>(&self, spec: &'a ElementSpec, leaf: usize) -> Option<&'a LeafSpec> {
        let mut way = self.way(leaf)?.iter();
        let found = way.try_fold(spec, |spec, &position| spec.items().get(position));
        found.and_then(|spec| spec.leaf().ok())
    }
}

/// Returns one tensor of an element, as [`Leaves::tensor`] does.
pub(crate) type LeafOf<'l> = &'l dyn for<'a> Fn(&'a Value) -> Result<&'a Tensor>;

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_tensor::DType;

    #[test]
    fn tensors_of_nests_are_found_in_order() {
        let number = |number: i32| Value::Tensor(Tensor::scalar(number).unwrap());
        let field = |name: &str, value| (name.into(), value);
        let inner = Value::structure(vec![field("a", number(1)), field("b", number(2))]).unwrap();
        let element = Value::tuple(vec![number(0), inner, Value::nothing(), number(3)]).unwrap();
        let leaf = || {
            ElementSpec::Leaf(LeafSpec {
                dtype: DType::Int32,
                shape: vec![],
            })
        };
        let fields = vec![("a".into(), leaf()), ("b".into(), leaf())];
        let spec = ElementSpec::tuple(vec![
            leaf(),
            ElementSpec::structure(fields).unwrap(),
            ElementSpec::tuple(Vec::new()).unwrap(),
            leaf(),
        ])
        .unwrap();
        let leaves = Leaves::of(&spec);
        assert_eq!(leaves.count(), 4);
        for leaf in 0..4 {
            let found = leaves
                .tensor(&element, leaf)
                .unwrap()
                .to_vec::<i32>()
                .unwrap();
            assert_eq!(found, [leaf as i32]);
            assert_eq!(leaves.spec(&spec, leaf).unwrap().dtype, DType::Int32);
        }
        assert!(leaves.tensor(&element, 4).is_err() && leaves.spec(&spec, 4).is_none());
        assert!(leaves.tensor(&number(7), 0).is_err());
        let single = Leaves::of(&leaf());
        assert!(single.tensor(&number(7), 0).is_ok() && single.tensor(&element, 0).is_err());
    }
}
