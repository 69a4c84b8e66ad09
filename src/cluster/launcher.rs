//! Which of the processes of a launcher this one is, by the environment variables that the launcher sets.
//!
//! Open MPI, launchers with PMI (MPICH's, Intel's) and PMIx set variables for the process itself, so these must
//! agree. Slurm sets variables for the processes that it starts, which may be daemons of other launchers. So Slurm's
//! variables count only if none of the others is set.

use crate::error::{Error, Result};

/// A process among those that a launcher has started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchedRank {
    /// Its rank, from 0.
    pub rank: usize,
    /// How many processes there are.
    pub size: usize,
}

/// The variables of rank and size that are set for the process itself.
const OF_THE_PROCESS: [(&str, &str); 2] =
    [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE")];
/// PMIx has a variable for the rank only.
const PMIX: &str = "PMIX_RANK";
/// Slurm's variables, in a step that `srun` has started. In a batch script the second is not set.
const SLURM: (&str, &str) = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS");

/// The rank that a launcher has assigned to this process, if a launcher has started it. `variable` returns the value
/// of an environment variable.
///
/// Fails with INVALID_ARGUMENT, naming the variables, if one is not a number, if the rank is not less than the number
/// of ranks, and if two launchers disagree.
pub fn place(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<LaunchedRank>> {
    let mut found: Option<(LaunchedRank, &str, &str)> = None;
    for (rank, size) in OF_THE_PROCESS {
        if let Some(place) = read(variable, rank, size)? {
            match found {
                Some((other, other_rank, other_size)) if other != place => {
                    return Err(invalid!(
                        rank,
                        "says rank {} of {} ({size}), and {other_rank} and {other_size} say rank {} of \
                             {}; unset the variables of the launcher that has not started this process",
                        place.rank,
                        place.size,
                        other.rank,
                        other.size
                    ));
                }
                Some(_) => {}
                None => found = Some((place, rank, size)),
            }
        }
    }
    if found.is_none() {
        found = read(variable, SLURM.0, SLURM.1)?.map(|place| (place, SLURM.0, SLURM.1));
    }
    match (number(variable, PMIX)?, found) {
        (Some(rank), Some((place, other, _))) if rank != place.rank => Err(invalid!(
            PMIX,
            "says rank {rank}, and {other} says rank {}; unset the wrong one",
            place.rank
        )),
        (Some(rank), None) => Err(invalid!(
            PMIX,
            "says rank {rank}, and no variable says of how many; set PMI_RANK and PMI_SIZE"
        )),
        (_, found) => Ok(found.map(|(place, ..)| place)),
    }
}

fn read(
    variable: &dyn Fn(&str) -> Option<String>,
    rank_name: &'static str,
    size_name: &'static str,
) -> Result<Option<LaunchedRank>> {
    let (rank, size) = (number(variable, rank_name)?, number(variable, size_name)?);
    let (Some(rank), Some(size)) = (rank, size) else {
        return Ok(None);
    };
    if rank >= size {
        let problem = format!("says rank {rank}, which is not among {size} ({size_name})");
        return Err(Error::invalid(rank_name, problem));
    }
    Ok(Some(LaunchedRank { rank, size }))
}

fn number(variable: &dyn Fn(&str) -> Option<String>, name: &'static str) -> Result<Option<usize>> {
    let Some(text) = variable(name).filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    text.trim()
        .parse()
        .map(Some)
        .map_err(|_| invalid!(name, "is '{text}'; a number, 0 or more, is expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<LaunchedRank>> {
        place(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn each_launcher_is_understood() {
        let third = Some(LaunchedRank { rank: 2, size: 4 });
        let open = [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")];
        let hydra = [("PMI_RANK", "2"), ("PMI_SIZE", "4")];
        let slurm = [("SLURM_PROCID", "2"), ("SLURM_STEP_NUM_TASKS", "4")];
        for variables in [open, hydra, slurm] {
            assert_eq!(of(&variables).unwrap(), third);
            assert_eq!(of(&[variables[0], variables[1], (PMIX, "2")]).unwrap(), third);
        }
        assert_eq!(of(&[open, hydra].concat()).unwrap(), third);
        assert_eq!(of(&[]).unwrap(), None);
    }

    #[test]
    fn daemons_and_batch_scripts_of_slurm_are_no_ranks() {
        let daemon = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2")];
        let own = [("PMI_RANK", "3"), ("PMI_SIZE", "4")];
        assert_eq!(of(&[daemon, own].concat()).unwrap(), Some(LaunchedRank { rank: 3, size: 4 }));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]).unwrap(), None);
    }

    #[test]
    fn what_disagrees_is_named() {
        for (variables, words) in [
            (
                &[
                    ("OMPI_COMM_WORLD_RANK", "1"),
                    ("OMPI_COMM_WORLD_SIZE", "4"),
                    ("PMI_RANK", "1"),
                    ("PMI_SIZE", "2"),
                ][..],
                ["PMI_RANK: says rank 1 of 2", "OMPI_COMM_WORLD_SIZE say rank 1 of 4"],
            ),
            (
                &[("PMI_RANK", "1"), ("PMI_SIZE", "2"), (PMIX, "0")],
                ["PMIX_RANK: says rank 0", "PMI_RANK says rank 1"],
            ),
            (&[(PMIX, "0")], ["PMIX_RANK: says rank 0", "no variable says of how many"]),
            (&[("PMI_RANK", "x"), ("PMI_SIZE", "2")], ["PMI_RANK: is 'x'", "a number"]),
            (&[("PMI_RANK", "-1"), ("PMI_SIZE", "2")], ["PMI_RANK: is '-1'", "0 or more"]),
            (&[("PMI_RANK", "2"), ("PMI_SIZE", "2")], ["PMI_RANK: says rank 2", "2 (PMI_SIZE)"]),
        ] {
            let said = of(variables).unwrap_err().to_string();
            assert!(words.iter().all(|words| said.contains(words)), "{said}");
        }
    }
}
