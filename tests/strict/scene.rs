//! A training program: variables, gradients, and callbacks that make a mistake or none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::{
    GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, apply,
};
use umbo_core::strategy::step::limits::Limits;
use umbo_core::strategy::step::merge::Operation;
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{Options, ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Variable};

/// How callbacks are run, and with what.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub replicas: usize,
    /// Replicas take turns on devices, of which there is one less.
    pub shares_devices: bool,
    pub strict: bool,
    /// The dtype of the variables.
    pub variables: DType,
    /// That of the gradients, if it is another.
    pub gradients: Option<DType>,
    pub accumulation_steps: u64,
    /// Every replica has a thread of its own, and the caller watches.
    pub is_bounded: bool,
    /// The callbacks run inside of a merge call of another run.
    pub is_nested: bool,
    /// The replica that has no examples.
    pub empty: Option<usize>,
    pub mode: GradientMode,
}

impl Setting {
    pub const PLAIN: Setting = Setting {
        replicas: 2,
        shares_devices: false,
        strict: true,
        variables: DType::Float32,
        gradients: None,
        accumulation_steps: 1,
        is_bounded: false,
        is_nested: false,
        empty: None,
        mode: GradientMode::Overwrite,
    };

    pub fn dtype(&self) -> DType {
        self.gradients.unwrap_or(self.variables)
    }

    pub fn weight(&self, replica: usize) -> f64 {
        if self.empty == Some(replica) {
            0.0
        } else {
            1.0 + replica as f64
        }
    }
}

/// The names and shapes of the variables. The last is row-sparse.
pub const VARIABLES: [(&str, &[usize]); 5] = [
    ("weight", &[3, 5]),
    ("nothing", &[0, 4]),
    ("number", &[]),
    ("bias", &[64]),
    ("table", &[7, 3]),
];

pub const TABLE: usize = VARIABLES.len() - 1;

/// The rows of the table that each replica contributes.
pub const ROWS: [i64; 2] = [5, 2];

pub struct Scene {
    pub setting: Setting,
    pub strategy: Strategy,
    pub variables: Vec<Variable>,
    pub gradients: Arc<Gradients>,
    pub optimizer: Arc<Optimizer>,
}

/// What a callback does beside its work.
pub type Extra = Arc<dyn Fn(&ReplicaContext, &Scene) -> Result<()> + Send + Sync>;

/// A callback's extras: before anything is written, before and after it submits.
#[derive(Clone, Default)]
pub struct Extras {
    pub first: Option<Extra>,
    pub before: Option<Extra>,
    pub after: Option<Extra>,
    /// The replica leaves this one of its gradients' elements out, of this variable.
    pub left_out: Option<(usize, usize, usize)>,
}

pub fn variable(strategy: &Strategy, name: &str, dtype: DType, shape: &[usize]) -> Variable {
    let new = crate::fresh::new_variable(name, Aggregation::Mean);
    let shape = Shape::new(shape).unwrap();
    let initial = Tensor::zeros(dtype, shape, DeviceId::HOST).unwrap();
    variables::create(Some(strategy), new, Initial::Value(&initial)).unwrap()
}

/// Writes a number as the element at `index` from `data` on, as if it were an array of `dtype`.
pub fn put(data: *mut u8, dtype: DType, index: isize, number: f32) {
    // SAFETY: tests call this for places in the library's memory, between its fences and in them.
    unsafe {
        match dtype {
            DType::Float32 => data.cast::<f32>().offset(index).write(number),
            DType::Float64 => data.cast::<f64>().offset(index).write(number.into()),
            DType::Float16 => data
                .cast::<half::f16>()
                .offset(index)
                .write(half::f16::from_f32(number)),
            DType::BFloat16 => data
                .cast::<half::bf16>()
                .offset(index)
                .write(half::bf16::from_f32(number)),
            DType::Int64 => data.cast::<i64>().offset(index).write(number as i64),
            other => panic!("no test writes {other}"),
        }
    }
}

fn write_all(tensor: &Tensor, left_out: Option<usize>, number: impl Fn(usize) -> f32) {
    for index in (0..tensor.shape().elements()).filter(|&index| Some(index) != left_out) {
        put(
            tensor.address(),
            tensor.dtype(),
            index as isize,
            number(index),
        );
    }
}

