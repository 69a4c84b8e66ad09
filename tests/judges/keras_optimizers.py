"""Keras' optimizers: their defaults, 100 steps of each rule, dense and sparse, and Keras' own tests of them.

For those tests each optimizer's update_step() is Umbo's: it keeps what Keras keeps, and Keras does all around it.

Epsilon has another place in Keras (docs/internals/optimizers.md), so that the steps are compared with one that is next to
nothing; Keras' own tests have Keras' epsilon, and their own bounds."""
import importlib
import os
import pathlib

os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
import keras
import numpy as np
import tensorflow as tf
from keras import optimizers

from frame import Case, NotApplicable, close, unit_tests
from trainer import Stepper, Trainer

TITLE = "Keras' optimizers, by defaults, by 100 steps, and by Keras' own tests"
JUDGE = ["keras", "tensorflow-cpu"]
STEPS = 100
TINY = 1e-30
# Where rounding differs in each step: powers of beta, and steps that Keras keeps in place of gradients.
BOUND = 1e-11

NAMES = {"learning_rate": "learning_rate", "momentum": "momentum", "nesterov": "nesterov", "beta_1": "beta1",
         "beta_2": "beta2", "epsilon": "epsilon", "amsgrad": "amsgrad", "rho": "rho", "centered": "centered",
         "beta": "beta", "initial_accumulator_value": "initial_accumulator", "l1_regularization_strength": "l1",
         "l2_regularization_strength": "l2"}
CLASSES = {"sgd": optimizers.SGD, "momentum": optimizers.SGD, "adam": optimizers.Adam, "adamw": optimizers.AdamW,
           "nadam": optimizers.Nadam, "lion": optimizers.Lion, "lamb": optimizers.Lamb, "adagrad": optimizers.Adagrad, "rmsprop": optimizers.RMSprop,
           "ftrl": optimizers.Ftrl}
# Where Keras keeps what Umbo keeps.
STATES = {"momentum": {"momentum": "momentums"}, "adagrad": {"accumulator": "_accumulators"},
          "rmsprop": {"v": "_velocities", "mean": "_average_gradients", "momentum": "_momentums"},
          "ftrl": {"z": "_linears", "n": "_accumulators"},
          **dict.fromkeys(("adam", "adamw", "nadam"), {"m": "_momentums", "v": "_velocities", "v_max": "_velocity_hats"}),
          "lion": {"m": "_momentums"}, "lamb": {"m": "_momentums", "v": "_velocities"}}
# The rules, and what is set besides the defaults. Keras rounds some numbers to float32, so these are float32's.
RATE, MOMENTUM = 2.0**-7, 0.875
BETAS = {"learning_rate": RATE, "beta_1": 0.875, "beta_2": 1 - 2.0**-10, "epsilon": TINY}
RMS = {"learning_rate": RATE, "rho": 0.875, "epsilon": TINY}
RULES = {
    "SGD": ("sgd", {"learning_rate": RATE}),
    "SGD with momentum": ("momentum", {"learning_rate": RATE, "momentum": MOMENTUM}),
    "SGD with Nesterov's momentum": ("momentum", {"learning_rate": RATE, "momentum": MOMENTUM, "nesterov": True}),
    "Adam": ("adam", BETAS),
    "AMSGrad": ("adam", BETAS | {"amsgrad": True}),
    "AdamW": ("adamw", BETAS | {"weight_decay": 2.0**-8}),
    "Nadam": ("nadam", BETAS),
    "Lion": ("lion", {"learning_rate": RATE, "beta_1": 0.875, "beta_2": 1 - 2.0**-10}),
    "Lamb": ("lamb", BETAS),
    "Adagrad": ("adagrad", {"learning_rate": RATE, "epsilon": TINY, "initial_accumulator_value": 0.125}),
    "RMSprop": ("rmsprop", RMS),
    "RMSprop with momentum": ("rmsprop", RMS | {"momentum": MOMENTUM}),
    "RMSprop, centered": ("rmsprop", RMS | {"centered": True}),
    "Ftrl": ("ftrl", {"learning_rate": RATE, "beta": 0.5, "initial_accumulator_value": 0.125}),
    "Ftrl with bounds": ("ftrl", {"learning_rate": 0.125, "beta": 0.5, "initial_accumulator_value": 0.125,
                                  "l1_regularization_strength": 0.125, "l2_regularization_strength": 0.25}),
}


