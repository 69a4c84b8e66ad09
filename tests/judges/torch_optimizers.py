"""PyTorch's optimizer database: every input of the optimizers that have a counterpart here, and every error input.

The same start and the same gradients, 100 steps: in float64 within 1e-12, in float32 within the rounding of the
weights by each step. Of the states likewise. Muon's steps are computed in float32 for both types of weights: there
PyTorch is made to do so, and bounds are those of sums in another order; and once as it is, in bfloat16."""
import contextlib
import unittest.mock
import warnings

import numpy as np
import torch
import torch.optim._muon
from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db

from frame import Case, NotApplicable, close, refused
from trainer import Trainer

TITLE = "PyTorch's optimizer database (`optim_db`)"
JUDGE = ["torch"]

STEPS = 100
SHAPES = [(5, 3), (7,), (), (2, 1, 4)]
# What rules for matrices alone are compared by: tall, wide and square ones, a row and a column.
MATRICES = [(5, 3), (3, 17), (8, 8), (1, 4), (40, 1), (30, 18)]
DTYPES = {torch.float64: 1e-12, torch.float32: STEPS * 2.0**-23}
# What torch's words are in umbo_..._options; those of None are PyTorch's choice of an implementation.
OPTIONS = {"lr": "learning_rate", "eps": "epsilon", "alpha": "rho", "initial_accumulator_value": "initial_accumulator",
           "lr_decay": "learning_rate_decay", "d": "clip_threshold",
           "betas": ("beta1", "beta2"), "foreach": None, "fused": None, "differentiable": None, "capturable": None}
FLAGS = {"match_adamw", "amsgrad", "centered", "nesterov", "decoupled_weight_decay"}
# Those in umbo_optimizer_options.
SETTINGS = {"weight_decay", "maximize"}
RULES = {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw", "NAdam": "nadam", "RAdam": "radam", "Adagrad": "adagrad", "RMSprop": "rmsprop",
         "SparseAdam": "adam", "Muon": "muon", "Adafactor": "adafactor"}
# Bounds of rules whose steps are computed in float32 for both types of weights.
STEPS_IN_FLOAT32 = {"Muon": 1e-6}
# The share of the way of the weights by which PyTorch's Muon, which iterates in bfloat16, may end elsewhere.
APART_BY_BFLOAT16 = 0.05
STATES = {"exp_avg": "m", "exp_avg_sq": "v", "max_exp_avg_sq": "v_max", "sum": "accumulator", "square_avg": "v",
          "grad_avg": "mean", "momentum_buffer": "momentum", "row_var": "v_row", "col_var": "v_column", "variance": "v"}


def translated(name, kwargs):
    """The rule, its options and the settings that are an optimizer's of torch with these arguments."""
    rule, options, settings = RULES[name], {}, {}
    if name == "Muon":
        kwargs = kwargs_of_muon(kwargs)
    if name == "Adafactor" and "eps" in kwargs:
        # PyTorch's None, the distance from 1 to the next number, is Umbo's 0.
        epsilons = dict(zip(("epsilon1", "epsilon2"), (one or 0.0 for one in kwargs["eps"])))
        kwargs = {key: value for key, value in kwargs.items() if key != "eps"} | epsilons
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


def kwargs_of_muon(kwargs):
    if "ns_steps" in kwargs or "ns_coefficients" in kwargs:
        raise NotApplicable("Muon with another iteration, which Umbo has not")
    scale = kwargs.get("adjust_lr_fn", "original")
    if scale not in ("original", "match_rms_adamw"):
        raise NotApplicable("Muon with another scale, which Umbo has not")
    kwargs = {key: value for key, value in kwargs.items() if key != "adjust_lr_fn"}
    return kwargs | {"match_adamw": 1} if scale == "match_rms_adamw" else kwargs


class WithoutBfloat16:
    """PyTorch, whose bfloat16 is float32."""
    bfloat16 = torch.float32

    def __getattr__(self, name):
        return getattr(torch, name)


def iterating_in_float32():
    """While it is entered, PyTorch's Muon iterates in the type that Umbo's does."""
    return unittest.mock.patch.object(torch.optim._muon, "torch", WithoutBfloat16())


def start(dtype, shapes=SHAPES):
    generator = np.random.default_rng(1)
    # Of float32 in both types, so that the types have the same start and the same gradients.
    return [generator.uniform(0.5, 1.5, shape).astype(np.float32).astype(dtype) for shape in shapes], generator


def numpy_of(dtype):
    return np.float64 if dtype == torch.float64 else np.float32


