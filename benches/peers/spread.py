"""The rounds of a measurement: in which order those that are compared take turns, and what came of it."""

import statistics


def orders(names, rounds):
    """For each round the names that there are then. Every second round goes backwards, and two later they begin with another
    name, so that what changes with time meets all of them alike."""
    for number in range(rounds):
        order = list(names)
        start = number // 2 % max(1, len(order))
        order = order[start:] + order[:start]
        yield order[::-1] if number % 2 else order


def medians_of(rounds):
    """The numbers of a table, in words."""
    return f"medians of {rounds} alternating rounds, with quartiles"


class Spread:
    """The median and the quartiles."""

    def __init__(self, values):
        one = len(values) == 1
        cuts = values * 3 if one else statistics.quantiles(values, n=4, method="inclusive")
        self.low, self.middle, self.high = cuts
