"""How the programs in Python take turns with run.py; turns.c says the same in C."""

import json
import os
import sys
import time

ELEMENTS = int(os.environ["PEER_ELEMENTS"])
SAMPLES = int(os.environ["PEER_SAMPLES"])


class Workload:
    """`prepare` returns what is called and timed, and a check of what its first call returns."""

    def __init__(self, prepare, calls=3, samples=None):
        self.prepare = prepare
        self.calls = calls
        self.samples = samples
        self.call = None

    def answer(self):
        if self.call is None:
            call, check = self.prepare()
            check(call())
            self.call = call
        self.call()
        times = sorted(self.seconds() for _ in range(self.calls))
        median = times[self.calls // 2]
        if self.samples:
            return {"samples_per_second": self.samples / median}
        return {"us": median * 1e6}

    def seconds(self):
        start = time.perf_counter()
        result = self.call()
        seconds = time.perf_counter() - start
        del result  # What it holds is freed outside of the time.
        return seconds


def take_turns(version, workloads):
    """Answers a line of input, the name of a workload, with a line of JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print is not an answer.
    print(json.dumps({"version": version}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = workloads[line.strip()].answer()
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(answer), file=answers, flush=True)