def translated(rule, config):
    """The options and settings of Umbo that a configuration of Keras means."""
    options = {NAMES[name]: value for name, value in config.items() if name in NAMES and value is not None}
    if rule == "sgd":
        options = {"learning_rate": options["learning_rate"]}
    if rule == "nadam":
        options["momentum_decay"] = 1.0  # Keras' constant
    if rule == "ftrl":
        options["l2"] = options.get("l2", 0) * 2  # Keras multiplies by 2
    options = {name: int(value) if isinstance(value, bool) else value for name, value in options.items()}
    if config.get("learning_rate_power", -0.5) != -0.5 or config.get("l2_shrinkage_regularization_strength"):
        raise NotApplicable("FTRL with another power of the learning rate, or with shrinkage, which Umbo has not")
    if rule in ("adam", "adamw") and config["epsilon"] > 1e-3:
        raise NotApplicable("a large epsilon, which Keras adds to the moment without its correction")
    return options, config.get("weight_decay") or 0.0


class Training:
    """The same training by both, in float64."""

    def __init__(self, name, shape, sparse=False):
        rule, given = RULES[name]
        self.generator = np.random.default_rng(2)
        self.initial = self.generator.uniform(0.5, 1.5, shape)
        self.variable = keras.Variable(self.initial, dtype="float64")
        self.theirs = CLASSES[rule](**given)
        config = self.theirs.get_config()
        options, decay = translated(rule, config)
        settings = {"weight_decay": decay}
        self.ours = Trainer(rule, [self.initial], options, settings, sparse=[0] if sparse else [])

    def apply(self, gradient, theirs):
        self.ours.step(gradient)
        self.theirs.apply([theirs], [self.variable])

    def compare(self):
        # Keras rounds the 0.96 of Nadam to float32.
        bound = 1e-8 if isinstance(self.theirs, optimizers.Nadam) else BOUND
        close("weights", self.ours.weights(), self.variable.numpy(), bound)
        assert np.abs(self.ours.weights() - self.initial).max() > 1e-3, "the weights stood still"


def dense(name):
    training = Training(name, (5, 3))
    for step in range(STEPS):
        gradient = training.generator.normal(0.2, 1.0, (5, 3)) * 10.0 ** (step % 3 - 1)
        training.apply(gradient, tf.constant(gradient))
    training.compare()


def sparse(name):
    """Rows in any order. What Keras makes of rows that have no gradient is another matter."""
    rule = RULES[name][0]
    if rule == "lamb":
        raise NotApplicable("LAMB refuses row-sparse gradients: it needs the norms of whole variables")
    training = Training(name, (6, 3), sparse=True)
    generator = training.generator
    for _ in range(STEPS):
        # Rules that do nothing where the gradient is 0 are the same lazily; of the others each row has a gradient.
        rows = generator.permutation(6)[:3 if rule in ("sgd", "adagrad") else 6]
        if rule in ("sgd", "momentum"):
            rows = np.concatenate([rows, generator.integers(0, 6, 2) if rule == "momentum" else rows[:2]])
        values = generator.normal(0.2, 1.0, (len(rows), 3))
        training.apply((rows, values), tf.IndexedSlices(tf.constant(values), tf.constant(rows), (6, 3)))
    training.compare()


def lazy(_):
    raise NotApplicable("rows without a gradient: Umbo leaves them alone (umbo_gradients_add_rows), Keras moves them")


def repeated(_):
    raise NotApplicable("a row that is named twice: Umbo adds its gradients before they are squared, Keras after it")


