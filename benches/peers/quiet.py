"""Whether other programs use the machine's processors."""

import time

# The share of all processors' time from which on a measurement says little.
MOST = 0.1


def times():
    """What the processors have spent, and what of it idle, in ticks. A host that takes them away is no idleness."""
    with open("/proc/stat") as file:
        ticks = [int(number) for number in file.readline().split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def busy_share(seconds=2.0):
    """Which part of the processors' time is used while this program waits."""
    spent, idle = times()
    time.sleep(seconds)
    spent_then, idle_then = times()
    return 1.0 - (idle_then - idle) / max(1, spent_then - spent)
