//! Adafactor.

use crate::rules::{
    FactoredRule, Rates, Scalars, Slot, SlotExtent, UpdateRule, VariableProgress, WeightDecay,
    check_not_negative,
};
use umbo_base::error::Result;

/// Adafactor (Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost",
/// 2018), in PyTorch's form. A variable of two dimensions or more is matrices, of r rows and c
/// columns; of the squares of its gradient it keeps the moving means of their rows, in the slot
/// `v_row`, and of their columns, in `v_column`. In update t, with s = t^`beta2_decay`:
///
/// - R ← R + s·(the means over columns of g² − R), C ← C + s·(the means over rows of g² − C)
/// - v = R·C / max(ε₁, the mean of R)
/// - for variables of fewer dimensions: v ← v + s·(g² − v), in the slot `v`
/// - u = g / √max(v, ε₁²)
/// - α = max(ε₂, RMS(w))·min(η, 1/√t)
/// - w ← (1 − η·λ)·w − α / max(1, RMS(u)/d)·u
///
/// RMS is the root of the mean of the squares, over the variable.
#[derive(Clone, Copy, Debug)]
pub struct Adafactor {
    weight_decay: f64,
    numbers: FactoredRule,
}

impl Adafactor {
    /// The rule with these numbers, and `weight_decay` (λ), finite and at least 0.
    pub fn new(numbers: FactoredRule, weight_decay: f64) -> Result<Adafactor> {
        built_with!("rules-extra", "the rule adafactor");
        let FactoredRule {
            beta2_decay,
            clip_threshold,
            epsilon1,
            epsilon2,
        } = numbers;
        if !(beta2_decay.is_finite() && beta2_decay <= 0.0) {
            return Err(invalid!(
                "beta2_decay",
                "{beta2_decay}; must be finite and at most 0"
            ));
        }
        if !(clip_threshold.is_finite() && clip_threshold >= 1.0) {
            return Err(invalid!(
                "clip_threshold",
                "{clip_threshold}; must be finite and at least 1"
            ));
        }
        if let Some(epsilon1) = epsilon1
            && !(epsilon1.is_finite() && epsilon1 > 0.0 && (epsilon1 * epsilon1) as f32 > 0.0)
        {
            return Err(invalid!(
                "epsilon1",
                "{epsilon1}; its square must be finite and more than 0 as a float32, or epsilon1 \
                 itself 0 for that of the variable's type"
            ));
        }
        check_not_negative("epsilon2", epsilon2)?;
        check_not_negative("weight_decay", weight_decay)?;
        Ok(Adafactor {
            weight_decay,
            numbers,
        })
    }
}

impl UpdateRule for Adafactor {
    fn name(&self) -> &str {
        "adafactor"
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("beta2_decay", self.numbers.beta2_decay),
            ("epsilon1", self.numbers.epsilon1.unwrap_or(0.0)),
            ("epsilon2", self.numbers.epsilon2),
            ("clip_threshold", self.numbers.clip_threshold),
            ("weight_decay", self.weight_decay),
        ]
    }

    fn slots(&self) -> &[Slot] {
        // Elementwise ones come first.
        static SLOTS: [Slot; 3] = [
            Slot::with_extent("v", 0.0, SlotExtent::ElementsOfVectors),
            Slot::with_extent("v_row", 0.0, SlotExtent::RowsOfMatrices),
            Slot::with_extent("v_column", 0.0, SlotExtent::ColumnsOfMatrices),
        ];
        &SLOTS
    }

    fn weight_decay(&self) -> WeightDecay {
        WeightDecay::Decoupled
    }

    fn default_weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        Ok(Scalars::counted(rates, progress.running))
    }

    fn measures(&self) -> bool {
        true
    }

    fn factored_rule(&self) -> Option<&FactoredRule> {
        Some(&self.numbers)
    }
}
