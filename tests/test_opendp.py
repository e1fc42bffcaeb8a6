"""What is OpenDP's own, as the package spells it, and how our arrays meet OpenDP's constructors."""

import ctypes
import gc
import re
from collections import Counter

import opendp.core
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import (
    Key,
    Tree,
    frame_domain,
    leaf_domain,
    then_leaf_counts,
    then_tree_laplace,
    then_tree_sum,
)
from opendp_tree._opendp import measure_name

TREE = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)], names=["country", "city"])
ROWS = pl.DataFrame({"country": ["be", "be", "lu"], "city": ["ghent", "liege", None]})
SPACE = leaf_domain(TREE), dp.l1_distance(T="i64")
FRAMES = frame_domain(ROWS), dp.symmetric_distance()
KEY = Key.columns("country", "city", tree=TREE)
REFUSAL = "No match for concrete type ExtrinsicDomain. See https://github.com/opendp/opendp/discussions/451."


def test_a_measure_is_spelled_as_the_call_that_makes_it():
    for name in ("max_divergence()", "zero_concentrated_divergence()"):
        measure = eval(f"dp.{name}")
        assert measure_name(measure) == name
        assert measure_name(dp.approximate(measure)) == f"approximate({name})"
    assert "Renyi" in measure_name(dp.renyi_divergence())


TEXTS = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
PAIR = Tree.balanced(branching=2, depth=2)
ARRAYS = {
    "sums": lambda: SPACE >> then_tree_sum(),
    "frames": lambda: FRAMES >> then_leaf_counts(by=KEY),
    "two of ours": lambda: FRAMES >> then_leaf_counts(by=KEY) >> then_tree_sum(),
    "OpenDP's first": lambda: TEXTS >> dp.t.then_cast_default(TOA=int) >> then_leaf_counts(by=PAIR),
}


def refusal(arrays, then):
    with pytest.raises(dp.OpenDPException) as caught:
        arrays >> then
    return caught.value


@pytest.mark.parametrize("kind", ARRAYS)
def test_noise_of_opendp_after_our_arrays_names_the_carrier(kind):
    error = refusal(ARRAYS[kind](), dp.m.then_laplace(scale=3.0))
    hint = 'Hint: this constructor needs OpenDP\'s vectors: then_tree_sum(carrier="vector")'
    assert (error.variant, error.message) == ("Type", f"{REFUSAL} {hint}")
    assert error.__cause__.message == REFUSAL


@pytest.mark.parametrize(
    "then",
    [
        dp.m.then_laplace(scale=3.0),
        dp.m.then_geometric(scale=3.0),
        dp.m.then_gaussian(scale=3.0),
        dp.m.then_noisy_max(dp.max_divergence(), scale=3.0),
        dp.t.then_b_ary_tree(leaf_count=5, branching_factor=2),
    ],
)
def test_what_the_hint_says_works(then):
    options = re.search(r"then_tree_sum\((.*)\)$", refusal(SPACE >> then_tree_sum(), then).message).group(1)
    vectors = SPACE >> eval(f"then_tree_sum({options})")
    assert (vectors >> then).map(1) > 0


def test_no_hint_where_vectors_do_not_help():
    for then, error in ((dp.t.then_mean(), dp.OpenDPException), (dp.t.then_sum(), dp.OpenDPException), (5, ValueError)):
        with pytest.raises(error) as caught:
            (SPACE >> then_tree_sum()) >> then
        assert "carrier" not in str(caught.value)
    numbers = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), 3.0)  # made for other data
    assert "carrier" not in refusal(SPACE >> then_tree_sum(), numbers).message
    found = FRAMES >> then_leaf_counts(by=["country", "city"])
    assert refusal(found, dp.m.then_laplace(scale=3.0)).message == REFUSAL


def test_our_arrays_are_transformations_like_others():
    sums = SPACE >> then_tree_sum()
    assert isinstance(sums, dp.Transformation)
    assert repr(sums).startswith("Transformation(\n")
    chained = FRAMES >> then_leaf_counts(by=KEY) >> then_tree_sum()
    assert chained(ROWS).tolist()[:4] == [3, 2, 1, 1]
    assert chained.map(2) == 6
    assert chained.input_domain == FRAMES[0]
    noisy = dp.c.make_chain_mt(
        (leaf_domain(KEY.hierarchy), dp.l1_distance(T="i64")) >> then_tree_laplace(3.0),
        FRAMES >> then_leaf_counts(by=KEY),
    )
    assert noisy.map(1) == (FRAMES >> then_leaf_counts(by=KEY) >> then_tree_laplace(3.0)).map(1)
    with pytest.raises(TypeError, match="unsupported operand"):
        SPACE >> sums


def test_a_chain_in_parts_waits_for_its_parameter():
    partial = SPACE >> then_tree_sum(carrier="vector") >> dp.m.then_laplace(scale=3.0)
    assert partial.map(1) == 1.0
    found = dp.binary_search_chain(lambda scale: SPACE >> then_tree_laplace(scale), d_in=1, d_out=1.0)
    assert found.map(1) <= 1.0


def test_every_pointer_is_freed_once(monkeypatch):
    freed, free = Counter(), opendp.core._transformation_free

    def counted(made):
        freed[ctypes.cast(made, ctypes.c_void_p).value] += 1
        return free(made)

    monkeypatch.setattr(opendp.core, "_transformation_free", counted)
    kept = [SPACE >> then_tree_sum() for _ in range(3)]
    kept += [FRAMES >> then_leaf_counts(by=KEY) >> then_tree_sum() for _ in range(3)]
    places = {ctypes.cast(each, ctypes.c_void_p).value for each in kept}
    gc.collect()
    freed.clear()
    kept.clear()
    gc.collect()
    assert len(places) == 6
    assert {place: freed[place] for place in places} == dict.fromkeys(places, 1)
