"""Every constructor names the argument that is wrong, before it has seen any data."""

import inspect
import math
import re
from fractions import Fraction
from functools import partial

import opendp.prelude as dp
import pytest

import opendp_tree as ot
from opendp_tree._opendp import make_measurement
from opendp_tree.mechanisms import leaf_values_domain, make_tree_means, people_domain
from opendp_tree.mechanisms.tree_estimator import make_tree_estimator
from opendp_tree.mechanisms.tree_partition import make_tree_partition
from opendp_tree.paper import Ladder, Round
from opendp_tree.trees import node_domain
from opendp_tree.trees.nodes import KnownNodes
from tests.mechanisms.combinators import KEYS, L1, LEAVES, MEASUREMENTS, RECORDS, TREE

OTHER = ot.Tree.from_paths([("a", "b")] + [(number,) for number in range(8)])
VECTOR = dp.vector_domain(dp.atom_domain(T="i64")), L1
COLUMNS = ot.OpenTree.columns(["country", "city"])
MEANS = leaf_values_domain(COLUMNS, ot.Value("amount", bounds=(0, 5))), dp.symmetric_distance()
VALUES = leaf_values_domain(TREE, ot.Value("amount", bounds=(0, 5))), dp.symmetric_distance()
UNBOUNDED = make_measurement(*LEAVES, dp.approximate(dp.max_divergence()), len, lambda _: (1.0, 0.0))


def of(name, space=None, **options):
    """A constructor with arguments that are right."""
    made = MEASUREMENTS[name]
    return partial(made.func, *(space or made.args), **{**made.keywords, **options})


