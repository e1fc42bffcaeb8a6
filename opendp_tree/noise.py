"""All noise: integers, exact for the stated law, from cryptographically secure bits.

A number is drawn by inversion of the distribution function at a uniform real. Its first 16 bits decide nearly every
draw by one look-up, 64 bits decide most of the rest, and further bits are added until the draw is decided. Nothing is
rounded. Proof: docs/proofs/noise.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from opendp_tree._opendp import secure_bytes
from opendp_tree._types import Bools, Floats, Ints, Words
from opendp_tree.theorems.interval import Interval, bisect, digits, halfway
from opendp_tree.theorems.noise import Digit, gaussian_acceptance, geometric_digits, proposal_scale
from opendp_tree.theorems.partition import FirstReach

LARGEST_SCALE = 2.0**50
"""Untruncated noise of a larger scale would leave the range of int64."""

_BLOCK = 1 << 16  # draws per block, so that arrays stay in cache
_GUIDE_BITS = 16
_LONGEST_REACH = 128
_UNDECIDED = -1
_POWERS = 1 << np.arange(62)
_DOUBT = 2.0**-40  # far more than the error of a float acceptance probability or a 64-bit uniform


def laplace(scale: float, size: int) -> Ints:
    """Integers z with P(z) proportional to exp(-|z|/scale)."""
    return truncated_laplace(scale, None, size)


def truncated_laplace(scale: float, radius: int | None, size: int) -> Ints:
    """Integers z in -radius..radius with P(z) proportional to exp(-|z|/scale)."""
    if scale == 0 or radius == 0:
        return np.zeros(size, dtype=np.int64)
    magnitudes = _candidates(scale, radius)

    def candidates(count: int) -> tuple[Ints, Bools]:
        drawn, kept = magnitudes(count)
        negative = np.unpackbits(secure_bytes((count + 7) // 8), count=count).view(np.bool_)
        # One of the two zeros is rejected, so that zero has its own weight and not twice that.
        kept &= ~negative | (drawn != 0)
        return np.negative(drawn, where=negative, out=drawn), kept

    return _accepted(candidates, size)


def skewed_geometric(right_scale: float, left_scale: float, size: int) -> Ints:
    """Integers z with P(z) proportional to exp(-z/right_scale) from 0 up and to exp(z/left_scale) below 0."""
    return geometric(right_scale, size) - geometric(left_scale, size)


def geometric(scale: float, size: int) -> Ints:
    """Natural numbers z with P(z) proportional to exp(-z/scale)."""
    return truncated_geometric(scale, None, size)


def truncated_geometric(scale: float, radius: int | None, size: int) -> Ints:
    """Integers z in 0..radius with P(z) proportional to exp(-z/scale)."""
    if scale == 0 or radius == 0:
        return np.zeros(size, dtype=np.int64)
    return _accepted(_candidates(scale, radius), size)


def first_reach(scale: float, radius: int, least: Ints, *, limit: int) -> Ints:
    """The number of `truncated_geometric` draws up to the first of at least `least` (1..radius), at most limit + 1."""
    waits = np.full(least.size, limit + 1, dtype=np.int64)
    if scale == 0:
        return waits
    rare_from = _rare_from(scale, radius)
    often, rare = np.flatnonzero(least < rare_from), np.flatnonzero(least >= rare_from)
    # Waiting has no memory, so draws beyond the end of a table start again.
    for start in range(0, limit, _LONGEST_REACH):
        needs = least[often]
        drawn = _draw_each([(_reach_table(scale, radius, need), here) for need, here in _alike(needs)], needs.size)
        waits[often] = np.where(drawn < _LONGEST_REACH, start + drawn + 1, limit + 1)
        often = often[waits[often] > limit]
        for index, reached in _reach_rarely(scale, radius, least, rare):
            waits[index] = min(int(waits[index]), start + reached + 1)
    return np.minimum(waits, limit + 1, out=waits)


def _reach_rarely(scale: float, radius: int, least: Ints, indices: Ints) -> Iterator[tuple[int, int]]:
    """The few draws below `_LONGEST_REACH`, with their indices: only words that begin with 16 zero bits need tables."""
    begun = indices[np.flatnonzero(secure_bytes(2 * indices.size).view(np.uint16) == 0)]
    words = uniform_words(begun.size) >> np.uint64(_GUIDE_BITS)
    for index, word in zip(begun.tolist(), words, strict=True):
        drawn = int(_reach_table(scale, radius, int(least[index]))._place(np.array([word]))[0])
        if drawn < _LONGEST_REACH:
            yield index, drawn


@lru_cache(maxsize=512)
def _rare_from(scale: float, radius: int) -> int:
    """The least need whose table leaves only the first of its 65,536 cells open; radius + 1 if there is none."""

    def is_rare(least: int) -> bool:
        return bool((_reach_table(scale, radius, least).guide[1:] == _LONGEST_REACH).all())

    return bisect(is_rare, 0, radius + 1, middle=halfway)


@lru_cache(maxsize=512)
def _reach_table(scale: float, radius: int, least: int) -> _Table:
    return _table(FirstReach(Fraction(scale), radius, least, _LONGEST_REACH))


def truncated_geometric_from(scale: float, radius: int, least: Ints) -> Ints:
    """Integers z in 0..radius with P(z) proportional to exp(-z/scale), given that each is at least its `least`."""
    room = radius - least
    if scale == 0:
        return least.copy()
    out = np.empty(least.size, dtype=np.int64)
    for bits, here in _alike(np.searchsorted(_POWERS, room, side="right")):  # grouped by bit length
        left = np.arange(least.size)[here]
        while left.size:
            drawn = truncated_geometric(scale, (1 << bits) - 1, left.size)
            out[left] = drawn
            left = left[drawn > room[left]]
    return least + out


def _alike(values: Ints) -> Iterator[tuple[int, Ints | slice]]:
    """Each distinct natural number, and its indices."""
    if values.size == 0:
        return
    if (values == values[0]).all():
        yield int(values[0]), slice(None)
        return
    small = values.astype(np.uint16) if values.max() < 2**16 else values  # sorted by radix
    order = np.argsort(small, kind="stable")
    ordered = small[order]
    firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    yield from zip(ordered[firsts].tolist(), np.split(order, firsts[1:]), strict=True)


def gaussian(scale: float, size: int) -> Ints:
    """Integers z with P(z) proportional to exp(-z**2 / (2 * scale**2))."""
    if scale == 0:
        return np.zeros(size, dtype=np.int64)
    if scale > LARGEST_SCALE / 2:
        raise ValueError(f"scale ({scale}) must be at most 2**49 to draw Gaussian noise")
    exact = Fraction(scale)
    proposal = float(proposal_scale(exact))

    def candidates(count: int) -> tuple[Ints, Bools]:
        drawn = laplace(proposal, count)
        return drawn, _kept(np.abs(drawn), exact, uniform_words(count))

    return _accepted(candidates, size)


def _kept(magnitudes: Ints, scale: Fraction, words: Words) -> Bools:
    """Whether the uniform real with each word as its first bits is below the magnitude's acceptance probability."""
    gap = words * 2.0**-64 - _acceptance(magnitudes, float(scale))
    kept: Bools = gap < 0
    for tie in np.flatnonzero(np.abs(gap) <= _DOUBT):
        kept[tie] = _keeps(int(magnitudes[tie]), scale, int(words[tie]))
    return kept


