//! The number of this process among those of a launcher, by the environment variables that the
//! launcher sets.
//!
//! Open MPI and launchers with PMI (MPICH's, Intel's) set variables for the process itself. Slurm
//! sets variables for the processes that it starts, which may be daemons of other launchers. So
//! Slurm's variables count only if none of the others is set.

use umbo_base::error::{Error, Result};

/// A process among those that a launcher has started together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchedRank {
    /// Its rank, from 0.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
}

/// The variables of rank and size of each launcher. The first that are set count. Slurm's are those
/// of a step that `srun` has started: in a batch script the second is not set.
const VARIABLES: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
];

/// The rank that a launcher has assigned to this process, if a launcher has started it. `variable`
/// returns the value of an environment variable.
///
/// Fails with INVALID_ARGUMENT, naming the variable, if one is not a number, and if the rank is not
/// less than the number of ranks.
pub fn place(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<LaunchedRank>> {
    let places = VARIABLES
        .into_iter()
        .map(|(rank, size)| read(variable, rank, size));
    places.filter_map(Result::transpose).next().transpose()
}

fn read(
    variable: &dyn Fn(&str) -> Option<String>,
    rank_name: &'static str,
    size_name: &'static str,
) -> Result<Option<LaunchedRank>> {
    let rank = number(variable, rank_name)?;
    let size = number(variable, size_name)?;
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
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, text)| (*text).to_owned())
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
        }
        assert_eq!(of(&[]).unwrap(), None);
    }

    #[test]
    fn daemons_and_batch_scripts_of_slurm_are_no_ranks() {
        let daemon = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2")];
        let daemon_variables = [("PMI_RANK", "3"), ("PMI_SIZE", "4")];
        assert_eq!(
            of(&[daemon, daemon_variables].concat()).unwrap(),
            Some(LaunchedRank { rank: 3, size: 4 })
        );
        assert_eq!(
            of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")]).unwrap(),
            None
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (variables, words) in [
            (
                &[("PMI_RANK", "x"), ("PMI_SIZE", "2")],
                ["PMI_RANK: is 'x'", "a number"],
            ),
            (
                &[("PMI_RANK", "-1"), ("PMI_SIZE", "2")],
                ["PMI_RANK: is '-1'", "0 or more"],
            ),
            (
                &[("PMI_RANK", "2"), ("PMI_SIZE", "2")],
                ["PMI_RANK: says rank 2", "2 (PMI_SIZE)"],
            ),
        ] {
            let said = of(variables).unwrap_err().to_string();
            assert!(words.iter().all(|words| said.contains(words)), "{said}");
        }
    }
}
