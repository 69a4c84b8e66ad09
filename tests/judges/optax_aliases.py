"""optax' tests of its aliases, such as parabola and Rosenbrock's function, with Umbo's rules in the place of optax'.

And 100 steps of each rule by both, in float64, and of Muon, whose steps Umbo computes in float32. Epsilon has another
place in some of optax' rules, so that it is next to nothing there."""
import functools
import os

os.environ |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from optax._src import alias, alias_test, base, utils

from frame import Case, NotApplicable, close, unit_tests
from trainer import Stepper, Trainer

TITLE = "optax' aliases, by 100 steps and by optax' own tests"
JUDGE = ["optax", "jax"]
STEPS = 100
TINY = 1e-30
OPTIONS = {"b1": "beta1", "b2": "beta2", "eps": "epsilon", "decay": "rho",
           "initial_accumulator_value": "initial_accumulator"}
# optax' defaults where they are not Umbo's, and the states, with what they start from.
RULES = {
    "sgd": ("sgd", {}, {}),
    "momentum": ("momentum", {}, {"momentum": 0}),
    "adam": ("adam", {}, {"m": 0, "v": 0}),
    "amsgrad": ("adam", {"amsgrad": 1}, {"m": 0, "v": 0, "v_max": 0}),
    "adamw": ("adamw", {"weight_decay": 1e-4}, {"m": 0, "v": 0}),
    "radam": ("radam", {}, {"m": 0, "v": 0}),
    "lion": ("lion", {"weight_decay": 1e-3}, {"m": 0}),
    "lamb": ("lamb", {"weight_decay": 0.0}, {"m": 0, "v": 0}),
    "lars": ("lars", {}, {"momentum": 0}),
    "adagrad": ("adagrad", {"initial_accumulator": 0.1, "epsilon": 1e-7}, {"accumulator": 0.1}),
    "rmsprop": ("rmsprop", {"rho": 0.9}, {"v": 0}),
}


def translated(name, given):
    """The rule and its options that an alias of optax with these arguments is."""
    if any(isinstance(value, jax.core.Tracer) or callable(value) for value in given.values()):
        raise NotApplicable("options that are computed in the step")
    if "mu_dtype" in given:
        raise NotApplicable("moments of a type of their own: Umbo's have that of the weights")
    if name == "sgd" and given.get("momentum") is not None:
        name = "momentum"
    if name == "lars" and given.get("nesterov") or given.get("eps") and name == "lars":
        raise NotApplicable("LARS with Nesterov's momentum, or with an epsilon, which Umbo has not")
    rule, options, states = RULES[name]
    given = {OPTIONS.get(key, key): value for key, value in given.items() if value is not None}
    if rule == "rmsprop" and given.get("momentum"):
        states = states | {"momentum": 0}
    if rule == "adagrad":
        states = {"accumulator": given.get("initial_accumulator", 0.1)}
    return rule, options | {key: int(value) if isinstance(value, bool) else value for key, value in given.items()}, states


def transformation(name, **given):
    """A gradient transformation of optax whose arithmetic is Umbo's."""
    rule, options, starts = translated(name, given)
    steppers = {}

    def init(params):
        # A wrapper may hand on a placeholder, which has no leaves.
        for leaf in jax.tree.leaves(params):
            if jnp.result_type(leaf) not in (jnp.float32, jnp.float64):
                raise NotApplicable("variables that are complex or of 16 bits")
        return {"count": jnp.zeros([], jnp.int32),
                **{state: jax.tree.map(lambda leaf: jnp.full_like(leaf, start), params)
                   for state, start in starts.items()}}

    def on_host(count, weights, gradient, *states):
        weights, gradient = np.asarray(weights), np.asarray(gradient)
        key = weights.shape, weights.dtype
        if key not in steppers:
            steppers[key] = Stepper(rule, weights, options)
        states = dict(zip(starts, map(np.asarray, states)))
        after, states = steppers[key].step(weights, states, int(count), gradient)
        return (after - weights, *states.values())

    def update(gradients, state, params=None, **_):
        leaves, structure = jax.tree.flatten(params)
        all_states = [structure.flatten_up_to(state[name]) for name in starts]
        results = []
        for leaf, gradient, *states in zip(leaves, structure.flatten_up_to(gradients), *all_states):
            shape = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
            results.append(jax.pure_callback(on_host, (shape,) * (1 + len(starts)), state["count"], leaf, gradient,
                                             *states))
        columns = [structure.unflatten(column) for column in zip(*results)]
        return columns[0], {"count": state["count"] + 1, **dict(zip(starts, columns[1:]))}

    return base.GradientTransformationExtraArgs(init, update)


