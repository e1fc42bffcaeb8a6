"""Recipes: what is written is read again, makes the same chain, and nothing else is ever made."""

import json

import numpy as np
import opendp.prelude as dp
import pytest

import opendp_tree as ot
from opendp_tree import OpenTree, Tree
from opendp_tree.recipe import _PARTS, Recipe

TREE = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)])
BITS = OpenTree.bits(8)
AGES = ot.Key.number("age", low=0, high=100, bins=20).tree
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
L1 = dp.l1_distance(T="i64")

RECIPES = {
    "laplace": Recipe(TREE, [("tree_sum", {"carrier": "vector"}), ("laplace", {"scale": 3.0})]),
    "tree_gaussian": Recipe(TREE, [("tree_gaussian", {"scale": 3.0, "weights": [1, 1, 2.5]})]),
    "records": Recipe(
        TREE,
        [("leaf_counts", {}), ("tree_laplace", {"scale": 3.0})],
        start="String",
        size=5,
        metric="change_one_distance",
    ),
    "counts": Recipe(TREE, [("tree_counts", {**BUDGET, "method": "auto"})], start="i32"),
    "keys": Recipe(
        BITS, [("leaf_counts", {}), ("pruned_descent", {"scale": 4.0, "delta": 1e-6})], "i64", None, "hamming_distance"
    ),
    "partition": Recipe(BITS, [("partition_estimator", BUDGET)]),
    "people": Recipe(
        TREE,
        [("people_estimator", {**BUDGET, "count": "people", "nodes": [2, 3]})],
        start="people",
        metric="symmetric_distance",
    ),
    "cells": Recipe(TREE, [("tree_partition", {"scale": 2.0, "delta": 1e-6})]),
    "sparse_vector": Recipe(BITS, [("sparse_vector", {"scale": 4.0, "threshold": 20, "gaps": True})]),
    "truncated": Recipe(TREE, [("tree_sum", {}), ("truncated_laplace", {"scale": 4.0, "delta": 1e-6, "d_in": 3})]),
    "paper": Recipe(TREE, [("multiplicative_estimator", {"alpha": 0.5, **BUDGET, "eta": 0.01, "mass_bound": 10**7})]),
    "classes": Recipe(
        TREE, [("tree_classifier", {"alpha": 0.5, **BUDGET, "eta": 0.01, "threshold": 10**5, "mass": 2 * 10**5})]
    ),
    "means": Recipe(
        BITS,
        [("tree_means", BUDGET)],
        start="leaf_values",
        metric="symmetric_distance",
        values=[ot.Value("amount", bounds=(0, 500)), ot.Value("delay", bounds=(-30.5, 180), weight=2.0)],
    ),
    "transformation": Recipe(TREE, [("tree_sum", {})]),
    "numbers": Recipe(ot.Key.number("age", low=0, high=100, bins=20).tree, [("tree_counts", {"epsilon": 1.0})]),
    "bin_curve": Recipe(AGES, [("bin_curve", {"scale": 2.0, "confidence": 0.9})]),
    "segment_curve": Recipe(AGES, [("segment_curve", {"scale": 2.0, "finding": 0.3})]),
    "planned curve": Recipe(AGES, [("tree_counts", {"epsilon": 1.0, "method": "curve"})]),
    "chosen_quantiles": Recipe(AGES, [("chosen_quantiles", {"scale": 2.0, "quantiles": [0.25, 0.5]})]),
    "shares": Recipe(
        BITS, [("people_estimator", {**BUDGET, "count": "shares"})], start="people", metric="symmetric_distance"
    ),
    "outside": Recipe(
        ot.Key.bits("k", width=8).open_tree(),
        [("leaf_counts", {}), ("partition_estimator", BUDGET)],
        "i64",
        None,
        "symmetric_distance",
    ),
    "calendar": Recipe(ot.Key.calendar("day").open_tree(), [("partition_estimator", BUDGET)]),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_survives_json_and_makes_the_same_chain(name):
    recipe = RECIPES[name]
    again = Recipe.from_json(recipe.to_json())
    assert again == recipe
    assert again.to_json() == recipe.to_json()
    here, there = recipe.make(), again.make()
    assert here.input_domain == there.input_domain
    assert here.input_metric == there.input_metric
    assert here.map(1) == there.map(1)


def test_a_recipe_makes_what_was_written_by_hand():
    by_hand = ot.make_tree_sum(ot.leaf_domain(TREE), L1, carrier="vector") >> dp.m.then_laplace(3.0)
    assert RECIPES["laplace"].make().map(2) == by_hand.map(2)
    assert len(RECIPES["laplace"].make()(np.array([3, 4, 5]))) == TREE.node_count
    records = RECIPES["records"].make()
    assert records.map(1) == 2.0
    assert records(["ghent", "x", "lu", "lu", "lu"]).estimates.size == TREE.node_count
    assert RECIPES["keys"].make()([7] * 900).tree == BITS


def changed(**parts):
    return json.dumps({**json.loads(RECIPES["laplace"].to_json()), **parts})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be JSON"),
        ("[]", "must be an object"),
        ("[" * 100_000, "must be JSON"),
        (changed(format="opendp-tree release"), '"format"'),
        (changed(version=2), "version"),
        (changed(steps=[["__import__", {}]]), "must be one of"),
        (changed(steps=[["os.system", {"command": "true"}]]), "must be one of"),
        (changed(steps=[["tree_sum", {"input_domain": 1}]]), "takes no 'input_domain'"),
        (changed(steps=[["tree_sum", {"tree": {}}]]), "takes no 'tree'"),
        (changed(steps=[["tree_sum", {"carrier": {"a": 1}}]]), "must be a number, a text"),
        (changed(steps=[["tree_gaussian", {"scale": 1, "weights": [[1]]}]]), "must be a number, a text"),
        (changed(steps=[]), "1 to 10 pairs"),
        (changed(steps=[["tree_sum", {}]] * 11), "1 to 10 pairs"),
        (changed(steps=["tree_sum"]), "pairs of a name and arguments"),
        (changed(steps=[["tree_sum", []]]), "a mapping of arguments"),
        (changed(start="float"), "start"),
        (changed(start=3), "start"),
        (changed(metric="l7"), "metric"),
        (changed(size=-1, start="i64"), "size"),
        (changed(size=4), "size must be left out"),
        (changed(tree={"kind": "public"}), "names"),
        (RECIPES["laplace"].to_json().replace("3.0", "NaN"), "NaN"),
        (RECIPES["laplace"].to_json().replace("3.0", "1e999"), "must be a number"),
    ],
)
def test_hostile_json_is_a_value_error(text, words):
    with pytest.raises(ValueError, match=words):
        Recipe.from_json(text)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([("tree_laplace", {"scale": -1.0})], r"step 1 \(tree_laplace\): scale \(-1.0\)"),
        ([("tree_laplace", {"scale": "x"})], r"step 1 \(tree_laplace\): scale \('x'\)"),
        ([("tree_laplace", {})], r"step 1 \(tree_laplace\)"),
        ([("laplace", {"scale": 1.0})], r"step 1 \(laplace\)"),
        ([("tree_laplace", {"scale": 1.0}), ("tree_sum", {})], "must be the last"),
    ],
)
def test_what_a_constructor_refuses_names_the_step(steps, words):
    with pytest.raises(ValueError, match=words):
        Recipe(TREE, steps).make()


