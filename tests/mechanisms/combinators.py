"""Every measurement through every combinator of OpenDP: `python -m tests.mechanisms.combinators` writes the table.

Each measurement starts from records, behind `make_leaf_counts`, so that every cell is a chain too; those of people, of
values and of groups start from the rows of a frame. A cell is tried out, with a release and its use; what OpenDP cannot
do is an error of OpenDP's; what it should be able to do follows from the measure and from where the chain starts.
"""

import functools
from functools import partial
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import polars as pl
from opendp._internal import _new_pure_function
from opendp.mod import OpenDPException

import opendp_tree as ot
from opendp_tree.mechanisms.tree_estimator import make_tree_estimator
from opendp_tree.mechanisms.tree_partition import make_tree_partition

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"
BEGIN, END = "<!-- python -m tests.mechanisms.combinators -->\n\n", "\n\n<!-- end of combinators -->"
TREE, OPEN = ot.Tree.balanced(branching=2, depth=3), ot.OpenTree.bits(8)
RECORDS = dp.vector_domain(dp.atom_domain(T="i64"), size=40), dp.symmetric_distance()
DATA = [3] * 20 + [4] * 15 + [6] * 5
FRAME = pl.DataFrame(
    {"user": range(400), "kind": ["a"] * 300 + ["b"] * 100, "amount": [2.0] * 400, "delay": [*range(40)] * 10}
)
ROWS = ot.frame_domain(FRAME), dp.symmetric_distance()
PEOPLE = ot.frame_domain(FRAME), dp.symmetric_id_distance("user")
L1 = dp.l1_distance(T="i64")
LEAVES, KEYS = (ot.leaf_domain(TREE), L1), (ot.leaf_domain(OPEN), L1)
PURE, RHO = dp.max_divergence(), dp.zero_concentrated_divergence()
MEASURES = {
    "pure": PURE,
    "approximate": dp.approximate(PURE),
    "zCDP": RHO,
    "approximate zCDP": dp.approximate(RHO),
    "profile": dp.smoothed_max_divergence(),
}
BUDGET = {"alpha": 0.5, "epsilon": 1.0, "delta": 1e-7, "eta": 0.01}
PROMISED = {"epsilon": 1.0, "delta": 1e-7}
STEP = ot.paper.Round(mass=2900, eta=0.05, alpha=0.25, threshold=2000, epsilon=0.5, delta=1e-7)


def above_threshold():
    summed = ot.make_tree_sum(*LEAVES, output_metric=dp.linf_distance(T="i64"))
    return summed >> ot.mechanisms.then_above_threshold(4.0, threshold=20)


def means(by, **budget):
    values = ot.mechanisms.make_leaf_values(*ROWS, values=ot.Value("amount", bounds=(0, 5)), by=by)
    return values >> ot.mechanisms.then_tree_means(**budget)


def people(by, **options):
    records = ot.mechanisms.make_people_records(*PEOPLE, by=by, unit=ot.Unit("user", count="shares"))
    return records >> ot.mechanisms.then_people_estimator(count="people", nodes=2, **options)


def grouped_curves(**budget):
    kinds, delay = ot.Key.columns("kind"), ot.Key.number("delay", low=0, high=40, bins=40)
    groups = ot.plan(kinds.open_tree(), **budget).best.make(ot.leaf_domain(kinds.open_tree()))
    counts = ot.make_leaf_counts(*ROWS, by=ot.Key.nested(kinds, delay))
    return counts >> ot.mechanisms.then_grouped_curves(4.0, groups=groups, levels=1, ranges=delay.tree.ranges)


