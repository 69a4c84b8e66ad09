"""PyTorch's optimizer database: every input of the optimizers that have a counterpart here, and every error input.

The same start and the same gradients, 100 steps: in float64 within 1e-12, in float32 within the rounding of the
weights by each step. Of the states likewise."""
import warnings

import numpy as np
import torch
from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db

from frame import Case, NotApplicable, close, refused
from trainer import Trainer

TITLE = "PyTorch's optimizer database (`optim_db`)"
JUDGE = ["torch"]

STEPS = 100
SHAPES = [(5, 3), (7,), (), (2, 1, 4)]
DTYPES = {torch.float64: 1e-12, torch.float32: STEPS * 2.0**-23}
# What torch's words are in umbo_..._options; those of None are PyTorch's choice of an implementation.
OPTIONS = {"lr": "learning_rate", "eps": "epsilon", "alpha": "rho", "initial_accumulator_value": "initial_accumulator",
           "lr_decay": "learning_rate_decay",
           "betas": ("beta1", "beta2"), "foreach": None, "fused": None, "differentiable": None, "capturable": None}
FLAGS = {"amsgrad", "centered", "nesterov", "decoupled_weight_decay"}
# Those in umbo_optimizer_options.
SETTINGS = {"weight_decay", "maximize"}
RULES = {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw", "NAdam": "nadam", "RAdam": "radam", "Adagrad": "adagrad", "RMSprop": "rmsprop",
         "SparseAdam": "adam"}
# Rules of both that differ by more than rounding, and why.
OTHERWISE = {"Muon": "PyTorch iterates in bfloat16, and Umbo in float32"}
STATES = {"exp_avg": "m", "exp_avg_sq": "v", "max_exp_avg_sq": "v_max", "sum": "accumulator", "square_avg": "v",
          "grad_avg": "mean", "momentum_buffer": "momentum"}


def translated(name, kwargs):
    """The rule, its options and the settings that are an optimizer's of torch with these arguments."""
    rule, options, settings = RULES[name], {}, {}
    if name == "SGD":
        # Umbo's learning rate of 0.01 is Keras' (docs/internals/optimizers.md).
        options["learning_rate"] = 0.001
        if kwargs.get("momentum") or kwargs.get("nesterov"):
            rule = "momentum"
        else:
            kwargs = {key: value for key, value in kwargs.items() if key not in ("momentum", "nesterov", "dampening")}
    for key, value in kwargs.items():
        value = [float(one) for one in value] if key == "betas" else float(value)
        if key in SETTINGS:
            settings[key] = int(value) if key == "maximize" else value
        elif isinstance(ours := OPTIONS.get(key, key), tuple):
            options |= zip(ours, value)
        elif ours:
            options[ours] = int(value) if ours in FLAGS else value
    return rule, options, settings


def start(dtype):
    generator = np.random.default_rng(1)
    # Of float32 in both types, so that the types have the same start and the same gradients.
    return [generator.uniform(0.5, 1.5, shape).astype(np.float32).astype(dtype) for shape in SHAPES], generator


def numpy_of(dtype):
    return np.float64 if dtype == torch.float64 else np.float32


