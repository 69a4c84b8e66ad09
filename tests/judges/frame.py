"""What the judges share: what a case is, how it ends, and how numbers are compared."""
import numpy as np


class NotApplicable(Exception):
    """Raised by a case that judges what Umbo does not claim to do; says why."""


class Case:
    """One test of a judge. `run` returns if it has passed, and raises what is wrong. A text that it returns is shown in the
    judge's row."""
    def __init__(self, name, run):
        self.name, self.run = name, run


def close(name, ours, theirs, relative):
    """Demands that arrays agree, to a bound that is relative to the largest element of theirs."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    assert ours.shape == theirs.shape, f"{name}: shape {ours.shape} in place of {theirs.shape}"
    if not theirs.size:
        return
    # What is not finite has to be so in both.
    assert np.array_equal(np.isfinite(ours), np.isfinite(theirs)), f"{name}: {ours} in place of {theirs}"
    scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0) or 1.0
    off = np.nanmax(np.where(np.isfinite(theirs), np.abs(ours - theirs), 0.0)) / scale
    assert off <= relative, f"{name}: off by {off:.1e} of {scale:.3g}, {relative:.1e} is allowed"


def refused(call, what):
    """Demands that a call raises an error of the library's."""
    try:
        call()
    except RuntimeError:
        return
    raise AssertionError(f"{what} was not refused")


def unit_tests(case_class, adapt=lambda name: None):
    """The cases of a unittest.TestCase of somebody's; `adapt` raises NotApplicable for those that are."""
    import io
    import unittest
    for test in unittest.defaultTestLoader.loadTestsFromTestCase(case_class):
        name = test._testMethodName

        def run(test=test, name=name):
            adapt(name)
            result = unittest.TextTestRunner(stream=io.StringIO()).run(test)
            if result.skipped:
                raise NotApplicable(f"skips itself: {result.skipped[0][1]}")
            wrong = result.errors + result.failures
            if wrong and "frame.NotApplicable: " in wrong[0][1]:
                raise NotApplicable(wrong[0][1].rpartition("frame.NotApplicable: ")[2].strip().splitlines()[0])
            assert not wrong, wrong[0][1]

        yield Case(f"{case_class.__name__}.{name}", run)
