//! `umbo bench exchange`: adds up the gradients of several processes over MPI.

#![expect(
    unsafe_code,
    reason = "MPI_Allreduce, which is compared with, is a C function"
)]

use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::ptr;
use std::time::Instant;

use lexopt::Arg::{Long, Short};
use libloading::Library;
use serde_json::json;
use umbo_core::cluster::checked::CheckedCommunicator;
use umbo_core::cluster::communicator::Communicator;
use umbo_core::cluster::mpi::{self, VARIABLE};
use umbo_core::error::memory::filled;
use umbo_core::error::{Error, Result};

use super::Asked;
use super::memory::quantile;
use crate::Report;
use crate::arguments::{Bytes, ROUNDS, RangeEnd, first_to_last, number};
use crate::failure::Failure;

pub const HELP: &str = "\
Usage: mpirun -n RANKS umbo bench exchange [OPTIONS]

Measures how a float32 gradient of each process becomes the sum of all on each of them: parts go to
the ranks that sum them, in the order of the ranks in float64, and come back (exchange). This is
compared with MPI_Allreduce of as many numbers, and with a copy of as many bytes by every process at
once. The three take turns; the time of a round is that of its slowest process. Shown are medians
over the rounds, of times and of ratios within a round. The MPI library needs the standard ABI, as
MPICH 5's has it; LD_LIBRARY_PATH or UMBO_MPI_LIBRARY say where it is.

Options:
      --from SIZE    bytes of the gradient, first size (1K to 4G; default: 4M)
      --to SIZE      last size; sizes grow fourfold from row to row (1K to 4G; default: 64M)
      --rounds N     rounds (1 to 100000; default: 15)
      --json         print one JSON object for each row
  -h, --help         show this help
";

/// MPI_Allreduce counts the numbers of a gradient in an int.
const SIZES: RangeInclusive<Bytes> = Bytes(1 << 10)..=Bytes(4 << 30);

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut from = None;
    let mut to = None;
    let mut rounds = 15;
    let mut json = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("from") => from = Some(number(arguments, "from", SIZES)?),
            Long("to") => to = Some(number(arguments, "to", SIZES)?),
            Long("rounds") => rounds = number(arguments, "rounds", ROUNDS)?,
            Long("json") => json = true,
            Short('h') | Long("help") => return Ok(Asked::Help),
            other => return Err(other.unexpected().into()),
        }
    }
    let (from, to) = first_to_last(
        RangeEnd {
            option: "from",
            given: from,
            usual: Bytes(4 << 20),
        },
        RangeEnd {
            option: "to",
            given: to,
            usual: Bytes(64 << 20),
        },
    )?;
    Ok(Asked::measuring(move || {
        Ok(measure(from.0, to.0, rounds, json)?)
    }))
}

/// The median times of a size, in milliseconds, and the medians of ratios.
struct Row {
    bytes: usize,
    exchange: f64,
    allreduce: f64,
    copy: f64,
    per_allreduce: f64,
    per_copy: f64,
}

fn measure(from: usize, to: usize, rounds: usize, json: bool) -> Result<Report> {
    let communicator = mpi::world(&mpi::MpiOptions::default())?;
    let allreduce = Allreduce::find()?;
    let mut rows = Vec::new();
    let mut bytes = from;
    while bytes <= to {
        rows.push(row(&communicator, &allreduce, bytes / 4, rounds)?);
        bytes *= 4;
    }
    let vote = vote_micros(&communicator, rounds)?;
    if communicator.rank() > 0 {
        return Ok(Report::fine(String::new()));
    }
    let ranks = communicator.size();
    Ok(Report::fine(if json {
        as_json(&rows, ranks, vote)
    } else {
        as_table(&rows, ranks, vote)
    }))
}