def run_input(info, dtype, given):
    """The same training by both. PyTorch keeps numbers such as NAdam's product of momenta in its default type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with iterating_in_float32() if info.name == "Muon" else contextlib.nullcontext():
            compare_input(info, dtype, given)
    finally:
        torch.set_default_dtype(before)


def trained_by_both(info, dtype, given):
    """The weights at first, PyTorch's optimizer with its parameters, and Umbo's, both after the steps."""
    shapes = MATRICES if info.name in STEPS_IN_FLOAT32 else SHAPES
    initial, generator = start(numpy_of(dtype), shapes)
    parameters = [torch.nn.Parameter(torch.from_numpy(array.copy()) if array.shape else torch.tensor(array.item(), dtype=dtype))
                  for array in initial]
    # A rate that is a tensor was made in float32, in which 1 - lr * weight_decay is rounded.
    kwargs = {key: value.to(dtype) if torch.is_tensor(value) else value for key, value in given.kwargs.items()}
    theirs = info.optim_cls(parameters, **kwargs)
    rule, options, settings = translated(info.name, given.kwargs)
    ours = Trainer(rule, initial, options, settings)
    for step in range(STEPS):
        # Not all of one size, and with zeros, of which some rules have an opinion.
        gradients = [generator.normal(0.2, 1.0, shape) * (generator.random(shape) < 0.9) * 10.0 ** (step % 3 - 1)
                     for shape in shapes]
        gradients = [np.asarray(gradient, np.float32).astype(numpy_of(dtype)) for gradient in gradients]
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = torch.from_numpy(gradient.copy()).reshape(parameter.shape)
        theirs.step()
        ours.step(*gradients)
    return initial, theirs, parameters, ours


def compare_input(info, dtype, given):
    initial, theirs, parameters, ours = trained_by_both(info, dtype, given)
    bound = max(DTYPES[dtype], STEPS_IN_FLOAT32.get(info.name, 0.0))
    for index, parameter in enumerate(parameters):
        close(f"weights {index}", ours.weights(index), parameter.detach().numpy(), bound)
        for name, state in theirs.state[parameter].items():
            if name in STATES and state is not None:
                found = ours.state(STATES[name], index)
                # PyTorch's means of rows and columns have a dimension of 1 in the place of the other.
                theirs_too = state.numpy().reshape(found.shape) if name in ("row_var", "col_var") else state.numpy()
                close(f"{name} {index}", found, theirs_too, DTYPES[dtype])
    moved = max(np.abs(ours.weights(index) - array).max() for index, array in enumerate(initial))
    assert moved > 1e-3, "the weights stood still"


def iterate_in_bfloat16(info):
    """Muon as PyTorch has it: how far the weights of both come apart, as a share of their way."""
    given = info.optim_inputs_func(device="cpu", dtype=torch.float32)[0]
    initial, _, parameters, ours = trained_by_both(info, torch.float32, given)
    shares = []
    for index, (before, parameter) in enumerate(zip(initial, parameters)):
        after = parameter.detach().numpy()
        shares.append(np.linalg.norm(ours.weights(index) - after) / np.linalg.norm(after - before))
    assert 1e-6 < max(shares) < APART_BY_BFLOAT16, f"{max(shares):.1e} of the way apart"
    return f"Muon in bfloat16 ends {max(shares):.1%} of the way apart"


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
    "unsupported adjust_lr_fn": "the text of a choice",
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
    if "only support 2D" in given.desc:
        # Umbo's optimizers are made without variables.
        ours = Trainer(RULES[info.name], [np.zeros((2, 3, 4))])
        refused(lambda: ours.step(np.ones((2, 3, 4))), given.desc)
        return
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
            def absent():
                raise NotApplicable("Umbo has no such rule")
            count = len(info.optim_inputs_func(device="cpu", dtype=torch.float64))
            yield from [] if small else (Case(f"{info.name} {at}", absent) for at in range(count))
            continue
        for dtype in DTYPES:
            for given in info.optim_inputs_func(device="cpu", dtype=dtype)[:1 if small else None]:
                yield Case(f"{info.name} {str(dtype)[6:]} {given.desc}",
                           lambda info=info, dtype=dtype, given=given: run_input(info, dtype, given))
        if info.name == "Muon" and not small:
            yield Case("Muon in bfloat16", lambda info=info: iterate_in_bfloat16(info))
        for error in info.optim_error_inputs_func(device="cpu", dtype=torch.float64)[-1 if small else None:]:
            yield Case(f"{info.name} refuses: {error.optimizer_error_input.desc}",
                       lambda info=info, error=error: run_error(info, error))
