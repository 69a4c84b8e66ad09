"""The model of docs/internals/scaling.md: scale.py SCRIPT"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

USUAL = ["--gradient-mb", "100", "--compute-ms", "100", "--own-input", "--update-gbs", "10", "--message-us", "1",
         "--latency-us", "10", "--votes", "2", "--gbits", "80"]


def run(*words):
    return subprocess.run([sys.executable, sys.argv[1], *words], capture_output=True, text=True)


def networks(*words):
    return json.loads(run(*USUAL, "--json", *words).stdout)["networks"]


def step(processes, *words):
    return networks("--processes", str(processes), *words)[0]["steps"][0]


def near(value, expected):
    assert abs(value - expected) <= 1e-9 * max(abs(expected), 1), (value, expected)


# One process exchanges nothing.
alone = step(1)
assert (alone["exchange_ms"], alone["vote_ms"], alone["efficiency"]) == (0, 0, 1)
near(alone["step_ms"], 110)
# Each sends three of four parts of 6,104 tiles twice, in 6 rounds of up to 1,024. Before each come two stages of a vote.
four = step(4)
near(four["exchange_ms"], 2 * (3 * 6104 * 4096 / 10e6 + 6 * (0.011 + 2 * 0.011)))
near(four["update_ms"], 2 * 2.5)
near(four["vote_ms"], 2 * 2 * 0.011)
# Unless the number is a power of two, a vote takes two stages more.
near(step(5)["vote_ms"], 2 * 4 * 0.011)
# With few bytes a message's work comes first: 32 at a time are sent in less time than they are handled in.
small = step(64, "--gradient-mb", "0.004096")
near(small["exchange_ms"], 2 * (0.032 + 0.031 + 6 * 0.011))
# Or the latency does, once for each group of up to 32.
small = step(64, "--gradient-mb", "0.004096", "--latency-us", "1000", "--message-us", "0", "--gbits", "1000000")
near(round(small["exchange_ms"], 3), 2 * (2 + 6))
# What is hidden costs nothing; input costs what it takes longer than the computation.
assert step(4, "--overlap", "0.5")["exchange_ms"] == 0
near(step(8, "--input-ms", "200")["compute_ms"], 200)
# Machines send once for all their processes.
only_bytes = ["--message-us", "0", "--latency-us", "0"]
own = math.ceil(math.ceil(100e6 / 4096) / 8) * 4096
near(step(64, "--per-machine", "8", "--memory-gbs", "1000000", *only_bytes)["exchange_ms"] - 2 * 7 * own / 1e12,
     step(8, *only_bytes)["exchange_ms"])
# A machine that is not full is one.
assert step(57, "--per-machine", "8")["exchange_ms"] == step(64, "--per-machine", "8")["exchange_ms"]
assert networks()[0]["stops_paying"] is None
assert networks("--gbits", "1,8")[0]["stops_paying"] == 2

table = run("--gbits", "1,1000", "--gradient-mb", "400").stdout
assert "1000 Gbit/s" in table and "From 2 processes on less than half" in table, table
with tempfile.TemporaryDirectory() as folder:
    picture = pathlib.Path(folder, "scaling.svg")
    assert run("--plot", str(picture)).returncode == 0
    assert picture.read_text().count("<polyline") == 3
for words, problem in [(["--processes", "1,0"], "from 1 to 10000"), (["--overlap", "2"], "from 0 to 1"),
                       (["--votes", "x"], "--votes")]:
    refused = run(*words)
    assert refused.returncode == 2 and problem in refused.stderr, refused.stderr
