#!/usr/bin/env python3
"""Says how long a step takes with 1 to 10,000 processes, each of which has as many examples as ever, and from how
many on less than half of each is of use. It is the model of docs/many-machines.md; its constants are measured."""

import argparse
import json
import math
import sys

MOST = 10_000
# Parts of variables are whole tiles. A round has so many bytes of each process, and messages go to so many at a time.
TILE, ROUND, PEERS = 4096, 16 << 20, 32
ROWS = [1, 2, 4, 8, 16, 64, 256, 1000, 4000, MOST]


def number(least, most, kind=float):
    def read(text):
        value = kind(text)
        if not least <= value <= most:
            raise ValueError
        return value

    read.__name__ = f"number from {least:g} to {most:g}"
    return read


def numbers(least, most, kind=float):
    one = number(least, most, kind)

    def read(text):
        return [one(part) for part in text.split(",")]

    read.__name__ = f"list of numbers from {least:g} to {most:g}"
    return read


def arguments(words):
    some, any_ = number(1e-6, 1e6), number(0, 1e6)
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--gradient-mb", type=some, default=100, help="megabytes of all gradients (default: 100)")
    add("--compute-ms", type=some, default=100, help="what a process computes in a step (default: 100)")
    add("--input-ms", type=any_, default=0, help="what making a process's own part of a batch takes (default: 0)")
    add("--own-input", action="store_true", help="processes make only their own parts; else each makes whole batches")
    add("--update-gbs", type=some, default=5, help="gigabytes of gradients that a process applies in a second: "
        "'umbo bench update' (default: 5)")
    add("--message-us", type=any_, default=1, help="microseconds that a process spends on a message: "
        "'umbo bench exchange' with small sizes (default: 1)")
    add("--latency-us", type=any_, default=10, help="microseconds from one process to another (default: 10)")
    add("--votes", type=number(0, 1000, int), default=6, help="votes of the ranks in a step (default: 6)")
    add("--processes", type=numbers(1, MOST, int), default=ROWS, help="numbers of processes to show")
    add("--gbits", type=numbers(1e-6, 1e6), default=[10, 100, 400], help="gigabits a second between machines "
        "(default: 10,100,400)")
    add("--per-machine", type=number(1, MOST, int), default=1, help="sum on each machine of so many processes first")
    add("--memory-gbs", type=some, default=5, help="gigabytes a second between processes of a machine (default: 5)")
    add("--overlap", type=number(0, 1), default=0, help="exchange beside this part of the computation (default: 0)")
    add("--plot", metavar="FILE", help="draw the efficiency over the number of processes, as SVG")
    add("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(words)


def stages(processes):
    """The messages of a reduction by recursive doubling, one after the other, and two more unless this is a power of two."""
    doubling = processes.bit_length() - 1
    return doubling + 2 * (processes > 1 << doubling)


def exchanged(asked, ranks, rate):
    """The seconds of an all-to-all and an all-gather. Each sends and receives all but its own part, twice, in rounds. In
    each round a vote comes before either, and messages go to some processes at a time, which wait for one another."""
    message, latency = asked.message_us * 1e-6, asked.latency_us * 1e-6
    own = math.ceil(math.ceil(asked.gradient_mb * 1e6 / TILE) / ranks)
    rounds = math.ceil(own / max(ROUND // (TILE * ranks), 1))
    on_wire = own * TILE / rounds / rate

    def batch(peers):
        # Sending is half of a message's work. Bytes leave meanwhile, and the last ones come after the latency.
        last = message + max((peers - 1) * message / 2, peers * on_wire) + latency
        return max(peers * message, last) if peers else 0

    batches = (ranks - 1) // PEERS * batch(PEERS) + batch((ranks - 1) % PEERS)
    return 2 * rounds * (batches + stages(ranks) * (latency + message))


def step(asked, wire, processes):
    """Where the seconds of a step go; `wire` is in bytes a second."""
    size, message = asked.gradient_mb * 1e6, asked.message_us * 1e-6
    if asked.per_machine > 1:
        machines, within = math.ceil(processes / asked.per_machine), min(asked.per_machine, processes)
        exchange = exchanged(asked, within, asked.memory_gbs * 1e9) + exchanged(asked, machines, wire)
    else:
        exchange = exchanged(asked, processes, wire)
    compute = asked.compute_ms * 1e-3
    made = asked.input_ms * 1e-3 * (1 if asked.own_input else processes)
    update = size / (asked.update_gbs * 1e9)
    return {
        "compute": max(compute, made),
        "exchange": max(exchange - asked.overlap * compute, 0),
        # Each updates its part, before the vote and after it.
        "update": update if processes < 2 else 2 * update / processes,
        "vote": asked.votes * stages(processes) * (asked.latency_us * 1e-6 + message),
    }


def seconds(asked, wire, processes):
    return sum(step(asked, wire, processes).values())


def efficiency(asked, wire, processes):
    """Which part of what the processes could do they do: a process alone exchanges nothing."""
    return seconds(asked, wire, 1) / seconds(asked, wire, processes)


def stops_paying(asked, wire):
    return next((count for count in range(1, MOST + 1) if efficiency(asked, wire, count) < 0.5), None)


def network(asked, gbits):
    wire = gbits * 1e9 / 8
    steps = []
    for processes in asked.processes:
        parts = step(asked, wire, processes)
        row = {"processes": processes, "step_ms": sum(parts.values()) * 1e3}
        row |= {f"{name}_ms": value * 1e3 for name, value in parts.items()}
        steps.append(row | {"efficiency": efficiency(asked, wire, processes)})
    return {"gigabits": gbits, "stops_paying": stops_paying(asked, wire), "steps": steps}


def table(found):
    heads = ["step_ms", "compute_ms", "exchange_ms", "update_ms", "vote_ms"]
    lines = [f"{found['gigabits']:g} Gbit/s", "".join(f"{head:>12}" for head in ["processes", *heads, "efficiency"])]
    for row in found["steps"]:
        lines.append(f"{row['processes']:>12}" + "".join(f"{row[head]:>12.3f}" for head in heads)
                     + f"{row['efficiency']:>11.0%}")
    stop = found["stops_paying"]
    lines.append(f"From {stop} processes on less than half of each is of use.\n" if stop else
                 f"More than half of each is of use up to {MOST} processes.\n")
    return "\n".join(lines)


def drawing(asked):
    """Efficiency over the number of processes, a line for each network."""
    width, height, left, top, right = 600, 340, 70, 50, 140
    x = lambda processes: left + width * math.log10(processes) / math.log10(MOST)
    y = lambda share: top + height * (1 - share / 1.15)
    text = lambda at, words, more="": f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" {more}>{words}</text>'
    parts = [text((left, 30), "Predicted efficiency of each process", 'font-size="18"')]
    for share in range(0, 101, 20):
        parts.append(f'<path d="M{left} {y(share / 100):.1f}h{width}" stroke="#ddd"/>')
        parts.append(text((left - 8, y(share / 100) + 5), share, 'text-anchor="end"'))
    for processes in (1, 10, 100, 1000, MOST):
        parts.append(f'<path d="M{x(processes):.1f} {top}v{height}" stroke="#ddd"/>')
        parts.append(text((x(processes), top + height + 20), f"{processes:,}", 'text-anchor="middle"'))
    parts.append(text((left + width / 2, top + height + 44), "processes", 'text-anchor="middle"'))
    parts.append(text((20, top + height / 2), "predicted, % of one process",
                      f'text-anchor="middle" transform="rotate(-90 20 {top + height / 2})"'))
    colours = ["#1459b4", "#c85a14", "#2a8a3e", "#8a2a7a", "#777777"]
    for place, gbits in enumerate(asked.gbits):
        colour = colours[place % len(colours)]
        points = sorted({round(10 ** (index / 40)) for index in range(40 * 4 + 1)})
        line = " ".join(f"{x(p):.1f},{y(min(efficiency(asked, gbits * 1e9 / 8, p), 1.15)):.1f}" for p in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(text((left + width + 12, top + 16 + 22 * place), f"{gbits:g} Gbit/s", f'fill="{colour}"'))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + right}" height="{top + height + 60}" '
            'font-family="sans-serif" font-size="14"><rect width="100%" height="100%" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def main():
    asked = arguments(sys.argv[1:])
    found = [network(asked, gbits) for gbits in asked.gbits]
    if asked.plot:
        with open(asked.plot, "w", encoding="utf-8") as file:
            file.write(drawing(asked))
    print(json.dumps({"networks": found}) if asked.json else "\n".join(map(table, found)))


if __name__ == "__main__":
    main()
