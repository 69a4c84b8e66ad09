//! Gradients of all replicas into updates of many variables, and norms of them.

use std::ffi::c_void;

use crate::error::{Error, Result};
use crate::kernels::cuda::place::divisor;
use crate::kernels::cuda::queue::{
    Address, Grid, Launcher, Plain, Queue, Work, argument, blocks_of,
};
use crate::kernels::cuda::words::{self, in_words};
use crate::kernels::dtype::DType;
use crate::kernels::float::gradient_element;
use crate::kernels::float::real::{self, Real};
use crate::kernels::update::step::{MOST_SLOTS, SCALARS, Step, StepKind};
use crate::kernels::update::weighted_sum::{Clipping, Finish, Scale};

/// One replica's gradient of a variable, and the factor with which it enters the sum.
#[derive(Clone, Copy, Debug)]
pub struct Contribution {
    /// Contiguous elements, as many as the sum has.
    pub gradient: Address,
    /// What each is multiplied with.
    pub factor: f64,
}

/// As the kernels read it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Addend {
    gradient: Address,
    factor: f64,
    factor_words: [f32; 2],
}

const _: () = assert!(size_of::<Addend>() == 24);

// SAFETY: numbers whose sizes add up to that of the whole, as asserted.
unsafe impl Plain for Addend {}

impl From<Contribution> for Addend {
    fn from(Contribution { gradient, factor }: Contribution) -> Addend {
        Addend { gradient, factor, factor_words: in_words(factor) }
    }
}

/// The gradient of one variable: the sum of factor × contribution, in float64, divided and rounded
/// once to the variable's type.
#[derive(Clone, Copy, Debug)]
pub struct Gradient<'a> {
    /// The variable's type.
    pub dtype: DType,
    /// How many elements the sum has.
    pub elements: u64,
    /// The type of the contributions: the variable's or a narrower one.
    pub gradient_dtype: DType,
    /// In replica order.
    pub contributions: &'a [Contribution],
    /// As many float64 elements where the sum starts.
    pub accumulated: Option<Address>,
    /// What the sum is divided by.
    pub divisor: f64,
}

/// Rows of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableRows<'a> {
    /// Their numbers, which ascend.
    pub numbers: &'a [usize],
    /// The elements of one row.
    pub elements: u64,
    /// How many rows the table has.
    pub of: usize,
}

/// The update of one variable.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// What it is updated by. If it has rows, the sum is about those, one after the other, and has
    /// no contributions.
    pub gradient: Gradient<'a>,
    /// What is done to the gradient first.
    pub clipping: Clipping,
    /// What times the weight is added to the gradient after clipping.
    pub l2: f64,
    /// What is done to each element. For LAMB the norms are measured; its last scalar is what
    /// their quotient is multiplied with.
    pub step: Step,
    /// Contiguous elements.
    pub weights: Address,
    /// As many tensors of state as the step has, contiguous.
    pub slots: &'a [Address],
    /// Low-precision copies that are to follow, of a float32 variable: float16, bfloat16.
    pub copies: [Option<Address>; 2],
    /// The rows that are updated; all if it is not said.
    pub rows: Option<TableRows<'a>>,
    /// A 32-bit number that becomes 1 if an element of the gradient is not finite, and else stays
    /// as it is.
    pub not_finite: Option<Address>,
}

/// A gradient that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The gradient.
    pub gradient: Gradient<'a>,
    /// Where it is written, as the variable's type, if it is to be kept.
    pub kept: Option<Address>,
}

/// As the kernels read it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Variable {
    weights: Address,
    slots: [Address; MOST_SLOTS],
    copies: [Address; 2],
    accumulated: Address,
    rows: Address,
    width: u64,
    width_factor: u64,
    width_shift: u32,
    treatment: u32,
    words: u32,
    powers: u32,
    elements: u64,
    first_contribution: u64,
    contributions: u32,
    gradient_dtype: u32,
    result: Address,
    not_finite: Address,
    first_tile: u64,
}

