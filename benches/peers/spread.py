"""What the rounds of a measurement gave."""

import statistics


class Spread:
    """The median and the quartiles."""

    def __init__(self, values):
        one = len(values) == 1
        cuts = values * 3 if one else statistics.quantiles(values, n=4, method="inclusive")
        self.low, self.middle, self.high = cuts