# What the steps are compared by.
COMPARED = {
    "sgd": {},
    "sgd with momentum": {"momentum": 0.9},
    "sgd with Nesterov's momentum": {"momentum": 0.9, "nesterov": True},
    "adam": {"eps": TINY},
    "adamw": {"eps": TINY, "weight_decay": 0.01},
    "radam": {"eps": TINY},
    "lion": {"weight_decay": 0.01},
    "lamb": {"eps": TINY, "weight_decay": 0.01},
    "lars": {"weight_decay": 0.01, "trust_coefficient": 0.125},
    "adagrad": {"eps": TINY},
    "rmsprop": {"eps": TINY},
    "rmsprop with momentum": {"eps": TINY, "momentum": 0.9},
    "amsgrad": {},
}


def compared(name):
    if name == "amsgrad":
        raise NotApplicable("optax' AMSGrad keeps the largest corrected moment; PyTorch, Keras and Umbo that without correction")
    given = COMPARED[name] | {"learning_rate": 0.0625}
    name = name.split()[0]
    rule, options, _ = translated(name, given)
    generator = np.random.default_rng(3)
    with utils.x64_precision(True):
        params = jnp.asarray(generator.uniform(0.5, 1.5, (5, 3)))
        ours = Trainer(rule, [np.asarray(params)], options)
        theirs = getattr(alias, name)(**given)
        state = theirs.init(params)
        update = jax.jit(theirs.update)
        for step in range(STEPS):
            gradient = generator.normal(0.2, 1.0, (5, 3)) * 10.0 ** (step % 3 - 1)
            ours.step(gradient)
            updates, state = update(jnp.asarray(gradient), state, params)
            params = optax.apply_updates(params, updates)
        close("weights", ours.weights(), np.asarray(params), 1e-11)


# optax' words for Muon's scales; its matrices are the transposed ones. Its Nesterov's momentum corrects the bias of
# both terms, each by its own factor, which that of PyTorch and Umbo does not.
MUON = {"muon": {}, "muon with the size of AdamW's steps": {"consistent_rms": 0.2}}


def muon_compared(name):
    rate, options = 2.0**-10, {"nesterov": 0, "weight_decay": 0.125, "match_adamw": int(name != "muon")}
    generator = np.random.default_rng(6)
    for shape in [(5, 3), (3, 17), (8, 8), (30, 18)]:
        with utils.x64_precision(True):
            params = jnp.asarray(generator.uniform(0.5, 1.5, shape))
            ours = Trainer("muon", [np.asarray(params)], options | {"learning_rate": rate})
            theirs = optax.contrib.muon(rate, nesterov=False, weight_decay=0.125, eps=TINY, **MUON[name])
            params = params.T
            state, update = theirs.init(params), jax.jit(theirs.update)
            for step in range(STEPS):
                gradient = generator.normal(0.2, 1.0, shape) * 10.0 ** (step % 3 - 1)
                ours.step(gradient)
                updates, state = update(jnp.asarray(gradient.T), state, params)
                params = optax.apply_updates(params, updates)
            close(f"weights {shape}", ours.weights(), np.asarray(params.T), 1e-6)


def one_at_a_time():
    """What other judges use: a stepper that is told weights and states continues as the trainer does that has them."""
    generator = np.random.default_rng(4)
    gradients = generator.normal(0.2, 1.0, (4, 5, 3))
    for rule in ("adam", "adagrad"):
        trainer = Trainer(rule, [np.ones((5, 3))])
        for gradient in gradients[:3]:
            trainer.step(gradient)
        stepper = Stepper(rule, np.ones((5, 3)))
        weights, states = stepper.step(trainer.weights(), trainer.states(), 3, gradients[3])
        trainer.step(gradients[3])
        close("weights", weights, trainer.weights(), 0.0)
        for name, state in states.items():
            close(name, state, trainer.states()[name], 0.0)


def cases(small):
    if small:
        yield Case("one update at a time", one_at_a_time)
    for name in ["adam", "lamb"] if small else COMPARED:
        yield Case(name, lambda name=name: compared(name))
    for name in [] if small else MUON:
        yield Case(name, lambda name=name: muon_compared(name))

    def alias_of(_, name):
        if name == "nadam":
            raise NotApplicable("optax' NAdam has a constant momentum; PyTorch's and Umbo's rises")
        if name not in RULES or name == "momentum":
            raise NotApplicable("Umbo has no such rule")

        # optax' wrappers look at the names of the options.
        @functools.wraps(getattr(alias, name))
        def ours(*args, **given):
            return transformation(name, **dict(zip(("learning_rate",), args)), **given)

        return ours

    alias_test._get_opt = alias_of
    ours = list(unit_tests(alias_test.AliasTest))
    yield from [case for case in ours if not small]