fn row(
    communicator: &CheckedCommunicator,
    allreduce: &Allreduce,
    elements: usize,
    rounds: usize,
) -> Result<Row> {
    let mut buffers = Buffers::new(communicator, elements)?;
    let mut times = [const { Vec::new() }; 3];
    // The first round touches all memory for the first time and is not counted.
    for round in 0..=rounds {
        for turn in 0..3 {
            let kind = (round + turn) % 3;
            communicator.barrier()?;
            let start = Instant::now();
            match kind {
                0 => buffers.exchange(communicator)?,
                1 => allreduce.sum(&buffers.gradient, &mut buffers.other)?,
                _ => buffers.other.copy_from_slice(&buffers.gradient),
            }
            let nanoseconds = i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX);
            let slowest = communicator.vote(nanoseconds)?.greatest;
            match kind {
                0 => buffers.check(&buffers.sum)?,
                1 => buffers.check(&buffers.other)?,
                _ => {}
            }
            if round > 0 {
                times[kind].push(slowest as f64 / 1e6);
            }
        }
    }
    let [exchange, allreduce, copy] = &times;
    let ratio = |to: &[f64]| {
        let ratios: Vec<f64> = exchange
            .iter()
            .zip(to)
            .map(|(ours, other)| ours / other)
            .collect();
        quantile(&ratios, 0.5)
    };
    Ok(Row {
        bytes: elements * 4,
        exchange: quantile(exchange, 0.5),
        allreduce: quantile(allreduce, 0.5),
        copy: quantile(copy, 0.5),
        per_allreduce: ratio(allreduce),
        per_copy: ratio(copy),
    })
}

/// The time of a vote, which a step needs at its commit point.
fn vote_micros(communicator: &CheckedCommunicator, rounds: usize) -> Result<f64> {
    const VOTES: u32 = 100;
    let mut times = Vec::new();
    for _ in 0..rounds {
        communicator.barrier()?;
        let start = Instant::now();
        for _ in 0..VOTES {
            communicator.vote(0)?;
        }
        times.push((start.elapsed() / VOTES).as_secs_f64() * 1e6);
    }
    Ok(quantile(&times, 0.5))
}

/// A process's gradient, and the buffers of the exchange.
struct Buffers {
    gradient: Vec<f32>,
    /// The parts of all processes' gradients that this process adds up.
    parts: Vec<f32>,
    summed: Vec<f32>,
    sum: Vec<f32>,
    other: Vec<f32>,
    /// The number of elements of each process's part.
    lengths: Vec<usize>,
    expected: f32,
}

impl Buffers {
    fn new(communicator: &CheckedCommunicator, elements: usize) -> Result<Buffers> {
        let rank = communicator.rank();
        let size = communicator.size();
        let lengths: Vec<usize> = (0..size)
            .map(|rank| elements * (rank + 1) / size - elements * rank / size)
            .collect();
        Ok(Buffers {
            gradient: filled(elements, (rank + 1) as f32, "numbers")?,
            parts: filled(lengths[rank] * size, 0.0, "numbers")?,
            summed: filled(lengths[rank], 0.0, "numbers")?,
            sum: filled(elements, 0.0, "numbers")?,
            other: filled(elements, 0.0, "numbers")?,
            lengths,
            expected: (size * (size + 1) / 2) as f32,
        })
    }

    fn exchange(&mut self, communicator: &CheckedCommunicator) -> Result<()> {
        let length = self.summed.len();
        let sent: Vec<usize> = self.lengths.iter().map(|length| length * 4).collect();
        let received = vec![length * 4; self.lengths.len()];
        communicator.all_to_all(
            bytes_of(&self.gradient),
            &sent,
            bytes_of_mut(&mut self.parts),
            &received,
        )?;
        let mut sums = [0.0_f64; 1024];
        for (tile, to) in self.summed.chunks_mut(sums.len()).enumerate() {
            let sums = &mut sums[..to.len()];
            sums.fill(0.0);
            for part in self.parts.chunks_exact(length.max(1)) {
                let from = &part[tile * 1024..][..to.len()];
                sums.iter_mut()
                    .zip(from)
                    .for_each(|(sum, &number)| *sum += f64::from(number));
            }
            to.iter_mut()
                .zip(sums)
                .for_each(|(to, &mut sum)| *to = sum as f32);
        }
        communicator.all_gather(bytes_of(&self.summed), bytes_of_mut(&mut self.sum), &sent)
    }

