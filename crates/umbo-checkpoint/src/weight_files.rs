//! Variables alone, read from safetensors files of Umbo or of other programs.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::bundle::Checkpoint;
use crate::conversion::converted;
use crate::mismatch::refuse;
use crate::reader::{CheckpointFile, dtype_of};
use crate::wanted::{PendingTensor, WantedTensors};
use umbo_base::error::{Error, Result};
use umbo_tensor::values::variable::Variable;

/// The variables that are loaded, and the tensors of the file that they are loaded from.
#[derive(Default)]
pub struct LoadWeightsOptions<'a> {
    /// The names of variables in the checkpoint, each with the name of its tensor in the file.
    /// `None`: all variables, from tensors with their own names.
    pub pairs: Option<&'a [(&'a str, &'a str)]>,
    /// The beginning that all names of tensors have in the file.
    pub prefix: &'a str,
    /// The name of the variable that a tensor is for, by the tensor's name; `None`: it is for none.
    /// It stands for the names of tensors in `pairs`, and for the prefix.
    pub map_name: Option<&'a mut MapName<'a>>,
    /// Whether a tensor may have a floating-point type other than its variable. Its elements are
    /// rounded to the nearest number of the variable's type, ties to even.
    pub convert_floats: bool,
    /// Whether variables of which the file has no tensor keep their values. Otherwise they are
    /// differences.
    pub allow_missing: bool,
}

/// Maps the name of a tensor to that of its variable.
pub type MapName<'a> = dyn FnMut(&str) -> Result<Option<String>> + 'a;

/// The account of a load, by names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LoadedWeights {
    /// The variables that were chosen, each with the tensor that it was loaded from; `None`: the
    /// file has none for it, and it has kept its value.
    pub variables: Vec<(String, Option<String>)>,
    /// Tensors of the file that no variable was loaded from.
    pub unused: Vec<String>,
}

/// A variable that is to be loaded, and its tensor.
struct ChosenVariable<'a> {
    name: &'a str,
    variable: &'a Variable,
    /// The name of the tensor, unless no name was mapped to the variable's.
    tensor: Option<String>,
}

impl Checkpoint {
    /// Sets variables to the values of tensors in the safetensors file at `path`, which any program
    /// may have written. `pairs` has names of variables in this checkpoint, each with the name
    /// of its tensor in the file. Without it, all variables are set from tensors with their own
    /// names. All other tensors in the file are ignored, and all other state is unchanged.
    ///
    /// INVALID_ARGUMENT, with a list of all differences, if a tensor is missing or has another
    /// dtype or shape; then nothing is changed. NOT_FOUND: no such variable.
    pub fn load_weights(&self, path: &Path, pairs: Option<&[(&str, &str)]>) -> Result<()> {
        let options = LoadWeightsOptions {
            pairs,
            ..LoadWeightsOptions::default()
        };
        self.load_weights_from(&CheckpointFile::open(path)?, options)
            .map(|_| ())
    }

    /// Sets variables to the values of tensors in an open file, as [`Checkpoint::load_weights`]
    /// does, and as the options say. Returns what it has loaded.
    pub fn load_weights_from(
        &self,
        file: &CheckpointFile<'_>,
        options: LoadWeightsOptions<'_>,
    ) -> Result<LoadedWeights> {
        let variables = self.variables()?;
        let LoadWeightsOptions {
            pairs,
            prefix,
            map_name,
            convert_floats,
            allow_missing,
        } = options;
        let mut all_chosen = chosen_variables(&variables, pairs, prefix)?;
        if let Some(map_name) = map_name {
            let mut tensors = mapped_names(file, map_name)?;
            for chosen in &mut all_chosen {
                chosen.tensor = tensors.remove(chosen.name);
            }
        }
        if allow_missing {
            for chosen in &mut all_chosen {
                chosen.tensor.take_if(|tensor| file.info(tensor).is_none());
            }
        }
        let (wanted, values) = wanted_tensors(file, &all_chosen, convert_floats, allow_missing)?;
        let read = file.read_wanted(&wanted)?;
        let new = values.into_iter().map(|(variable, value)| {
            let value = read.get(value)?;
            Ok(match value.dtype() == variable.dtype() {
                true => (variable, value.clone()),
                false => (variable, converted(value, variable.dtype())?),
            })
        });
        let new: Vec<_> = new.collect::<Result<_>>()?;
        self.with_changes(&read, |changes| {
            new.iter()
                .for_each(|(variable, value)| changes.replace(variable, value));
            Ok(())
        })?;
        Ok(loaded_weights(file, all_chosen))
    }
}