KINDS = ot.Key.columns("kind", tree=ot.Tree.from_paths([("a",), ("b",)]))
MEASUREMENTS = {
    "make_tree_laplace": partial(ot.make_tree_laplace, *LEAVES, scale=4.0),
    "make_tree_gaussian": partial(ot.make_tree_gaussian, *LEAVES, scale=4.0),
    "make_pruned_descent": partial(ot.mechanisms.make_pruned_descent, *KEYS, scale=4.0, delta=1e-7),
    'make_pruned_descent, noise="gaussian"': partial(
        ot.mechanisms.make_pruned_descent, *KEYS, scale=4.0, delta=1e-7, noise="gaussian"
    ),
    "make_tree_partition": partial(make_tree_partition, *KEYS, scale=4.0, delta=1e-7),
    "make_tree_estimator": partial(make_tree_estimator, *KEYS, **PROMISED),
    "make_tree_estimator, delta=0": partial(make_tree_estimator, *LEAVES, epsilon=1.0, delta=0.0),
    "make_tree_counts": partial(ot.planning.make_tree_counts, *KEYS, **PROMISED),
    "make_sparse_vector": partial(ot.make_sparse_vector, *LEAVES, scale=4.0, threshold=20),
    "make_sparse_vector, gaps, open tree": partial(ot.make_sparse_vector, *KEYS, scale=4.0, threshold=20, gaps=True),
    "make_above_threshold": above_threshold,
    "make_truncated_laplace": partial(ot.make_truncated_laplace, *LEAVES, scale=4.0, delta=1e-7),
    "make_truncated_laplace_profile": partial(
        ot.mechanisms.make_truncated_laplace_profile, *LEAVES, scale=4.0, radius=40
    ),
    "make_tree_classifier": partial(ot.paper.make_tree_classifier, *LEAVES, **BUDGET, threshold=10**5, mass=2 * 10**5),
    "make_ladder_estimator": partial(ot.paper.make_ladder_estimator, *LEAVES, ladder=ot.paper.Ladder(2900, (STEP,))),
    "make_multiplicative_estimator": partial(ot.make_multiplicative_estimator, *LEAVES, **BUDGET, mass_bound=10**8),
    "make_clipped_estimator": lambda: ot.paper.make_clipped_estimator(
        *LEAVES, 4.0, estimator=MEASUREMENTS["make_multiplicative_estimator"](), delta=1e-7
    ),
    "make_segment_curve": partial(ot.mechanisms.make_segment_curve, *LEAVES, scale=4.0),
    "make_bin_curve": partial(ot.mechanisms.make_bin_curve, *LEAVES, scale=4.0),
    "make_grouped_curves": lambda: grouped_curves(**PROMISED),
    "make_tree_means": lambda: means("kind", **PROMISED),
    "make_tree_means, public tree": lambda: means(KINDS, epsilon=1.0),
    "make_people_estimator": lambda: people("kind", **PROMISED),
    "make_people_estimator, public tree": lambda: people(KINDS, epsilon=1.0),
    "make_people_estimator, public tree, zCDP": lambda: people(KINDS, rho=0.1),
    "make_bound_report": partial(ot.mechanisms.make_bound_report, *PEOPLE, scale=20.0, most=5),
}


def use(release):
    """Look at a release; a queryable is asked."""
    if isinstance(release, dp.Queryable):
        try:
            answer = release(0)
        except OpenDPException:  # an open tree is asked by path
            answer = release((0, 0))
        assert isinstance(answer, (bool, int))
    else:
        assert release is not None


@functools.cache
def measurement(name):
    """The measurement, behind leaf counts of records unless it starts from rows."""
    dp.enable_features("contrib", "honest-but-curious")
    made = MEASUREMENTS[name]()
    if made.input_domain == ROWS[0]:
        return made
    tree = OPEN if made.input_domain == KEYS[0] else TREE
    return ot.make_leaf_counts(*RECORDS, by=tree) >> made


def space(m):
    """Where a chain starts."""
    return m.input_domain, m.input_metric


def data(m):
    """What it is run on."""
    return FRAME if m.input_domain == ROWS[0] else DATA


def start(name):
    """What the table calls where it starts."""
    words = {ROWS[1]: "rows", PEOPLE[1]: "people"}
    m = measurement(name)
    return next(word for metric, word in words.items() if metric == m.input_metric) if data(m) is FRAME else "records"


def measure(name):
    """What the table calls the measure."""
    found = measurement(name).output_measure
    return next(word for word, each in MEASURES.items() if each == found)


def doubled(loss, times=2.5):
    return tuple(times * part for part in loss) if isinstance(loss, tuple) else times * loss


def postprocessing(m):
    assert (m >> _new_pure_function(lambda release: 7, "i32"))(data(m)) == 7


def composition(m):
    composed = dp.c.make_composition([m, m])
    np.testing.assert_allclose(composed.map(1), doubled(m.map(1), 2), rtol=1e-12)
    for release in composed(data(m)):
        use(release)


def adaptive_composition(m):
    loss = m.map(1)
    asked = dp.c.make_adaptive_composition(*space(m), m.output_measure, d_in=1, d_mids=[loss, loss])(data(m))
    use(asked(m))
    use(asked(m))
    refused(asked, m)


def odometer(m):
    running = dp.c.make_fully_adaptive_composition(*space(m), m.output_measure)(data(m))
    use(running(m))
    use(running(m))
    np.testing.assert_allclose(running.privacy_loss(1), doubled(m.map(1), 2), rtol=1e-12)


def privacy_filter(m):
    running = dp.c.make_fully_adaptive_composition(*space(m), m.output_measure)
    guarded = dp.c.make_privacy_filter(running, d_in=1, d_out=doubled(m.map(1)))(data(m))
    use(guarded(m))
    use(guarded(m))
    refused(guarded, m)