CONSTRUCTORS = {
    **{name: made for name, made in MEASUREMENTS.items() if isinstance(made, partial)},
    "make_tree_sum": partial(ot.make_tree_sum, *LEAVES),
    "make_pruned_descent, public tree": of("make_pruned_descent", LEAVES),
    "make_tree_partition, public tree": of("make_tree_partition", LEAVES),
    "make_tree_counts, public tree": of("make_tree_counts", LEAVES),
    "make_above_threshold": partial(
        ot.mechanisms.make_above_threshold, VECTOR[0], dp.linf_distance(T="i64"), scale=1.0, threshold=5
    ),
    "make_tree_means": partial(make_tree_means, *MEANS, epsilon=1.0, delta=1e-6),
    "make_people_estimator": partial(
        ot.mechanisms.make_people_estimator,
        *(people_domain(COLUMNS), dp.symmetric_distance()),
        **{"rows": 3, "epsilon": 1.0, "delta": 1e-6},
    ),
    "make_clipped_estimator": partial(
        ot.paper.make_clipped_estimator, *LEAVES, scale=1.0, estimator=UNBOUNDED, delta=0.1
    ),
    "make_consistent": partial(ot.make_consistent, variances=[1.0] * 3, tree=TREE),
}
WRONG = {
    "scale": (-1.0, math.nan, "1"),
    **dict.fromkeys(("epsilon", "rho"), (-1.0, math.inf, "1")),
    **dict.fromkeys(("alpha", "delta", "eta"), (-0.1, 1.0, "a")),
    "confidence": (0.0, 1.0, "high"),
    "measuring": (0.0, 1.0),
    "finding": (0.0, 1e-9, 1.0),
    **dict.fromkeys(("d_in", "cutoff", "sensitivity"), (0, 1.5)),
    "threshold": (-0.5, "5"),
    "query_scale": (math.nan, -1.0),
    **dict.fromkeys(("monotonic", "gaps", "nonnegative", "integers"), ("yes", 1)),
    **dict.fromkeys(("threshold_noise", "after_cutoff", "carrier", "noise", "count", "method"), ("magic", 3)),
    "tree": (OTHER, 3),
    "weights": ([1] * 5, [1, -1, 1], ["a"] * 3, [0, 0, 0]),
    "levels": ([99], [], "01"),
    "branching": (1, 2.5),
    "most": (1, 2.5),
    "mass": (-1, "much"),
    "mass_bound": (-1, 1e9),
    "tau_min": (0, 0.5),
    "radius": (-1, 5.5, True),
    "roots": ([1, 3], [9], "1"),
    "variances": ([1.0, 1.0], [math.inf] * 3, [1.0, -1.0, 1.0]),
    **dict.fromkeys(("ladder", "estimator"), ("high", None)),
    "output_metric": (dp.symmetric_distance(), dp.l2_distance(T="f32")),
    "input_domain": (dp.atom_domain(T="f64"), dp.atom_domain(T=str)),
    "input_metric": (dp.discrete_distance(), dp.l1_distance(T="f32"), dp.l2_distance(T="f64")),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_each_argument_is_refused_by_its_name(name):
    dp.enable_features("honest-but-curious")
    made = CONSTRUCTORS[name]
    parameters = list(inspect.signature(made.func).parameters)
    right = {**dict(zip(parameters, made.args, strict=False)), **made.keywords}
    for argument in parameters:
        for value in WRONG.get(argument, ()):
            if made.func is ot.make_sparse_vector and argument.startswith("input"):
                continue  # it takes any space
            if made.func is ot.make_consistent and value is OTHER:
                continue  # its tree may be any
            with pytest.raises((TypeError, ValueError), match=rf"\b{argument}\b"):
                made.func(**{**right, argument: value})


FROM_ROWS = of("make_sparse_vector", RECORDS)
COLUMNS_ESTIMATOR = of("make_tree_estimator", (ot.leaf_domain(COLUMNS), L1))
PARTITION = partial(
    make_tree_partition, *LEAVES, **{"scale": 1.0, "token_scale": 1.1, "threshold": 17, "radius": 16, "margin": 4}
)
CHOSEN = {**dict.fromkeys(("token_scale", "threshold", "radius", "margin")), "delta": 1e-6}
PRUNED = of("make_pruned_descent", LEAVES)
PEOPLE, CLIPPED = CONSTRUCTORS["make_people_estimator"], CONSTRUCTORS["make_clipped_estimator"]
TREE_SUM, LADDER = CONSTRUCTORS["make_tree_sum"], CONSTRUCTORS["make_ladder_estimator"]
TRUNCATED, CLASSIFIER = CONSTRUCTORS["make_truncated_laplace"], CONSTRUCTORS["make_tree_classifier"]
MULTIPLICATIVE, REPORT = CONSTRUCTORS["make_multiplicative_estimator"], CONSTRUCTORS["make_bound_report"]
OPEN_MEANS, PUBLIC_MEANS = CONSTRUCTORS["make_tree_means"], partial(make_tree_means, *VALUES, epsilon=1.0)
SEGMENTS = CONSTRUCTORS["make_segment_curve"]
PURE = make_measurement(*LEAVES, dp.max_divergence(), len, lambda _: 1.0)
ELSEWHERE = make_measurement(
    LEAVES[0], dp.l1_distance(T="f64"), dp.approximate(dp.max_divergence()), len, lambda _: (1.0, 0.0)
)


def vector(size, T="i64"):
    return dp.vector_domain(dp.atom_domain(T=T), size)


def ladder(*numbers):
    return {"ladder": Ladder(1, (Round(*numbers),))}


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (of("make_sparse_vector"), {"monotonic": True, "d_in": 2}, "monotonic must be False unless"),
        (of("make_sparse_vector"), {"threshold": 5.0}, "threshold (5.0) must be an integer"),
        (FROM_ROWS, {"monotonic": True}, "monotonic must be False unless"),
        (FROM_ROWS, {"tree": TREE}, "input_metric (SymmetricDistance()) must be l1_distance where a tree is given"),
        (COLUMNS_ESTIMATOR, {"delta": 0.0}, "delta"),
        (COLUMNS_ESTIMATOR, {"weights": [1.0]}, "one for each level above the deepest"),
        (COLUMNS_ESTIMATOR, {"levels": [2], "weights": [1.0, 1.0]}, "weights"),
        (COLUMNS_ESTIMATOR, {"known": KnownNodes.of(ot.OpenTree.columns(3), [])}, "known"),
        (of("make_tree_estimator", LEAVES), {"known": KnownNodes.of(COLUMNS, [])}, "known"),
        (
            partial(make_tree_estimator, ot.leaf_domain(ot.OpenTree.bits(32)), L1, epsilon=1.0, delta=1e-6),
            {"weights": [1.0] * 32},
            "more than 9 levels",
        ),
        (TREE_SUM, {"input_domain": vector(4)}, "tree must be given, because input_domain does not carry one. Hint"),
        (TREE_SUM, {"input_domain": vector(3), "tree": TREE}, "must be leaf_domain(tree) or "),
        (TREE_SUM, {"input_domain": vector(4, "f64"), "tree": TREE}, "must hold integers"),
        (TREE_SUM, {"input_domain": node_domain(TREE)}, "must be leaf_domain"),
        (TREE_SUM, {"input_domain": node_domain(ot.Tree.from_parents([-1]))}, "must be leaf_domain"),
        (TRUNCATED, {"delta": None}, "exactly one of radius and delta must be given"),
        (TRUNCATED, {"radius": 5}, "exactly one of radius and delta must be given"),
        (TRUNCATED, {"delta": 0.0}, "delta (0.0) must be above 0 and below 1"),
        (TRUNCATED, {"input_domain": vector(4), "input_metric": dp.absolute_distance(T="i64")}, "l1_distance"),
        (TRUNCATED, {"input_domain": dp.atom_domain(T="i64")}, "must be absolute_distance"),
        (
            PARTITION,
            {"input_domain": KEYS[0], "threshold": 16},
            "radius (16) must be at least 1 and below the",
        ),
        (PARTITION, {"input_domain": KEYS[0], "radius": None}, "radius (None) must be an integer"),
        (PARTITION, {"margin": 17}, "margin (17) must be at least 0 and below the threshold (17)"),
        (PARTITION, {"margin": -1}, "margin (-1) must be an integer from 0"),
        (PARTITION, {"margin": [1, 2]}, "margin has 2 entries, and must have 3: one for each tested level"),
        (PARTITION, {"margin": [4, 3, 4]}, "must not fall towards the root"),
        (PARTITION, {"threshold": [17, 18, 17]}, "must not fall towards the root"),
        (PARTITION, {"radius": 0}, "radius (0) must be an integer from 1"),
        (PARTITION, {"token_scale": 2.0**51}, "must be at most 2**50"),
        (PARTITION, {"token_scale": "1"}, "token_scale ('1') must be a number"),
        (PARTITION, {"token_scale": None}, "token_scale, threshold and margin must be given"),
        (PARTITION, {"threshold": 17.0}, "threshold (17.0) must be an integer, or a sequence"),
        (PARTITION, {"threshold": [17.0] * 3}, "threshold (17.0) must be an integer"),
        (PARTITION, {**CHOSEN, "scale": 2.0**60}, "too small"),
        (PARTITION, {**CHOSEN, "delta": 0.0}, "delta (0.0) must be"),
        (PARTITION, {**CHOSEN, "margin": 3}, "delta must be given alone"),
        (of("make_tree_laplace"), {"weights": [1, 1, 0]}, "undetermined"),
        (of("make_tree_gaussian"), {"weights": [1, 1, 0]}, "undetermined"),
        (PRUNED, {"delta": None}, "exactly one of threshold and delta must be given"),
        (PRUNED, {"threshold": 5}, "exactly one of threshold and delta must be given"),
        (PRUNED, {"delta": None, "threshold": 0}, "threshold (0) must be an integer from 1"),
        (PRUNED, {"delta": 0.0}, "delta (0.0) must be above 0 and below 1"),
        (PRUNED, {"weights": [1, 0, 1]}, "weights[1] (0) must be positive"),
        (SEGMENTS, {"scale": 0.0}, "scale"),
        (SEGMENTS, {"scale": math.inf}, "scale"),
        (SEGMENTS, {"scale": 2.0**41}, "scale"),
        (SEGMENTS, {"input_domain": ot.leaf_domain(ot.Tree.from_parents([-1, 0, 0, 2, 1]))}, "depth-first"),
        (REPORT, {"scale": 0.0}, "scale (0.0) must be positive"),
        (REPORT, {"scale": 2.0**51}, "must be from 2**-50 to 2**50"),
        (REPORT, {"scale": 1e-300}, "must be from 2**-50 to 2**50"),
        (REPORT, {"confidence": 1 - 2.0**-53}, "must be at most 1 - 2**-50"),
        (OPEN_MEANS, {"delta": 0.0}, "must be above 0 where nodes are unknown"),
        (OPEN_MEANS, {"shares": (0.4, 0.3, 0)}, "shares"),
        (OPEN_MEANS, {"shares": 0.5}, "three numbers"),
        (OPEN_MEANS, {"epsilon": 1e-4}, "epsilon must be larger"),
        (PUBLIC_MEANS, {"delta": 1e-6}, "delta must be 0 for a public tree"),
        (PUBLIC_MEANS, {"shares": (0.4, 0.3, 0.3)}, "shares, levels and known must be left out"),
        (PUBLIC_MEANS, {"levels": [0, 1]}, "shares, levels and known must be left out"),
        (PEOPLE, {"rows": None}, "unit: rows must be given for count='rows'. Hint"),
        (PEOPLE, {"count": "people"}, "unit: rows must not be given for count='people'. Hint"),
        (PEOPLE, {"rho": 1.0}, "exactly one of epsilon and rho"),
        (PEOPLE, {"epsilon": None, "rho": 1.0}, "epsilon and delta must be given where nodes must be found"),
        (PEOPLE, {"epsilon": None, "rho": 0.0}, "rho"),
        (PEOPLE, {"delta": 0.0}, "delta must be above 0 where nodes are unknown"),
        (PEOPLE, {"input_domain": LEAVES[0]}, "must be people_domain"),
        (PEOPLE, {"input_domain": people_domain(TREE), "levels": [2]}, "known and levels must be left out"),
        (CLASSIFIER, {"threshold": 0}, "threshold (0) must be positive"),
        (CLASSIFIER, {"threshold": 2.0**63, "mass": 2.0**63}, "must be at most 2**62 - 1"),
        (CLASSIFIER, {"alpha": 0.0}, "alpha (0.0) must be above 0 and below 1"),
        (CLASSIFIER, {"epsilon": 1e-15}, "epsilon (1e-15) must be larger"),
        (CLASSIFIER, {"delta": 0.0}, "delta (0.0) must be above 0 and below 1"),
        (MULTIPLICATIVE, {"alpha": 0.0}, "alpha (0.0) must be above 0 and below 1"),
        (MULTIPLICATIVE, {"delta": 0}, "delta (0) must be above 0 and below 1"),
        (MULTIPLICATIVE, {"tau_min": 0.5}, "tau_min (0.5) must be at least 1: counts are whole"),
        (CLIPPED, {"delta": None}, "exactly one of radius and delta must be given"),
        (CLIPPED, {"radius": 5}, "exactly one of radius and delta must be given"),
        (CLIPPED, {"estimator": ELSEWHERE}, "estimator must start from the same input_domain and input_metric"),
        (CLIPPED, {"estimator": PURE}, "must be approximate"),
        (LADDER, {"ladder": Ladder(-1, ())}, "base (-1) must be finite and non-negative"),
        (LADDER, ladder(1, 0.1, 0.1, 0, 1, 0.1), "threshold (0) must be positive"),
        (LADDER, ladder(1, 0.1, 0.1, 1, 0, 0.1), "epsilon (0) must be positive"),
        (LADDER, ladder(1, 0.1, 0.1, 1, 1, "x"), "delta ('x') must be a number"),
        (LADDER, ladder(1, 2, 0.1, 1, 1, 0.1), "eta (2) must be above 0 and below 1"),
        (LADDER, ladder(1, 0.1, Fraction(3, 2), 1, 1, 0.1), "alpha (1.5) must be above 0"),
    ],
)
def test_what_does_not_go_together_is_told(made, options, message):
    right = {**dict(zip(inspect.signature(made.func).parameters, made.args, strict=False)), **made.keywords}
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        made.func(**{**right, **options})