/// Variables, each with the tensor to read for it.
type VariableTensors<'a> = Vec<(&'a Variable, PendingTensor)>;

/// Checks that the tensors fit the variables, and lists them to be read, in the types of the file.
/// Fails with all differences, if there are any.
fn wanted_tensors<'a>(
    file: &CheckpointFile<'_>,
    all_chosen: &[ChosenVariable<'a>],
    convert_floats: bool,
    allow_missing: bool,
) -> Result<(WantedTensors, VariableTensors<'a>)> {
    let mut mismatches = Vec::new();
    let mut wanted = WantedTensors::default();
    let mut values = Vec::new();
    for ChosenVariable {
        name,
        variable,
        tensor,
    } in all_chosen
    {
        let Some(tensor) = tensor else {
            if !allow_missing {
                mismatches.push(format!(
                    "missing: options.map_name gives no tensor of the file for '{name}'"
                ));
            }
            continue;
        };
        let variable_dtype = variable.dtype();
        let dtype = file
            .info(tensor)
            .and_then(|(dtype, _)| dtype_of(dtype))
            .filter(|dtype| convert_floats && dtype.is_float() && variable_dtype.is_float())
            .unwrap_or(variable_dtype);
        let shape = variable.shape();
        let value = file.want(tensor, name, dtype, shape, &mut wanted, &mut mismatches)?;
        values.extend(value.map(|value| (*variable, value)));
    }
    let first_missing = mismatches
        .iter_mut()
        .find(|mismatch| mismatch.starts_with("missing:"));
    if let Some(missing) = first_missing {
        *missing += &format!("; it has {}", file.listed_names());
    }
    refuse(file, &mismatches)?;
    Ok((wanted, values))
}

/// The account of what was loaded.
fn loaded_weights(file: &CheckpointFile<'_>, all_chosen: Vec<ChosenVariable<'_>>) -> LoadedWeights {
    let tensors = all_chosen
        .iter()
        .filter_map(|chosen| chosen.tensor.as_deref());
    let used: HashSet<&str> = tensors.collect();
    let names = file.names().into_iter();
    let unused = names
        .filter(|name| !used.contains(name))
        .map(str::to_owned)
        .collect();
    let variables = all_chosen
        .into_iter()
        .map(|chosen| (chosen.name.to_owned(), chosen.tensor))
        .collect();
    LoadedWeights { variables, unused }
}

/// The variables that are listed, or all, with the names of their tensors.
fn chosen_variables<'a>(
    variables: &'a [(String, Variable)],
    pairs: Option<&'a [(&'a str, &'a str)]>,
    prefix: &str,
) -> Result<Vec<ChosenVariable<'a>>> {
    let named = |name: &'a str, tensor: &str, variable| ChosenVariable {
        name,
        variable,
        tensor: Some(format!("{prefix}{tensor}")),
    };
    let Some(pairs) = pairs else {
        let all = variables.iter();
        return Ok(all
            .map(|(name, variable)| named(name, name, variable))
            .collect());
    };
    let by_name: HashMap<&str, &Variable> = variables
        .iter()
        .map(|(name, variable)| (&name[..], variable))
        .collect();
    let find = |&(name, tensor): &(&'a str, &'a str)| {
        let variable = by_name.get(name).ok_or_else(|| {
            let known: Vec<_> = variables.iter().map(|(known, _)| &known[..]).collect();
            let known = known.join(", ");
            Error::NotFound(format!(
                "variables: no variable '{name}' was added; there are [{known}]"
            ))
        })?;
        Ok(named(name, tensor, *variable))
    };
    pairs.iter().map(find).collect()
}

/// The tensors of a file by the names that `map_name` gives them. Two of them have no common name.
fn mapped_names(
    file: &CheckpointFile<'_>,
    map_name: &mut MapName<'_>,
) -> Result<HashMap<String, String>> {
    let mut tensors: HashMap<String, String> = HashMap::new();
    for tensor in file.names() {
        let Some(variable) = map_name(tensor)? else {
            continue;
        };
        if let Some(other) = tensors.get(&variable) {
            return Err(invalid!(
                "map_name",
                "it gives '{variable}' for the tensors '{other}' and '{tensor}'; it must give \
                 each tensor another name, or none"
            ));
        }
        tensors.insert(variable, tensor.to_owned());
    }
    Ok(tensors)
}
