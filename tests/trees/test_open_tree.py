import numpy as np
import polars as pl
import pytest

from opendp_tree import OpenTree


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: OpenTree("bits", 2, 32, 1), ValueError, r"depth \(2\) must fit width and stride"),
        (lambda: OpenTree("trees", 2), ValueError, r"kind \('trees'\) must be one of 'columns'"),
        (lambda: OpenTree.columns(0), ValueError, r"names \(0\) must be an integer from 1"),
        (lambda: OpenTree.columns([]), ValueError, "names must hold at least one name"),
        (lambda: OpenTree.columns("city"), TypeError, r"names \('city'\) must be a collection of texts. Hint: wrap"),
        (lambda: OpenTree.columns(2.0), TypeError, r"names \(2.0\) must be a collection of texts"),
        (lambda: OpenTree("columns", 3, names=("a",)), ValueError, r"names \(a\) must be 2, one for each level"),
        (lambda: OpenTree("bits", 9, 8, names=("a",)), ValueError, r"names \(a\) must be 0"),
        (lambda: OpenTree.bits(8, shown_as="ipv4"), ValueError, r"width \(8\) must be 32 to be shown as ipv4"),
        (lambda: OpenTree.bits(32, shown_as="ipv6"), ValueError, r"width \(32\) must be 128 to be shown as ipv6"),
        (lambda: OpenTree.bits(32, shown_as="hex"), ValueError, r"shown_as \('hex'\) must be one of"),
        (lambda: OpenTree.bits(129), ValueError, r"width \(129\) must be at most 128"),
        (lambda: OpenTree.bits(0), ValueError, r"width \(0\) must be an integer from 1"),
        (lambda: OpenTree.bits(8, stride=0), ValueError, r"stride \(0\) must be an integer from 1"),
        (lambda: OpenTree.paths("", depth=3), ValueError, r"separator \(''\) must be a non-empty text"),
        (lambda: OpenTree.paths("/", depth=1), ValueError, r"depth \(1\) must be an integer from 2"),
        (lambda: OpenTree.bits(8).count("secret"), TypeError, r"found one string. Hint: pass \[key\]"),
        (lambda: OpenTree.bits(8).count(np.array([1.0])), TypeError, r"keys \(float64\) must be integers"),
        (lambda: OpenTree.bits(8).count(np.zeros((2, 3), dtype=np.uint64)), TypeError, r"shape \(n, 2\)"),
        (lambda: OpenTree.columns(2).count(pl.DataFrame({"a": ["x"]})), ValueError, "must have 2 columns, found 1"),
    ],
)
def test_wrong_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
