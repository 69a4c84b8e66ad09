"""Rows that come and go: random sequences of updates and changes by Umbo, and by a model in NumPy.

The model has the rules' formulas and the average in float64, and arrays whose rows are taken and appended by NumPy. After
each act weights, states, average and the number of updates are compared. Each sequence has one table, whose gradients
are of all rows or of some."""
import numpy as np

from binding import check, ffi, lib
from frame import Case, close, refused
from trainer import Trainer, options_of

TITLE = "Rows that come and go: 10,000 random sequences, 100 in a test, compared with a model in NumPy"
JUDGE = ["numpy"]
SEQUENCES, SMALL, OF_A_CASE = 10_000, 200, 100
BOUND = 1e-12
RATE = 0.0625


def sgd(w, g, t, states, rate):
    return w - rate * g


def momentum(w, g, t, states, rate):
    states["momentum"] = a = 0.9 * states["momentum"] + g
    return w - rate * a


def nesterov(w, g, t, states, rate):
    states["momentum"] = a = 0.9 * states["momentum"] + g
    return w - rate * (g + 0.9 * a)


def adam(w, g, t, states, rate):
    states["m"] = m = 0.9 * states["m"] + 0.1 * g
    states["v"] = v = 0.99 * states["v"] + 0.01 * g * g
    return w - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-6)


def adamw(w, g, t, states, rate):
    return adam((1 - rate * 0.125) * w, g, t, states, rate)


def adagrad(w, g, t, states, rate):
    states["accumulator"] = n = states["accumulator"] + g * g
    return w - rate / (1 + 0.25 * (t - 1)) * g / (np.sqrt(n) + 1e-6)


def rmsprop(w, g, t, states, rate):
    states["v"] = v = 0.875 * states["v"] + 0.125 * g * g
    states["momentum"] = b = 0.5 * states["momentum"] + g / (np.sqrt(v) + 1e-6)
    return w - rate * b


def lion(w, g, t, states, rate):
    u = np.sign(0.9 * states["m"] + 0.1 * g)
    states["m"] = 0.99 * states["m"] + 0.01 * g
    return w - rate * (u + 0.125 * w)


# The rule's function, its name in Umbo and its options, and what the states are before the first update.
MOMENTS = {"beta1": 0.9, "beta2": 0.99, "epsilon": 1e-6}
RULES = [
    (sgd, "sgd", {}, {}),
    (momentum, "momentum", {}, {"momentum": 0.0}),
    (nesterov, "momentum", {"nesterov": 1}, {"momentum": 0.0}),
    (adam, "adam", MOMENTS, {"m": 0.0, "v": 0.0}),
    (adamw, "adamw", MOMENTS | {"weight_decay": 0.125}, {"m": 0.0, "v": 0.0}),
    (adagrad, "adagrad", {"initial_accumulator": 0.125, "epsilon": 1e-6, "learning_rate_decay": 0.25},
     {"accumulator": 0.125}),
    (rmsprop, "rmsprop", {"rho": 0.875, "momentum": 0.5, "epsilon": 1e-6}, {"v": 0.0, "momentum": 0.0}),
    (lion, "lion", {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.125}, {"m": 0.0}),
]
# The decay of the average, None for a mean, with its start, interval and warm-up.
AVERAGES = [None, (None, 0, 1, False), (None, 1, 2, False), (0.75, 0, 1, False), (0.5, 2, 1, True), (0.25, 1, 3, False)]


class Model:
    """A table in NumPy, and what an optimizer keeps for it."""

    def __init__(self, rule, average, weights):
        self.rule, _, _, self.starts = rule
        self.average_kind = average
        self.weights, self.updates = weights, 0
        self.states = {name: np.full_like(weights, start) for name, start in self.starts.items()}
        self.average, self.moves = weights.copy(), 0

    def update(self, rows, gradient):
        """An update of these rows, which leaves the others as they are."""
        self.updates += 1
        states = {name: state[rows] for name, state in self.states.items()}
        self.weights[rows] = self.rule(self.weights[rows], gradient, self.updates, states, RATE)
        for name, state in states.items():
            self.states[name][rows] = state
        if self.average_kind:
            self.follow(*self.average_kind)

    def follow(self, decay, start, interval, warmup):
        since = self.updates - start - 1
        if since <= 0:
            self.average, self.moves = self.weights.copy(), 1
        elif since % interval == 0:
            kept = self.moves / (self.moves + 1) if decay is None else decay
            if warmup:
                kept = min(kept, (1 + self.moves) / (10 + self.moves))
            self.average = kept * self.average + (1 - kept) * self.weights
            self.moves += 1

    def change(self, kept, appended):
        def changed(array, behind):
            return np.concatenate([array[kept], behind])

        self.weights, self.average = changed(self.weights, appended), changed(self.average, appended)
        for name, start in self.starts.items():
            self.states[name] = changed(self.states[name], np.full_like(appended, start))