impl Scene {
    pub fn new(setting: Setting) -> Arc<Scene> {
        let options = Options {
            cpu_replicas: setting.replicas - usize::from(setting.shares_devices),
            replicas_in_sync: if setting.shares_devices {
                setting.replicas
            } else {
                0
            },
            strict: setting.strict,
            ..Options::default()
        };
        let strategy = Strategy::new(&options).unwrap();
        let variables: Vec<Variable> = VARIABLES
            .iter()
            .map(|(name, shape)| variable(&strategy, name, setting.variables, shape))
            .collect();
        let mut row_sparse = [false; VARIABLES.len()];
        row_sparse[TABLE] = true;
        let options = GradientsOptions {
            accumulation_steps: setting.accumulation_steps,
            dtype: setting.gradients,
            row_sparse: &row_sparse,
        };
        let id = strategy.id();
        let devices = strategy.replica_devices();
        let reduction = LossReduction::Sum;
        let gradients = Gradients::new(id, devices, variables.clone(), reduction, options).unwrap();
        let rule = Momentum::new(0.5, false).unwrap();
        let optimizer = Optimizer::new(id, Box::new(rule), 0.25).unwrap();
        Arc::new(Scene {
            setting,
            strategy,
            variables,
            gradients,
            optimizer,
        })
    }

    /// What a replica does in a step.
    fn step(self: &Arc<Self>, context: &ReplicaContext, extras: &Extras) -> Result<()> {
        let replica = context.replica();
        let call =
            |extra: &Option<Extra>| extra.as_ref().map_or(Ok(()), |extra| extra(context, self));
        let left_out = |index| {
            let (owner, variable, element) = extras.left_out?;
            ((owner, variable) == (replica, index)).then_some(element)
        };
        call(&extras.first)?;
        for index in 0..TABLE {
            let buffer = self.gradients.view_in(context, index, self.setting.mode)?;
            write_all(buffer, left_out(index), |element| {
                (element + index + replica) as f32 - 3.0
            });
        }
        let added = self.gradients.add_rows_in(context, TABLE, ROWS.len())?;
        write_all(&added.indices, None, |row| ROWS[row] as f32);
        write_all(&added.values, left_out(TABLE), |element| {
            (element * 2 + replica) as f32 - 1.0
        });
        let memory = context.scratch(40)?;
        (0..10).for_each(|index| put(memory, DType::Float32, index, 1.0));
        call(&extras.before)?;
        self.gradients
            .submit_in(context, Some(self.setting.weight(replica)))?;
        call(&extras.after)
    }

    /// Runs `function` on all replicas, as the setting says.
    pub fn run(self: &Arc<Self>, function: Arc<ReplicaFunction>) -> Result<()> {
        let limits = match self.setting.is_bounded {
            true => Limits {
                deadline: Some(Instant::now() + Duration::from_secs(600)),
                ..Limits::default()
            },
            false => Limits::default(),
        };
        let function: Arc<ReplicaFunction> = match self.setting.is_nested {
            false => function,
            true => Arc::new(move |context: &ReplicaContext| {
                let function = Arc::clone(&function);
                context.synchronize(
                    Operation::MergeCall { function: 1 },
                    None,
                    Box::new(move |strategy, _| {
                        strategy.run_within(function, None, Limits::default(), None)?;
                        Ok(None)
                    }),
                )
            }),
        };
        self.strategy
            .run_within(function, None, limits, None)
            .map(drop)
    }

    /// A run of the training program's callback.
    pub fn train(self: &Arc<Self>, extras: Extras) -> Result<()> {
        let scene = Arc::clone(self);
        self.run(Arc::new(move |context: &ReplicaContext| {
            scene.step(context, &extras)?;
            Ok(None)
        }))
    }

    /// A run without mistakes, and what it contributes applied.
    pub fn train_well(self: &Arc<Self>) {
        self.train(Extras::default()).unwrap();
        apply(&self.optimizer, &self.gradients).unwrap();
    }

    /// The bits of all variables.
    pub fn bits(&self) -> Vec<Vec<u8>> {
        let bits = |variable| {
            let value = variables::read(variable).unwrap();
            value.reading().unwrap().as_bytes().unwrap().to_vec()
        };
        self.variables.iter().map(bits).collect()
    }
}