    fn check(&self, sum: &[f32]) -> Result<()> {
        match sum.iter().position(|&number| number != self.expected) {
            None => Ok(()),
            Some(at) => Err(Error::DataLoss(format!(
                "element {at} of the sum is {}, not {}",
                sum[at], self.expected
            ))),
        }
    }
}

fn bytes_of(numbers: &[f32]) -> &[u8] {
    // SAFETY: a number consists of bytes, all of which are initialised.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

fn bytes_of_mut(numbers: &mut [f32]) -> &mut [u8] {
    // SAFETY: as above, and any bytes are a valid number.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}

type AllreduceFn = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// MPI's own sum, from the library that the communicator has opened.
struct Allreduce {
    _library: Library,
    function: AllreduceFn,
}

impl Allreduce {
    // These are constants of the standard ABI.
    const WORLD: *mut c_void = ptr::without_provenance_mut(0x101);
    const FLOAT: *mut c_void = ptr::without_provenance_mut(0x210);
    const SUM: *mut c_void = ptr::without_provenance_mut(0x21);

    fn find() -> Result<Allreduce> {
        let wrong =
            |error: libloading::Error| Error::Unavailable(format!("MPI_Allreduce: {error}"));
        let name = std::env::var(VARIABLE).unwrap_or_else(|_| "libmpi_abi.so.1".to_owned());
        // SAFETY: the library is already open.
        let library = unsafe { Library::new(name) }.map_err(wrong)?;
        // SAFETY: the type is that of the standard.
        let function = *unsafe { library.get::<AllreduceFn>(c"MPI_Allreduce") }.map_err(wrong)?;
        Ok(Allreduce {
            _library: library,
            function,
        })
    }

    fn sum(&self, from: &[f32], to: &mut [f32]) -> Result<()> {
        let count = c_int::try_from(from.len().min(to.len())).map_err(|_| {
            Error::invalid(
                "to",
                "MPI_Allreduce takes at most 2147483647 numbers".to_owned(),
            )
        })?;
        // SAFETY: both buffers have this many numbers, and MPI is initialised.
        let code = unsafe {
            (self.function)(
                from.as_ptr().cast(),
                to.as_mut_ptr().cast(),
                count,
                Allreduce::FLOAT,
                Allreduce::SUM,
                Allreduce::WORLD,
            )
        };
        match code {
            0 => Ok(()),
            code => Err(Error::Unavailable(format!(
                "MPI_Allreduce fails with {code}"
            ))),
        }
    }
}

fn as_json(rows: &[Row], ranks: usize, vote: f64) -> String {
    let object = |row: &Row| {
        json!({
            "benchmark": "exchange",
            "ranks": ranks,
            "bytes": row.bytes,
            "exchange_ms": row.exchange,
            "allreduce_ms": row.allreduce,
            "copy_ms": row.copy,
            "exchange_per_allreduce": row.per_allreduce,
            "exchange_per_copy": row.per_copy,
            "vote_us": vote,
        })
    };
    rows.iter()
        .map(|row| object(row).to_string() + "\n")
        .collect()
}

fn as_table(rows: &[Row], ranks: usize, vote: f64) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:>10} {:>12} {:>14} {:>9} {:>16} {:>12}",
        "MiB", "exchange ms", "allreduce ms", "copy ms", "of allreduce", "of copy"
    );
    for row in rows {
        let _ = writeln!(
            text,
            "{:>10.2} {:>12.2} {:>14.2} {:>9.2} {:>16.2} {:>12.2}",
            row.bytes as f64 / f64::from(1 << 20),
            row.exchange,
            row.allreduce,
            row.copy,
            row.per_allreduce,
            row.per_copy
        );
    }
    let _ = writeln!(text, "\n{ranks} ranks; a vote takes {vote:.1} \u{b5}s.");
    text
}
