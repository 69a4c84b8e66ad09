//! Gradients: the sums that runs have accumulated since the last update.

use serde::{Deserialize, Serialize};

use crate::numbers::{Count, NonNegative};
use crate::saveable::{Names, ObjectReader, ObjectRecord, PreparedRestore, Ready, Saveable};
use umbo_base::error::{Result, memory};
use umbo_device::DeviceId;
use umbo_optim::gradients::saved::{AccumulatedRuns, AccumulatedSum};
use umbo_optim::{Gradients, LossReduction};
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{DType, Shape, Tensor};

#[derive(Serialize, Deserialize)]
struct SavedGradients {
    loss_reduction: SavedReduction,
    runs: Count,
    weight: NonNegative,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedReduction {
    Sum,
    Mean,
    GlobalMean,
}

impl Saveable for Gradients {
    fn kind(&self) -> &'static str {
        "gradients"
    }

    fn strategy(&self) -> Option<u64> {
        Some(Gradients::strategy(self))
    }

    fn variables(&self) -> Vec<Variable> {
        Gradients::variables(self).to_vec()
    }

    fn asks_for_names(&self) -> bool {
        true
    }

    fn save(&self, names: &Names<'_>, record: &mut ObjectRecord) -> Result<()> {
        let AccumulatedRuns { runs, weight, sums } = self.export()?;
        for AccumulatedSum { index, rows, sum } in sums {
            let name = names.name(&Gradients::variables(self)[index])?;
            if let Some(rows) = rows {
                let mut numbers = memory::list(rows.len(), "rows of a gradient")?;
                numbers.extend(rows.iter().map(|&row| row as i64));
                let shape = Shape::new(&[rows.len()])?;
                let rows = Tensor::from_slice::<i64>(&numbers, shape, DeviceId::HOST)?;
                record.part(format!("{name}/rows"), rows);
            }
            record.part(format!("{name}/sum"), sum);
        }
        record.properties(&SavedGradients {
            loss_reduction: self.loss_reduction().into(),
            runs: Count(runs),
            weight: NonNegative(weight),
        })
    }

    fn prepare<'a>(&'a self, names: &Names<'_>, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let properties: Option<SavedGradients> = saved.properties();
        let reduction = SavedReduction::from(self.loss_reduction());
        let saved_reduction = properties
            .as_ref()
            .map_or(reduction, |saved| saved.loss_reduction);
        if saved_reduction != reduction {
            saved.differs(format!(
                "its loss reduction is {} here, {} in the file",
                reduction.in_words(),
                saved_reduction.in_words()
            ));
        }
        let mut sums = Vec::new();
        for (index, variable) in Gradients::variables(self).iter().enumerate() {
            sums.extend(read_sum(self, index, names.name(variable)?, saved)?);
        }
        let Some(SavedGradients { runs, weight, .. }) = properties else {
            return Ok(None);
        };
        let runs = self.prepare_import(AccumulatedRuns {
            runs: runs.0,
            weight: weight.0,
            sums,
        })?;
        Ok(Some(PreparedRestore::by(move |_| self.import(runs))))
    }
}

/// The sum of one variable, if the file has it.
fn read_sum(
    gradients: &Gradients,
    index: usize,
    name: &str,
    saved: &mut ObjectReader<'_>,
) -> Result<Option<AccumulatedSum>> {
    let variable = &gradients.variables()[index];
    let of_rows = format!("{name}/rows");
    let of_sum = format!("{name}/sum");
    if !saved.has_part(&of_sum) {
        return Ok(None);
    }
    if !gradients.is_row_sparse(index) {
        let sum = saved.tensor(Some(&of_sum), DType::Float64, variable.shape())?;
        return Ok(sum.map(|sum| AccumulatedSum {
            index,
            rows: None,
            sum,
        }));
    }
    let count = saved.rows(&of_sum).unwrap_or_default();
    let rows = saved.tensor(Some(&of_rows), DType::Int64, Shape::new(&[count])?)?;
    let shape = variable.shape().to_vec();
    let shape = Shape::new(&[&[count], &shape[1..]].concat())?;
    let sum = saved.tensor(Some(&of_sum), DType::Float64, shape)?;
    let (Some(rows), Some(sum)) = (rows, sum) else {
        return Ok(None);
    };
    let most = variable.shape()[0];
    let rows = rows.to_vec::<i64>()?;
    let within = rows
        .iter()
        .all(|&row| usize::try_from(row).is_ok_and(|row| row < most));
    if !within || !rows.is_sorted_by(|row, next| row < next) {
        saved.differs(format!(
            "'{of_rows}' in the file are not rows of [0, {most}), ascending"
        ));
        return Ok(None);
    }
    let rows = Some(rows.into_iter().map(|row| row as usize).collect());
    Ok(Some(AccumulatedSum { index, rows, sum }))
}

impl From<LossReduction> for SavedReduction {
    fn from(reduction: LossReduction) -> SavedReduction {
        match reduction {
            LossReduction::Sum => SavedReduction::Sum,
            LossReduction::Mean => SavedReduction::Mean,
            LossReduction::GlobalMean => SavedReduction::GlobalMean,
        }
    }
}

impl SavedReduction {
    /// The reduction in a message.
    fn in_words(self) -> &'static str {
        match self {
            SavedReduction::Sum => "a sum",
            SavedReduction::Mean => "a mean",
            SavedReduction::GlobalMean => "a global mean",
        }
    }
}