def refused(asked, m):
    """The budget is spent."""
    try:
        asked(m)
    except OpenDPException:
        return
    raise AssertionError("a third release was given for the price of two")


def context(m):
    loss = doubled(m.map(1), 2 + 1e-9)
    losses = {
        "MaxDivergence": {"epsilon": loss},
        "ZeroConcentratedDivergence": {"rho": loss},
    }
    if isinstance(loss, tuple):
        losses = {
            "Approximate(MaxDivergence)": {"epsilon": loss[0], "delta": loss[1]},
            "Approximate(ZeroConcentratedDivergence)": {"rho": loss[0], "delta": loss[1]},
        }
    kept = dp.Context.compositor(
        data=data(m),
        domain=m.input_domain,
        privacy_unit=(m.input_metric, 1),
        privacy_loss=dp.loss_of(**losses[str(m.output_measure)]),
        split_evenly_over=2,
    )
    use(kept(m))
    use(kept(m))


def amplification(m):
    amplified = dp.c.make_population_amplification(m, 4000)
    less, plain = amplified.map(1), m.map(1)
    assert np.all(np.less(less, plain))
    use(amplified(data(m)))


def cast(*makers):
    def through(m):
        for make in makers:
            m = make(m)
        assert m.map(1) is not None
        use(m(data(m)))

    return through


def fix_delta(m):
    return dp.c.make_fix_delta(m, 1e-3)


def to_curve(m):
    """The profile of a measurement, whatever its measure, by OpenDP's casts."""
    if m.output_measure == PURE:
        m = dp.c.make_approximate(m)
    if m.output_measure == MEASURES["approximate"]:
        return dp.c.make_fixed_approxDP_to_approxDP(m)
    return m if m.output_measure == MEASURES["profile"] else dp.c.make_zCDP_to_approxDP(m)


COMBINATORS = {
    "`>>` a function": postprocessing,
    "`make_composition`": composition,
    "`make_adaptive_composition`": adaptive_composition,
    "`make_fully_adaptive_composition` (odometer)": odometer,
    "`make_privacy_filter`": privacy_filter,
    "`Context`": context,
    "`make_population_amplification`": amplification,
    "`make_approximate`": cast(dp.c.make_approximate),
    "`make_pureDP_to_zCDP`": cast(dp.c.make_pureDP_to_zCDP),
    "casts, then `make_fix_delta`": cast(to_curve, fix_delta),
}
COMPOSABLE = {"pure", "approximate", "zCDP", "approximate zCDP"}
TAKES = {
    "`>>` a function": set(MEASURES),
    "`make_composition`": COMPOSABLE,
    "`make_adaptive_composition`": COMPOSABLE,
    "`make_fully_adaptive_composition` (odometer)": COMPOSABLE,
    "`make_privacy_filter`": COMPOSABLE,
    "`Context`": COMPOSABLE,
    "`make_population_amplification`": {"pure", "approximate"},
    "`make_approximate`": {"pure", "zCDP"},
    "`make_pureDP_to_zCDP`": {"pure"},
    "casts, then `make_fix_delta`": set(MEASURES),
}
"""What OpenDP 0.16 can do with a measure, for its own measurements too."""
SIZED = {"`make_population_amplification`"}
"""What needs to know how many records there are, which no domain of frames says."""


def takes(name, combinator):
    """Whether OpenDP can take a measurement of this measure that starts there."""
    return measure(name) in TAKES[combinator] and (start(name) == "records" or combinator not in SIZED)


@functools.cache
def works(name, combinator):
    """Whether a cell holds. Whatever is no error of OpenDP's is ours, and is raised."""
    dp.enable_features("contrib", "honest-but-curious")
    try:
        COMBINATORS[combinator](measurement(name))
    except (OpenDPException, dp.UnknownTypeException, AttributeError, TypeError, KeyError):
        if takes(name, combinator):
            raise
        return False
    return True


def page():
    """The page with a new table."""
    names = list(COMBINATORS)
    rows = [
        f"| `{name.split(',')[0]}`{''.join(',' + rest for rest in name.split(',')[1:])} "
        + f"| {start(name)} | {measure(name)} | "
        + " | ".join("yes" if works(name, each) else "–" for each in names)
        + " |"
        for name in MEASUREMENTS
    ]
    head = ["| measurement | from | measure | " + " | ".join(names) + " |", "|---|---|---|" + "---|" * len(names)]
    before, rest = PAGE.read_text().split(BEGIN)
    return before + BEGIN + "\n".join([*head, *rows]) + END + rest.split(END)[1]


if __name__ == "__main__":
    dp.enable_features("contrib", "honest-but-curious")
    PAGE.write_text(page())