@pytest.mark.parametrize(
    ("step", "options", "words"),
    [
        (("tree_counts", {"value": "amount"}), {}, "takes no 'value'. Hint: the part 'tree_means', with start"),
        (("tree_counts", {"unit": "user"}), {}, "takes no 'unit'. Hint: the part 'people_estimator', with start"),
        (("people_estimator", BUDGET), {}, "Hint: start='people', metric='symmetric_distance'"),
        (("people_estimator", BUDGET), {"start": "people"}, "metric='symmetric_distance'"),
        (("tree_means", BUDGET), {}, "Hint: start='leaf_values', metric='symmetric_distance'"),
        (("tree_counts", BUDGET), {"start": "people", "metric": "symmetric_distance"}, "Hint: people_estimator"),
        (
            ("tree_laplace", {"scale": 1.0}),
            {
                "start": "leaf_values",
                "metric": "symmetric_distance",
                "values": [ot.Value("amount", bounds=(0, 500))],
            },
            "cannot start from leaf_values. Hint: tree_means",
        ),
    ],
)
def test_what_starts_from_people_or_values_is_told_where_to_start(step, options, words):
    with pytest.raises(ValueError, match=words):
        Recipe(TREE, [step], **options)


def test_curves_by_group_are_refused_with_the_way_to_have_them():
    nested = ot.Key.nested(ot.Key.columns("carrier"), ot.Key.number("delay", low=0, high=40, bins=40))
    with pytest.raises(ValueError, match=r"step 1 \(tree_counts\): .*Hint: for curves by group, release_tree"):
        Recipe(nested.open_tree(), [("tree_counts", {**BUDGET, "method": "curve"})]).make()


def test_what_is_no_tree_and_no_step_is_a_type_error():
    with pytest.raises(TypeError, match="tree"):
        Recipe("tree", [("tree_sum", {})])
    with pytest.raises(TypeError, match="step 1"):
        Recipe(TREE, ["tree_sum"])


def test_opendps_own_deserialize_cannot_bring_parts_back():
    """Why there are recipes: should OpenDP come to serialize user objects, say so in the docs."""
    with pytest.raises(Exception, match="does not handle"):
        dp.serialize(RECIPES["transformation"].make())


def test_the_table_holds_constructors_alone():
    assert all(make.__name__ == f"make_{name}" for name, make in _PARTS.items())
    left_out = {name.removeprefix("make_") for name in ot.__all__ if name.startswith("make_")} - _PARTS.keys()
    assert left_out == {"consistent"}  # which is no measurement