def _acceptance(magnitudes: Ints, scale: float) -> Floats:
    """`gaussian_acceptance` in floats, with an error far below `_DOUBT`."""
    with np.errstate(over="ignore", under="ignore"):
        distance = magnitudes / scale - scale / proposal_scale(Fraction(scale))
        probability: Floats = np.exp(-0.5 * distance * distance)
    return probability


def _keeps(magnitude: int, scale: Fraction, bits: int) -> bool:
    """`_kept` for one word, with bits added until it is decided."""
    length = 64
    while True:
        with digits(40 + length):
            edge = gaussian_acceptance(magnitude, scale)
            if Interval.of(Fraction(bits + 1, 1 << length)).hi <= edge.lo:
                return True
            if Interval.of(Fraction(bits, 1 << length)).lo >= edge.hi:
                return False
        bits, length = (bits << 64) | int(uniform_words(1)[0]), length + 64


Law = Digit | FirstReach
"""The laws on natural numbers that tables draw from."""
Candidates = Callable[[int], tuple[Ints, Bools]]


def _accepted(candidates: Candidates, size: int) -> Ints:
    """The first `size` candidates that are kept."""
    out = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        drawn, kept = candidates(min(_BLOCK, size - filled + 16))
        drawn = drawn[kept][: size - filled]
        out[filled : filled + drawn.size] = drawn
        filled += drawn.size
    return out


def _candidates(scale: float, radius: int | None) -> Candidates:
    if radius is None and scale > LARGEST_SCALE:
        raise ValueError(f"scale ({scale}) must be at most 2**50 to draw untruncated noise")
    tables = [_table(digit) for digit in geometric_digits(Fraction(scale), radius)]

    def candidates(count: int) -> tuple[Ints, Bools]:
        drawn = tables[0].draw(count) * tables[0].digit.unit
        for table in tables[1:]:
            drawn += table.draw(count) * table.digit.unit
        if radius is None:
            drawn[drawn < 0] = np.iinfo(np.int64).max  # the top digit overflowed
            return drawn, np.ones(count, dtype=np.bool_)
        return drawn, drawn <= radius

    return candidates


