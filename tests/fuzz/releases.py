"""Releases as JSON, changed at random: `from_json` raises ValueError, or what it reads is a whole release."""

import json
from datetime import date, datetime, timedelta
from functools import cache

import numpy as np
import polars as pl

from opendp_tree import Key, Tree, TreeRelease, release_tree
from opendp_tree.releases import PrivacyStatement
from tests.fuzz import Violation
from tests.fuzz.limits import limited
from tests.fuzz.mutations import as_json, letters, run, structures


@cache
def samples():
    """One release of every kind of tree."""
    tree = Tree.from_paths([("a", 1), ("a", True), (None,), (date(2020, 1, 1), "é")], names=["one", "two"])
    noisy = np.arange(tree.node_count) * 1.5
    statement = PrivacyStatement("tree_laplace", "max_divergence", 1, {"epsilon": 1.0}, {"scale": np.inf, "text": "a"})
    shown = noisy > 3
    rows = 1500
    frame = pl.DataFrame(
        {
            "text": ["x/y"] * (rows - 500) + ["x/z/w"] * 500,
            "whole": [7] * rows,
            "truth": [True] * rows,
            "day": [date(2024, 2, 29)] * rows,
            "instant": [datetime(2024, 1, 1) + timedelta(hours=hour % 3) for hour in range(rows)],
            "address": ["10.0.0.1"] * rows,
        },
        schema_overrides={"instant": pl.Datetime("ns", "Europe/Brussels")},
    )
    keys = [
        *(Key.path("text", depth=4), Key.bits("whole", width=8, stride=2), Key.ip("address"), Key.calendar("day")),
        *(Key.columns("text", "whole", "truth"), Key.columns("day", "instant"), Key.ip("text")),
        *(Key.number("whole", low=0, high=9, bins=3), Key.nested(Key.calendar("day"), Key.url("text"))),
    ]
    return [
        TreeRelease(tree, noisy, noisy - 1, noisy + np.inf, 0.95, statement, shown=shown),
        TreeRelease(Tree.balanced(branching=2, depth=2), *np.ones((3, 3)), 1.0, None, cells=np.ones(3, dtype=np.int64)),
        *(release_tree(frame, by=key, epsilon=1.0, delta=1e-6, method="pruned_laplace") for key in keys),
    ]


def fuzz(seed, cases):
    """Half of the cases change the structure of the JSON, half its letters."""
    values = [without_noise(json.loads(release.to_json())) for release in samples()]
    return run(check, structures(values).map(as_json) | letters([*map(as_json, values)]), seed_number=seed, cases=cases)


def without_noise(value):
    """A release with fixed numbers: a seed must give the same cases."""
    numbers = [float(place) for place in range(len(value["estimates"]))]
    return {**value, "estimates": numbers, "lower": numbers, "upper": numbers, "hidden": value["hidden"] and 77.0}


def check(text):
    with limited("from_json"):
        try:
            release = TreeRelease.from_json(text)
        except ValueError:
            return
        except BaseException as error:
            raise Violation(f"{type(error).__name__}: {error}") from error
        again = TreeRelease.from_json(release.to_json())
        if again.tree != release.tree or not np.array_equal(again.estimates, release.estimates, equal_nan=True):
            raise Violation("what was read is written as another tree, or with other estimates")
        release.to_frame()
        release.describe()