def defaults():
    """The numbers that docs/internals/optimizers.md says are Keras'."""
    table = pathlib.Path(__file__).parents[2] / "docs/internals/optimizers.md"
    ours = {name: keras_name for keras_name, name in NAMES.items()} | {"weight_decay": "weight_decay"}
    for line in table.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 5 and cells[1] in CLASSES and cells[2] in ours and cells[4] != "-":
            yield Case(f"default {cells[1]} {cells[2]}",
                       lambda rule=cells[1], name=ours[cells[2]], value=cells[4]: default(rule, name, value))


def default(rule, name, said):
    found = CLASSES[rule]().get_config()[name]
    assert float(found or 0) == float(said) or abs(float(found) - float(said)) < 1e-9, f"{found}, not {said}"


def substituted():
    """Puts Umbo in the place of each optimizer's update_step."""
    def step(self, gradient, variable, learning_rate, rule):
        index = self._get_variable_index(variable)
        weights = variable.numpy()
        rows = isinstance(gradient, tf.IndexedSlices)
        if rows and rule in ("sgd", "adagrad"):
            gradient = np.asarray(gradient.indices), np.asarray(gradient.values, weights.dtype)
        else:
            gradient, rows = tf.convert_to_tensor(gradient).numpy().astype(weights.dtype), False
        keras_states = {name: getattr(self, where)[index] for name, where in STATES.get(rule, {}).items()
                        if getattr(self, where, None)}
        rate = float(learning_rate)
        states = {name: state.numpy() for name, state in keras_states.items()}
        key = (index, rows, weights.shape)
        steppers = self.__dict__.setdefault("umbo", {})
        if key not in steppers:
            # Keras decays the weights before its step.
            options, _ = translated(rule, self.get_config() | {"learning_rate": rate})
            steppers[key] = Stepper(rule, weights, options, {"weight_decay": 0.0}, sparse=rows)
        # Keras' sum is of steps.
        if "momentum" in states:
            states["momentum"] = states["momentum"] * ((-1 if rule == "momentum" else 1) / rate)
        weights, states = steppers[key].step(weights, states, int(self.iterations.numpy()), gradient, rate)
        if "momentum" in states:
            states["momentum"] = states["momentum"] * (rate * (-1 if rule == "momentum" else 1))
        self.assign(variable, weights)
        for name, state in states.items():
            self.assign(keras_states[name], state)

    for rule, optimizer in CLASSES.items():
        if rule not in ("sgd", "momentum"):
            optimizer.update_step = (lambda self, gradient, variable, rate, rule=rule:
                                     step(self, gradient, variable, rate, rule))
    optimizers.SGD.update_step = lambda self, gradient, variable, rate: step(
        self, gradient, variable, rate, "momentum" if self.momentum else "sgd")


def own_tests():
    """Keras' tests of optimizers that Umbo has."""
    for module in ("sgd", "adam", "adamw", "nadam", "lion", "lamb", "adagrad", "rmsprop", "ftrl", "optimizer", "optimizer_sparse"):
        tests = importlib.import_module(f"keras.src.optimizers.{module}_test")
        for name, test in vars(tests).items():
            if isinstance(test, type) and name.endswith("Test") and test.__module__ == tests.__name__:
                yield from unit_tests(test, inapplicable)


def inapplicable(name):
    if name.startswith("test_sparse_gradients"):
        raise NotApplicable("which of Keras' functions are called for a sparse gradient")


def cases(small):
    keras.config.set_floatx("float64")
    tf.config.run_functions_eagerly(True)
    names = ["Adam", "Ftrl"] if small else RULES
    yield from [] if small else defaults()
    for name in names:
        yield Case(f"dense {name}", lambda name=name: dense(name))
    for name in ["Adagrad"] if small else RULES:
        yield Case(f"sparse {name}", lambda name=name: sparse(name))
        if not small and RULES[name][0] not in ("sgd", "adagrad", "lamb"):
            yield Case(f"sparse with rows left out {name}", lambda name=name: lazy(name))
        if not small and RULES[name][0] not in ("sgd", "momentum", "lamb"):
            yield Case(f"sparse with rows named twice {name}", lambda name=name: repeated(name))
    if not small:
        keras.config.set_floatx("float32")
        substituted()
        yield from own_tests()