const _: () = assert!(size_of::<Variable>() == 144);

// SAFETY: numbers whose sizes add up to that of the whole, as asserted.
unsafe impl Plain for Variable {}

/// As the kernels read it.
#[derive(Clone, Copy, PartialEq)]
#[repr(C)]
struct Treatment<T> {
    scale: f64,
    rate: f64,
    divides: u32,
    has_l2: u32,
    scale_words: [f32; 2],
    factors: [T; 2],
    limit: T,
    l2: T,
    scalars: [T; SCALARS],
}

const _: () = assert!(size_of::<Treatment<f32>>() == 88 && size_of::<Treatment<f64>>() == 144);

// SAFETY: as above.
unsafe impl Plain for Treatment<f32> {}
// SAFETY: as above.
unsafe impl Plain for Treatment<f64> {}

/// Elements of a tile of a measurement, and of what a block measures.
const TILE: u64 = 1024;
const MEASURED_BY_BLOCK: u64 = 16 * TILE;

impl<T: Real> Treatment<T> {
    fn new(divisor: f64, clipping: Clipping, l2: f64, step: Option<&Step>) -> Treatment<T> {
        let Finish { scale, factors, limit } = Finish::new(divisor, clipping);
        let scalars = step.map_or([0.0; SCALARS], |step| step.scalars);
        let (scale, divides) = match scale {
            Scale::Multiply(reciprocal) => (reciprocal, 0),
            Scale::Divide(divisor) => (divisor, 1),
        };
        Treatment {
            scale,
            rate: scalars[SCALARS - 1],
            divides,
            has_l2: u32::from(l2 != 0.0),
            scale_words: in_words(scale),
            factors,
            limit,
            l2: T::from_f64(l2),
            scalars: scalars.map(T::from_f64),
        }
    }
}

/// What a launch is about: one variable as it is entered into the table.
#[derive(Clone, Copy)]
struct Entry<'a> {
    gradient: Gradient<'a>,
    clipping: Clipping,
    l2: f64,
    step: Option<Step>,
    rows: Option<TableRows<'a>>,
    variable: Variable,
}