def run_input(info, dtype, given):
    """The same training by both. PyTorch keeps numbers such as NAdam's product of momenta in its default type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        compare_input(info, dtype, given)
    finally:
        torch.set_default_dtype(before)


def compare_input(info, dtype, given):
    initial, generator = start(numpy_of(dtype))
    parameters = [torch.nn.Parameter(torch.from_numpy(array.copy()) if array.shape else torch.tensor(array.item(), dtype=dtype))
                  for array in initial]
    theirs = info.optim_cls(parameters, **given.kwargs)
    rule, options, settings = translated(info.name, given.kwargs)
    ours = Trainer(rule, initial, options, settings)
    for step in range(STEPS):
        # Not all of one size, and with zeros, of which some rules have an opinion.
        gradients = [generator.normal(0.2, 1.0, shape) * (generator.random(shape) < 0.9) * 10.0 ** (step % 3 - 1)
                     for shape in SHAPES]
        gradients = [np.asarray(gradient, np.float32).astype(numpy_of(dtype)) for gradient in gradients]
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = torch.from_numpy(gradient.copy()).reshape(parameter.shape)
        theirs.step()
        ours.step(*gradients)
    for index, parameter in enumerate(parameters):
        close(f"weights {index}", ours.weights(index), parameter.detach().numpy(), DTYPES[dtype])
        for name, state in theirs.state[parameter].items():
            if name in STATES and state is not None:
                close(f"{name} {index}", ours.state(STATES[name], index), state.numpy(), DTYPES[dtype])
    moved = max(np.abs(ours.weights(index) - array).max() for index, array in enumerate(initial))
    assert moved > 1e-3, "the weights stood still"


# What is compared where gradients are sparse, and to which bound. SparseAdam adds epsilon to the moment without its
# correction, so that its bound is that of epsilon.
SPARSE = {"SGD": ({"lr": 0.01}, 1e-12), "Adagrad": ({"lr": 0.1}, 1e-12), "SparseAdam": ({}, 1e-6)}


def run_sparse(info, kwargs, bound):
    """Some rows in each step, in any order, some of them twice."""
    generator = np.random.default_rng(5)
    initial = generator.uniform(0.5, 1.5, (6, 3))
    parameter = torch.nn.Parameter(torch.from_numpy(initial.copy()))
    theirs = info.optim_cls([parameter], **kwargs)
    rule, options, settings = translated(info.name, kwargs)
    ours = Trainer(rule, [initial], options, settings, sparse=[0])
    for _ in range(STEPS):
        rows = generator.integers(0, 6, 4)
        values = generator.normal(0.2, 1.0, (4, 3))
        parameter.grad = torch.sparse_coo_tensor(torch.from_numpy(rows[None]), torch.from_numpy(values), (6, 3),
                                                 check_invariants=True)
        theirs.step()
        ours.step((rows, values))
    close("weights", ours.weights(), parameter.detach().numpy(), bound)


# Error inputs about the objects of PyTorch's that its optimizers are given, by the words of their description.
OF_PYTHON = {
    "invalid param type": "the type of a Python argument",
    "unordered set": "the type of a Python argument",
    "with/without names": "names of parameter groups",
    "Tensor lr": "a tensor as a learning rate",
    "lr as Tensor": "a tensor as a learning rate",
    "betas must be either": "a tensor as beta",
    "betas\\[0\\] as a Tensor": "a tensor as beta",
}


def run_error(info, error):
    """Umbo refuses what PyTorch refuses."""
    given = error.optimizer_error_input
    for words, reason in OF_PYTHON.items():
        if words in given.desc:
            raise NotApplicable(reason)
    if error.error_on != OptimizerErrorEnum.CONSTRUCTION_ERROR:
        raise NotApplicable("an error of a step in PyTorch's own implementation")
    parameters = given.params if given.params is not None else [torch.nn.Parameter(torch.zeros(2))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            info.optim_cls(parameters, **given.kwargs)
        except (ValueError, RuntimeError, TypeError, Warning):
            pass
        else:
            raise AssertionError("PyTorch itself has no objection")
    arrays = [np.zeros(2)]
    if "duplicate" in given.desc:
        ours = Trainer("sgd", arrays)
        if isinstance(given.params[0], dict):
            refused(lambda: [ours.add_group(0) for _ in range(2)], given.desc)
        else:
            refused(lambda: ours.gradients_of([0, 0]), given.desc)
        return
    refused(lambda: Trainer(*translated_trainer(info.name, given.kwargs, arrays)), given.desc)


def translated_trainer(name, kwargs, arrays):
    rule, options, settings = translated(name, kwargs)
    return rule, arrays, options, settings


def cases(small):
    for info in optim_db:
        if info.name in SPARSE and not small:
            kwargs, bound = SPARSE[info.name]
            inputs = info.optim_inputs_func(device="cpu", dtype=torch.float64) if info.only_supports_sparse_grads else []
            for given in [kwargs] + [given.kwargs for given in inputs]:
                yield Case(f"{info.name} sparse {given}",
                           lambda info=info, given=given, bound=bound: run_sparse(info, given, bound))
        if info.only_supports_sparse_grads and info.name in SPARSE:
            continue
        if info.name not in RULES:
            reason = OTHERWISE.get(info.name, "Umbo has no such rule")

            def absent(reason=reason):
                raise NotApplicable(reason)
            count = len(info.optim_inputs_func(device="cpu", dtype=torch.float64))
            yield from [] if small else (Case(f"{info.name} {at}", absent) for at in range(count))
            continue
        for dtype in DTYPES:
            for given in info.optim_inputs_func(device="cpu", dtype=dtype)[:1 if small else None]:
                yield Case(f"{info.name} {str(dtype)[6:]} {given.desc}",
                           lambda info=info, dtype=dtype, given=given: run_input(info, dtype, given))
        for error in info.optim_error_inputs_func(device="cpu", dtype=torch.float64)[-1 if small else None:]:
            yield Case(f"{info.name} refuses: {error.optimizer_error_input.desc}",
                       lambda info=info, error=error: run_error(info, error))
