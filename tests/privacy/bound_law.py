"""What the bound report's intervals rest on, for fractions and for intervals: docs/proofs/quantiles.md."""


def margin_ends(share, *, bound, first, last):
    """The least and the largest of `min(x, bound) - share * x` over the numbers of rows x of one bin."""
    # No bin crosses the bound, so the margin is linear on it and extreme at its ends.
    ends = [min(x, bound) - share * x for x in (first, last)]
    return min(ends), max(ends)


def laplace_moment(ratio, tilt):
    """The mean of `tilt**z`, where P(z) is proportional to `ratio**|z|` and tilt is between ratio and 1/ratio."""
    missed = 1 - ratio
    return missed * missed / ((1 - ratio * tilt) * (1 - ratio / tilt))


def tail_chance(ratio, tilt, *, weights, reach):
    """A bound on the probability that a weighted sum of such integers is at least `reach`, for any tilt above 1."""
    chance = tilt**0
    for weight in weights:
        chance = chance * laplace_moment(ratio, tilt**weight)
    return chance / tilt**reach