@dataclass(frozen=True)
class _Table:
    """A law's distribution function at 64 bits."""

    digit: Law
    above: Words
    below: Words
    complete: bool
    guide: npt.NDArray[np.int16]

    def draw(self, count: int) -> Ints:
        return _draw_each([(self, np.s_[:])], count)

    def _place(self, words: Words) -> Ints:
        """The digit whose part of the unit interval contains each 64-bit word, whatever bits follow."""
        places = np.searchsorted(self.above, words, side="right")
        for tie in np.flatnonzero(~_settled(words, places, self.below, self.complete)):
            places[tie] = self._refine(int(words[tie]), int(places[tie]))
        return places

    def _refine(self, bits: int, place: int) -> int:
        """`_place` for one word, with bits added until it is decided."""
        length = 64
        limit = np.iinfo(np.int64).max // self.digit.unit + 1
        while place < limit:
            bits, length = (bits << 64) | int(uniform_words(1)[0]), length + 64
            with digits(40 + length):
                uniform = Interval.of(Fraction(bits, 1 << length)), Interval.of(Fraction(bits + 1, 1 << length))
                while place < limit:
                    edge = self.digit.cdf(place)
                    if uniform[1].hi <= edge.lo:
                        return place
                    if uniform[0].lo < edge.hi:
                        break
                    place += 1
        return limit


def _draw_each(tables: Sequence[tuple[_Table, Ints | slice]], count: int) -> Ints:
    """`count` digits, from each table at its indices: few calls for random bits, however many tables."""
    first = secure_bytes(2 * count).view(np.uint16)
    drawn = np.empty(count, dtype=np.int64)
    for table, here in tables:
        drawn[here] = table.guide[first[here]]
    open_places = np.flatnonzero(drawn == _UNDECIDED)
    if open_places.size == 0:
        return drawn
    words = uniform_words(open_places.size) >> np.uint64(_GUIDE_BITS)
    words |= first[open_places].astype(np.uint64) << np.uint64(64 - _GUIDE_BITS)
    whose = np.zeros(count, dtype=np.int64)
    for number, (_, here) in enumerate(tables):
        whose[here] = number
    for number, mine in _alike(whose[open_places]):
        drawn[open_places[mine]] = tables[number][0]._place(words[mine])
    return drawn


@lru_cache(maxsize=512)
def _table(digit: Law) -> _Table:
    above: list[int] = []
    below: list[int] = []
    complete = True
    for part in digit.edges():
        edge = part * 2**64
        below.append(max(0, int(edge.lo.to_integral_value(ROUND_FLOOR))))
        if edge.hi > 2**64 - 1:  # 64 bits are too few beyond this: left to `_refine`
            complete = False
            break
        above.append(int(edge.hi.to_integral_value(ROUND_CEILING)))
    if complete:
        below.append(2**64 - 1)  # unused: the last digit has no upper edge
    words = np.array(above, dtype=np.uint64), np.array(below, dtype=np.uint64)
    return _Table(digit, *words, complete, _guide(*words, complete))


def _guide(above: Words, below: Words, complete: bool) -> npt.NDArray[np.int16]:
    """The digit that each value of the first 16 bits decides, or `_UNDECIDED`."""
    starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - _GUIDE_BITS)
    ends = starts + np.uint64(2 ** (64 - _GUIDE_BITS) - 1)
    places = np.searchsorted(above, starts, side="right")
    return np.where(_settled(ends, places, below, complete), places, _UNDECIDED).astype(np.int16)


def _settled(words: Words, places: Ints, below: Words, complete: bool) -> Bools:
    """Whether each word is certainly below the upper edge of its digit."""
    return np.asarray((words < below[places]) | (complete & (places == below.size - 1)))


def uniform_words(size: int) -> Words:
    """Uniform 64-bit words."""
    return secure_bytes(8 * size).view(np.uint64)


def uniform_below(limits: Ints) -> Ints:
    """Integers, each uniform on 0..limit - 1 for its own limit of at least 1."""
    out = np.zeros(limits.size, dtype=np.int64)
    left = np.flatnonzero(limits > 1)
    while left.size:
        words, tops = uniform_words(left.size), limits[left].astype(np.uint64)
        parts = words % tops
        out[left] = parts.view(np.int64)
        left = left[words - parts > np.uint64(0) - tops]  # 2**64 - limit, as unsigned numbers wrap
    return out
