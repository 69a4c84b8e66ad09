"""Umbo's optimizers over arrays, for judges that bring gradients of their own."""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs/python"))
import numpy as np
from binding import array_of, check, ffi, lib, made, on_replicas, shown, tensor_of

# The names of a rule's states, as umbo_optimizer_read_state() has them.
STATES = ("m", "v", "v_max", "accumulator", "momentum", "mean", "z", "n")


def options_of(kind, fields):
    """A struct of options: its defaults, and what is said."""
    options = ffi.new(f"{kind} *", getattr(lib, f"{kind.upper()}_INIT"))
    for name, value in fields.items():
        setattr(options, name, value)
    return options


class Trainer:
    """One optimizer with its variables, on one replica: what is submitted is the gradient.

    `options` are fields of the rule's options, `settings` those of umbo_optimizer_options. `dtype` is
    that of the gradients; 0, UMBO_DTYPE_NONE, is the variables'."""

    def __init__(self, rule, arrays, options=None, settings=None, sparse=(), accumulate=1, dtype=0):
        self.strategy = made("strategy", lib.umbo_strategy_create,
                             options_of("umbo_strategy_options", {"cpu_replicas": 1}))
        self.variables = [made("variable", lib.umbo_variable_create, self.strategy, b"weights%d" % index,
                               tensor_of(np.array(array)), ffi.NULL) for index, array in enumerate(arrays)]
        self.sparse = ffi.new("int32_t[]", [int(index in sparse) for index in range(len(arrays))])
        self.dtype, self.accumulate = dtype, accumulate
        self.gradients = self.gradients_of(range(len(arrays)), accumulate, dtype)
        self.optimizer = made("optimizer", getattr(lib, f"umbo_optimizer_create_{rule}"), self.strategy,
                              options_of(f"umbo_{rule}_options", options or {}))
        check(lib.umbo_optimizer_configure(self.optimizer, options_of("umbo_optimizer_options", settings or {})))
        self.callback = on_replicas(self.submit)
        self.given = None

    def gradients_of(self, indices, accumulate=1, dtype=0):
        sparse = ffi.new("int32_t[]", [self.sparse[index] for index in indices])
        how = options_of("umbo_gradients_options", {"row_sparse": sparse, "accumulation_steps": accumulate, "dtype": dtype})
        variables = [self.variables[index] for index in indices]
        return made("gradients", lib.umbo_gradients_create, self.strategy, len(variables), variables,
                    lib.UMBO_LOSS_SUM, how)

    def change_rows(self, kept, appended=None, index=0):
        """A variable keeps these rows, or the first so many, and others are appended."""
        rows = ffi.NULL if isinstance(kept, int) else ffi.new("int64_t[]", kept)
        count = kept if isinstance(kept, int) else len(kept)
        behind = ffi.NULL if appended is None else tensor_of(appended)
        self.variables[index] = made("variable", lib.umbo_optimizer_change_rows, self.optimizer, self.variables[index],
                                     count, rows, behind)
        self.gradients = self.gradients_of(range(len(self.variables)), self.accumulate, self.dtype)

    def add_group(self, index, **options):
        check(lib.umbo_optimizer_add_group(self.optimizer, 1, [self.variables[index]],
                                           options_of("umbo_group_options", options)))

    def submit(self, context, _):
        for index, gradient in enumerate(self.given):
            if self.sparse[index]:
                rows, values = gradient
                views = ffi.new("umbo_view[2]")
                check(lib.umbo_gradients_add_rows(self.gradients, context, index, len(rows), views, views + 1))
                for view, array in zip(views, (rows, values)):
                    shown(view)[...] = array
            elif self.dtype in (lib.UMBO_DTYPE_FLOAT16, lib.UMBO_DTYPE_BFLOAT16):
                view, gradient = ffi.new("umbo_view *"), np.ascontiguousarray(gradient, np.float32)
                check(lib.umbo_gradients_view(self.gradients, context, index, lib.UMBO_GRADIENT_OVERWRITE, view))
                check(lib.umbo_dtype_convert_from_float(self.dtype, gradient.size, ffi.from_buffer("float[]", gradient),
                                                        view.mutable_data))
            else:
                view = array_of(lib.umbo_gradients_view, self.gradients, context, index,
                                lib.UMBO_GRADIENT_OVERWRITE)
                view[...] = gradient
        check(lib.umbo_gradients_submit_weighted(self.gradients, context, 1.0))

    def step(self, *gradients):
        """A run and an apply; for a row-sparse variable the gradient is (numbers of rows, rows)."""
        self.given = gradients
        check(lib.umbo_strategy_run(self.strategy, self.callback, ffi.NULL, ffi.NULL, ffi.NULL, ffi.NULL))
        check(lib.umbo_optimizer_apply(self.optimizer, self.gradients, ffi.NULL, ffi.NULL))

    def weights(self, index=0):
        return array_of(lib.umbo_variable_view, self.variables[index], ffi.NULL, lib.UMBO_DTYPE_NONE).copy()

    def state(self, name, index=0):
        tensor = made("tensor", lib.umbo_optimizer_read_state, self.optimizer, self.variables[index], name.encode())
        return array_of(lib.umbo_tensor_view, tensor).copy()

    def states(self, index=0):
        """All states of a variable by name, once it was updated."""
        found = {}
        for name in STATES:
            try:
                found[name] = self.state(name, index)
            except RuntimeError:
                continue
        return found

    def set_learning_rate(self, rate):
        check(lib.umbo_optimizer_set_learning_rate(self.optimizer, rate))


class Stepper:
    """One update at a time, for judges that keep weights and states themselves: what they say is set before it."""

    def __init__(self, rule, like, options=None, settings=None, sparse=False):
        self.trainer = Trainer(rule, [like], options, settings, sparse=[0] if sparse else [])
        self.rule, self.options = rule, options_of(f"umbo_{rule}_options", options or {})

    def step(self, weights, states, updates, gradient, learning_rate=None):
        """The next weights and states, after so many updates; a row-sparse gradient is (numbers of rows, rows)."""
        trainer, variable = self.trainer, self.trainer.variables[0]
        weights = np.ascontiguousarray(weights)
        check(lib.umbo_variable_upload(variable, ffi.from_buffer(weights), weights.nbytes))
        for name, state in states.items():
            check(lib.umbo_optimizer_assign_state(trainer.optimizer, variable, name.encode(), tensor_of(np.array(state))))
        running = [0.0, 0.0]
        if self.rule in ("adam", "adamw", "radam", "lamb"):
            running = [self.options.beta1**updates, self.options.beta2**updates]
        if self.rule == "nadam":
            momenta = [self.options.beta1 * (1 - 0.5 * 0.96**(update * self.options.momentum_decay))
                       for update in range(1, updates + 1)]
            running = [math.prod(momenta), self.options.beta2**updates]
        progress = options_of("umbo_variable_progress", {"update_count": updates})
        progress.first_running, progress.second_running = running
        check(lib.umbo_optimizer_set_variable_progress(trainer.optimizer, variable, progress))
        if learning_rate is not None:
            trainer.set_learning_rate(float(learning_rate))
        trainer.step(gradient)
        return trainer.weights(), {name: trainer.state(name) for name in states}
