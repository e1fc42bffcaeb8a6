"""Recipes as JSON, changed at random: `from_json` and `make` raise ValueError, or a chain comes out."""

import json
import warnings

from opendp_tree import OpenTree, Tree
from opendp_tree.recipe import Recipe
from tests.fuzz import Violation
from tests.fuzz.limits import limited
from tests.fuzz.mutations import as_json, letters, run, structures

TREE = Tree.from_paths([("a", 1), ("b",)])
SAMPLES = [
    Recipe(TREE, [("tree_sum", {"carrier": "vector"}), ("laplace", {"scale": 3.0})]),
    Recipe(
        TREE,
        [("leaf_counts", {}), ("tree_laplace", {"scale": 3.0, "weights": [1, 2, 1]})],
        "i64",
        4,
        "hamming_distance",
    ),
    Recipe(OpenTree.bits(4), [("sparse_vector", {"scale": 4.0, "threshold": 20, "gaps": True})]),
    Recipe(OpenTree.columns(1), [("pruned_descent", {"scale": 4.0, "delta": 1e-6})]),
]


def fuzz(seed, cases):
    """Half of the cases change the structure of the JSON, half its letters."""
    values = [json.loads(recipe.to_json()) for recipe in SAMPLES]
    return run(check, structures(values).map(as_json) | letters([*map(as_json, values)]), seed_number=seed, cases=cases)


def check(text):
    with limited("Recipe.from_json"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            recipe = Recipe.from_json(text)
            if Recipe.from_json(recipe.to_json()) != recipe:
                raise Violation("what was read is written as another recipe")
            recipe.make()
        except (ValueError, Violation) as error:
            if isinstance(error, Violation):
                raise
        except BaseException as error:
            raise Violation(f"{type(error).__name__}: {error}") from error