impl<'a> Entry<'a> {
    fn new(gradient: Gradient<'a>, weights: Address) -> Entry<'a> {
        let variable = Variable {
            weights,
            slots: [0; MOST_SLOTS],
            copies: [0; 2],
            accumulated: gradient.accumulated.unwrap_or(0),
            rows: 0,
            width: 1,
            width_factor: 0,
            width_shift: 0,
            treatment: 0,
            words: 0,
            powers: 0,
            elements: gradient.elements,
            first_contribution: 0,
            contributions: gradient.contributions.len() as u32,
            gradient_dtype: gradient.gradient_dtype as u32,
            result: 0,
            not_finite: 0,
            first_tile: 0,
        };
        Entry { gradient, clipping: Clipping::NONE, l2: 0.0, step: None, rows: None, variable }
    }

    fn of_update(update: &Update<'a>) -> Entry<'a> {
        let mut entry = Entry::new(update.gradient, update.weights);
        let variable = &mut entry.variable;
        variable.slots[..update.slots.len()].copy_from_slice(update.slots);
        variable.copies = update.copies.map(|copy| copy.unwrap_or(0));
        variable.not_finite = update.not_finite.unwrap_or(0);
        if let Some(rows) = update.rows {
            variable.width = rows.elements;
            (variable.width_factor, variable.width_shift) = divisor(rows.elements);
        }
        Entry {
            clipping: update.clipping,
            l2: update.l2,
            step: Some(update.step),
            rows: update.rows,
            ..entry
        }
    }

    /// Whether the sum may be tried without float64, and whether its factors and scale are powers
    /// of two.
    fn words<T>(&self, treatment: &Treatment<T>) -> (bool, bool) {
        let Gradient { dtype, accumulated, contributions, .. } = self.gradient;
        let (scale, divides) = (treatment.scale, treatment.divides != 0);
        let factors = || contributions.iter().map(|contribution| contribution.factor);
        let tried = dtype == DType::Float32 && accumulated.is_none() && !divides;
        (
            tried && words::may_be_tried(factors(), scale),
            words::are_powers(factors().chain([scale])),
        )
    }

    fn treatment<T: Real>(&self) -> Treatment<T> {
        Treatment::new(self.gradient.divisor, self.clipping, self.l2, self.step.as_ref())
    }
}

/// Where the arrays of a table are, once it is uploaded.
struct Arrays {
    table: Address,
    variables: Address,
    contributions: Address,
    treatments: Address,
    work: Work,
    /// Of all variables.
    tiles: u64,
    count: u32,
}

impl<Q: Queue> Launcher<Q> {
    /// Queues updates: one kernel for each rule and element type among them, however many there
    /// are; for LAMB two more, which measure. The bits are those of a
    /// [`Pass`](crate::kernels::update::pass::Pass).
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if a step's state, types, copies or rows do
    /// not fit.
    ///
    /// # Safety
    /// Gradients, sums and numbers of rows may be read, and weights, state, copies and flags read and
    /// written, when the work that is queued here comes to it, by nobody else at the same time. Each
    /// has the elements that its description names. No element that is written is another's, but
    /// flags may be shared.
    pub unsafe fn update(&mut self, updates: &[Update<'_>]) -> Result<()> {
        updates.iter().try_for_each(check)?;
        for dtype in [DType::Float32, DType::Float64] {
            for kind in StepKind::ALL {
                let of_kind = |update: &&Update<'_>| {
                    update.gradient.dtype == dtype && update.step.kind == kind
                };
                let entries = updates.iter().filter(of_kind).map(Entry::of_update);
                // SAFETY: the caller's promise.
                unsafe {
                    match (dtype, kind) {
                        (DType::Float32, StepKind::Lamb) => self.queue_lamb::<f32>(entries)?,
                        (_, StepKind::Lamb) => self.queue_lamb::<f64>(entries)?,
                        (DType::Float32, _) => {
                            let kernel = kernel(kind, dtype, self.words);
                            self.queue_entries::<f32>(kernel, entries)?;
                        }
                        _ => self.queue_entries::<f64>(kernel(kind, dtype, false), entries)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Queues the measuring of gradients. `results` gets, for each of them, two float64 numbers: the
    /// sum of the squares of all elements, which is infinite also where it is past float64, and one
    /// that is 0 if all elements are finite and NaN otherwise. The bits are those of
    /// [`Squares`](crate::kernels::update::measure::Squares).
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types do not fit.
    ///
    /// # Safety
    /// As for [`Launcher::update`]; `results` has room for two numbers for each gradient.
    pub unsafe fn measure(&mut self, all: &[Measured<'_>], results: Address) -> Result<()> {
        all.iter().try_for_each(|measured| check_gradient(&measured.gradient))?;
        for dtype in [DType::Float32, DType::Float64] {
            let places = all.iter().zip((results..).step_by(2 * size_of::<f64>()));
            let of_dtype = places.filter(|(measured, _)| measured.gradient.dtype == dtype);
            let entries = of_dtype.map(|(measured, result)| {
                let mut entry = Entry::new(measured.gradient, measured.kept.unwrap_or(0));
                entry.variable.result = result;
                entry
            });
            // SAFETY: the caller's promise.
            unsafe {
                match dtype {
                    DType::Float32 => {
                        let kernel = match self.words {
                            true => "umbo_squares_f32_words",
                            false => "umbo_squares_f32",
                        };
                        self.queue_measure::<f32>(kernel, entries, false)?;
                    }
                    _ => self.queue_measure::<f64>("umbo_squares_f64", entries, false)?,
                }
            }
        }
        Ok(())
    }

    /// Queues that gradients are written to the addresses beside them, as the variables' type.
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types do not fit.
    ///
    /// # Safety
    /// As for [`Launcher::update`].
    pub unsafe fn write_gradients(&mut self, all: &[(Gradient<'_>, Address)]) -> Result<()> {
        all.iter().try_for_each(|(gradient, _)| check_gradient(gradient))?;
        for dtype in [DType::Float32, DType::Float64] {
            let of_dtype = all.iter().filter(|(gradient, _)| gradient.dtype == dtype);
            let entries = of_dtype.map(|&(gradient, to)| Entry::new(gradient, to));
            // SAFETY: the caller's promise.
            unsafe {
                match dtype {
                    DType::Float32 => {
                        let kernel = match self.words {
                            true => "umbo_gradient_f32_words",
                            false => "umbo_gradient_f32",
                        };
                        self.queue_entries::<f32>(kernel, entries)?;
                    }
                    _ => self.queue_entries::<f64>("umbo_gradient_f64", entries)?,
                }
            }
        }
        Ok(())
    }

    /// Queues that the contributions of gradients are added to what they start from, and written, in
    /// float64, to the addresses beside them, which may be where they start. Divisors do not count.
    ///
    /// Fails with INVALID_ARGUMENT, with nothing queued, if types do not fit.
    ///
    /// # Safety
    /// As for [`Launcher::update`].
    pub unsafe fn accumulate(&mut self, all: &[(Gradient<'_>, Address)]) -> Result<()> {
        all.iter().try_for_each(|(gradient, _)| check_gradient(gradient))?;
        for dtype in [DType::Float32, DType::Float64] {
            let of_dtype = all.iter().filter(|(gradient, _)| gradient.dtype == dtype);
            let entries = of_dtype.map(|&(gradient, to)| Entry::new(gradient, to));
            // SAFETY: the caller's promise.
            unsafe {
                match dtype {
                    DType::Float32 => {
                        self.queue_entries::<f32>("umbo_accumulate_f32", entries)?;
                    }
                    _ => self.queue_entries::<f64>("umbo_accumulate_f64", entries)?,
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Launcher::update`].
    unsafe fn queue_entries<'a, T: Real>(
        &mut self,
        kernel: &'static str,
        entries: impl Iterator<Item = Entry<'a>> + Clone,
    ) -> Result<()>
    where
        Treatment<T>: Plain,
    {
        let Some(arrays) = self.enter::<T>(entries, None)? else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { self.over_variables(kernel, &arrays, &mut []) }
    }

    /// # Safety
    /// As for [`Launcher::measure`]; the kernel makes two sums, of which quotients are written if it
    /// is said.
    unsafe fn queue_measure<'a, T: Real>(
        &mut self,
        kernel: &'static str,
        entries: impl Iterator<Item = Entry<'a>> + Clone,
        quotients: bool,
    ) -> Result<()>
    where
        Treatment<T>: Plain,
    {
        let Some(arrays) = self.enter::<T>(entries, Some(MEASURED_BY_BLOCK))? else {
            return Ok(());
        };
        let bytes = arrays.tiles.saturating_mul(2 * size_of::<f64>() as u64);
        let mut sums = self.queue.scratch(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let (mut variables, mut quotients) = (arrays.variables, u32::from(quotients));
        // SAFETY: the caller's promise, and the arguments are the kernels'.
        unsafe {
            self.over_variables(kernel, &arrays, &mut [argument(&mut sums)])?;
            self.queue.launch(
                "umbo_totals",
                Grid { blocks: arrays.count, rows: 1 },
                &mut [argument(&mut variables), argument(&mut sums), argument(&mut quotients)],
            )
        }
    }

    /// # Safety
    /// As for [`Launcher::update`].
    unsafe fn queue_lamb<'a, T: Real>(
        &mut self,
        entries: impl Iterator<Item = Entry<'a>> + Clone,
    ) -> Result<()>
    where
        Treatment<T>: Plain,
    {
        let count = entries.clone().count();
        if count == 0 {
            return Ok(());
        }
        let quotients = self.queue.scratch(size_of::<f64>() * count)?;
        let places = (quotients..).step_by(size_of::<f64>());
        let entries = entries.zip(places).map(|(mut entry, place)| {
            entry.variable.result = place;
            entry
        });
        let (squares, update) = match (T::DTYPE, self.words) {
            (DType::Float32, true) => ("umbo_lamb_squares_f32_words", "umbo_lamb_f32_words"),
            (DType::Float32, false) => ("umbo_lamb_squares_f32", "umbo_lamb_f32"),
            _ => ("umbo_lamb_squares_f64", "umbo_lamb_f64"),
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.queue_measure::<T>(squares, entries.clone(), true)?;
            self.queue_entries::<T>(update, entries)
        }
    }

    /// # Safety
    /// As for [`Launcher::update`]; the kernel takes `after` behind the chunks.
    unsafe fn over_variables(
        &self,
        kernel: &'static str,
        arrays: &Arrays,
        after: &mut [*mut c_void],
    ) -> Result<()> {
        let Arrays { table, mut variables, mut contributions, mut treatments, .. } = *arrays;
        let mut before =
            [argument(&mut variables), argument(&mut contributions), argument(&mut treatments)];
        // SAFETY: the caller's promise.
        unsafe { self.over(kernel, &arrays.work, table, &mut before, after) }
    }

    /// Uploads the numbers of rows, and says where they begin.
    fn upload_rows<'a>(
        &mut self,
        all: impl Iterator<Item = TableRows<'a>> + Clone,
    ) -> Result<Address> {
        let count: usize = all.clone().map(|rows| rows.numbers.len()).sum();
        if count == 0 {
            return Ok(0);
        }
        self.table.clear();
        self.table.begin::<u64>(count)?;
        for number in all.flat_map(|rows| rows.numbers) {
            self.table.push(*number as u64);
        }
        self.queue.upload(self.table.bytes())
    }

    /// Enters variables into the table and uploads it; `None` if there are none. They are cut into
    /// chunks of `size` elements, if it is said.
    fn enter<'a, T: Real>(
        &mut self,
        entries: impl Iterator<Item = Entry<'a>> + Clone,
        size: Option<u64>,
    ) -> Result<Option<Arrays>>
    where
        Treatment<T>: Plain,
    {
        let count = entries.clone().count();
        if count == 0 {
            return Ok(None);
        }
        let numbers = self.upload_rows(entries.clone().filter_map(|entry| entry.rows))?;
        let table = &mut self.table;
        table.clear();
        let elements = entries.clone().map(|entry| entry.gradient.elements);
        let work = match size {
            Some(size) => table.cut_by(size, elements)?,
            None => table.cut(self.thresholds, elements)?,
        };
        let all = entries.clone().map(|entry| entry.gradient.contributions.len());
        let contributions = table.begin::<Addend>(all.sum())?;
        for contribution in entries.clone().flat_map(|entry| entry.gradient.contributions) {
            table.push(Addend::from(*contribution));
        }
        // Variables that are treated alike mostly follow each other.
        let treatments = table.begin::<Treatment<T>>(count)?;
        let mut last = None;
        for treatment in entries.clone().map(|entry| entry.treatment::<T>()) {
            if last != Some(treatment) {
                last = Some(treatment);
                table.push(treatment);
            }
        }
        let variables = table.begin::<Variable>(count)?;
        let (mut last, mut kinds) = (None, 0);
        let (mut first_contribution, mut tiles, mut next_row) = (0, 0, 0);
        for entry in entries {
            let treatment = entry.treatment::<T>();
            if last != Some(treatment) {
                last = Some(treatment);
                kinds += 1;
            }
            let count = entry.rows.map_or(0, |rows| rows.numbers.len());
            let rows = if entry.rows.is_some() { numbers + 8 * next_row } else { 0 };
            let (words, powers) = entry.words(&treatment);
            table.push(Variable {
                words: u32::from(words),
                powers: u32::from(powers),
                treatment: kinds - 1,
                first_contribution,
                first_tile: tiles,
                rows,
                ..entry.variable
            });
            next_row += count as u64;
            first_contribution += entry.gradient.contributions.len() as u64;
            tiles += entry.gradient.elements.div_ceil(TILE);
        }
        let table = self.queue.upload(self.table.bytes())?;
        Ok(Some(Arrays {
            table,
            variables: table + variables,
            contributions: table + contributions,
            treatments: table + treatments,
            work,
            tiles,
            count: blocks_of(count as u64, 1)?,
        }))
    }
}

fn check(update: &Update<'_>) -> Result<()> {
    check_gradient(&update.gradient)?;
    let kind = update.step.kind;
    if update.slots.len() != kind.slots() {
        let (found, expected) = (update.slots.len(), kind.slots());
        return Err(Error::invalid("slots", format!("{found}; {kind:?} has {expected}")));
    }
    if update.gradient.dtype != DType::Float32 && update.copies.iter().any(Option::is_some) {
        let problem = format!("of a {} variable; float32 ones have them", update.gradient.dtype);
        return Err(Error::invalid("copies", problem));
    }
    let Some(rows) = update.rows else { return Ok(()) };
    let (numbers, sum) = (rows.numbers, &update.gradient);
    let fits = sum.contributions.is_empty()
        && sum.accumulated.is_some()
        && rows.elements.checked_mul(numbers.len() as u64) == Some(sum.elements)
        && kind != StepKind::Lamb;
    if !fits {
        let problem = "rows are updated by sums of their own, one for each, and not by LAMB";
        return Err(Error::invalid("rows", problem));
    }
    let exist = numbers.last().is_none_or(|&last| last < rows.of);
    if !exist || !numbers.is_sorted_by(|before, after| before < after) {
        let problem = format!("they must ascend, none twice, within the {} of the table", rows.of);
        return Err(Error::invalid("rows", problem));
    }
    Ok(())
}

fn check_gradient(gradient: &Gradient<'_>) -> Result<()> {
    let Gradient { dtype, gradient_dtype, contributions, .. } = *gradient;
    if !real::is_supported(dtype) || !gradient_element::is_supported(dtype, gradient_dtype) {
        let problem = format!(
            "{gradient_dtype} for a variable of {dtype}; there are float32 and \
             float64 variables, whose gradients have their type or, for float32, one of 16 bits"
        );
        return Err(Error::invalid("gradient", problem));
    }
    if u32::try_from(contributions.len()).is_err() {
        return Err(Error::invalid("gradient", "more contributions than can be counted"));
    }
    Ok(())
}

/// The kernel of a kind of steps of variables of a type, which tries sums without float64 if `words`
/// says so.
fn kernel(kind: StepKind, dtype: DType, words: bool) -> &'static str {
    macro_rules! kernel {
        ($name:literal) => {
            match dtype {
                DType::Float32 if words => concat!("umbo_", $name, "_f32_words"),
                DType::Float32 => concat!("umbo_", $name, "_f32"),
                _ => concat!("umbo_", $name, "_f64"),
            }
        };
    }
    match kind {
        StepKind::Sgd => kernel!("sgd"),
        StepKind::Momentum => kernel!("momentum"),
        StepKind::Nesterov => kernel!("nesterov"),
        StepKind::Adam => kernel!("adam"),
        StepKind::AdamW => kernel!("adamw"),
        StepKind::Adagrad => kernel!("adagrad"),
        StepKind::RmsProp => kernel!("rmsprop"),
        StepKind::RmsPropMomentum => kernel!("rmsprop_momentum"),
        StepKind::RmsPropCentered => kernel!("rmsprop_centered"),
        StepKind::RmsPropCenteredMomentum => kernel!("rmsprop_centered_momentum"),
        StepKind::Lamb => kernel!("lamb"),
        StepKind::Ftrl => kernel!("ftrl"),
    }
}