class Sequence:
    """One table by both, and the numbers that are drawn for it."""

    def __init__(self, seed):
        self.draw = np.random.default_rng(seed)
        rule, average = RULES[self.below(len(RULES))], AVERAGES[self.below(len(AVERAGES))]
        weights = self.numbers((self.below(12), 1 + self.below(5)))
        settings = {}
        if average:
            decay, start, interval, warmup = average
            settings = {"average": lib.UMBO_AVERAGE_MEAN if decay is None else lib.UMBO_AVERAGE_EXPONENTIAL,
                        "average_start": start, "average_interval": interval, "average_warmup": int(warmup)}
            settings |= {} if decay is None else {"average_decay": decay}
        self.by_rows = self.below(2) == 1
        self.model = Model(rule, average, weights.copy())
        self.ours = Trainer(rule[1], [weights], rule[2] | {"learning_rate": RATE}, settings,
                            sparse=[0] if self.by_rows else [])

    def below(self, end):
        return int(self.draw.integers(end))

    def numbers(self, shape):
        # With zeros, of which some rules have an opinion.
        return self.draw.normal(0.1, 1.0, shape) * (self.draw.random(shape) < 0.9)

    def some_rows(self):
        """Some of the rows, in any order."""
        rows = len(self.model.weights)
        return self.draw.permutation(rows)[:self.below(rows + 1)]

    def update(self):
        rows = self.some_rows() if self.by_rows else np.arange(len(self.model.weights))
        gradient = self.numbers((len(rows), self.model.weights.shape[1]))
        self.model.update(rows, gradient)
        self.ours.step((rows, gradient) if self.by_rows else gradient)

    def change(self):
        kept = self.some_rows()
        takes_first = self.below(2) == 1
        if takes_first:
            kept = np.arange(len(kept))
        appended = self.numbers((self.below(4), self.model.weights.shape[1]))
        self.model.change(kept, appended)
        self.ours.change_rows(len(kept) if takes_first else kept.tolist(), appended if len(appended) else None)

    def refuse(self):
        rows, width = self.model.weights.shape
        refused(lambda: self.ours.change_rows([rows]), "a row behind the last")
        refused(lambda: self.ours.change_rows(rows + 1), "more rows than there are")
        refused(lambda: self.ours.change_rows(0, np.zeros((1, width + 1))), "a row that is too wide")
        if rows:
            refused(lambda: self.ours.change_rows([0, 0]), "a row that is kept twice")

    def compare(self):
        close("weights", self.ours.weights(), self.model.weights, BOUND)
        progress = options_of("umbo_variable_progress", {})
        check(lib.umbo_optimizer_variable_progress(self.ours.optimizer, self.ours.variables[0], progress))
        assert progress.update_count == self.model.updates, f"{progress.update_count} updates"
        states = self.model.states | ({"average": self.model.average} if self.model.average_kind else {})
        for name, state in states.items():
            if self.model.updates:
                close(name, self.ours.state(name), state, BOUND)
            else:
                refused(lambda: self.ours.state(name), f"{name} before the first update")

    def run(self):
        acts = [self.update, self.update, self.change, self.change, self.refuse]
        for _ in range(3 + self.below(6)):
            acts[self.below(len(acts))]()
            self.compare()


def run(first):
    for seed in range(first, first + OF_A_CASE):
        try:
            Sequence(seed).run()
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(f"sequence {seed}: {error}") from error


def cases(small):
    for first in range(0, SMALL if small else SEQUENCES, OF_A_CASE):
        yield Case(f"sequences from {first} on", lambda first=first: run(first))
