"""Rank errors that are predicted, against those that are measured; and what a line's methods ask for."""

import numpy as np
import polars as pl
import pytest

from opendp_tree import Key, OpenTree, TreeNoise, plan, release_tree
from opendp_tree.budget import Budget
from opendp_tree.mechanisms.chosen_quantiles import Choices
from opendp_tree.mechanisms.curve import MeasuredLine
from opendp_tree.planning import Curve, Quantiles, plan_line
from opendp_tree.planning.laws import expected_rank_error
from opendp_tree.planning.plan import planned_candidate

AT = np.arange(1, 10) / 10


def rank_errors(counts, bins):
    totals = np.concatenate(([0], np.cumsum(counts)))
    places = np.minimum(bins.astype(int), counts.size - 1)
    wanted = AT * totals[-1]
    return np.maximum(0, np.maximum(totals[places] - wanted, wanted - totals[places + 1])).mean()


@pytest.mark.parametrize(("bins", "people"), [(2**13, 20_000), (2**9, 2_000)])
@pytest.mark.parametrize("method", [Curve(segments=True), Curve(segments=False), Quantiles(AT)], ids=lambda m: m.name)
def test_predicted_rank_errors_are_near_those_of_even_people(bins, people, method):
    rng = np.random.default_rng(bins)
    found = []
    finding = method.finding if method == Curve(segments=True) else 0.0
    line = MeasuredLine.of(bins, 1.0, finding=finding, branching=16, confidence=0.9)
    choices = Choices.of(1.0, AT, confidence=0.9)
    for _ in range(8):
        counts = np.bincount(rng.integers(0, bins, people), minlength=bins)
        if isinstance(method, Quantiles):
            found.append(rank_errors(counts, choices.bins(counts)))
        else:
            found.append(rank_errors(counts, line.curve(np.arange(bins + 1.0), counts).quantiles(AT).estimate))
    budget = Budget.of(epsilon=1.0, delta=0.0, rho=None, d_in=1)
    predicted = expected_rank_error(method, bins, budget, people=people)
    assert 0.5 < np.mean(found) / predicted < 2


def test_one_quantile_is_chosen_and_many_are_read_off_a_curve():
    assert plan_line(2**16, epsilon=1.0).best.name == "chosen_quantiles"
    many = plan_line(2**16, epsilon=1.0, people=10_000, quantiles=np.linspace(0.01, 0.99, 40))
    assert many.best.name == "segment_curve"
    assert many.to_frame()["error"].is_sorted()


def test_errors_grow_with_distance_and_shrink_with_the_budget():
    base = plan_line(4096, epsilon=1.0)
    for worse in (plan_line(4096, epsilon=0.1), plan_line(4096, epsilon=1.0, d_in=5), plan_line(4096, rho=0.005)):
        assert all(worse.candidate(each.name).error > each.error for each in base.candidates)


@pytest.mark.parametrize(("bins", "name"), [(100, "bin_curve"), (1024, "bin_curve"), (1025, "segment_curve")])
def test_few_bins_are_all_measured_and_many_are_not(bins, name):
    frame = pl.DataFrame({"age": np.random.default_rng(0).uniform(0, 100, 2000)})
    release = release_tree(frame, by=Key.number("age", low=0, high=100, bins=bins), epsilon=1.0)
    assert release.statement.mechanism == name
    assert release.statement.loss["epsilon"] <= 1.0


def test_other_methods_count_ranges_as_they_count_all_trees():
    frame = pl.DataFrame({"age": np.random.default_rng(0).uniform(0, 100, 2000)})
    release = release_tree(frame, by=Key.number("age", low=0, high=100, bins=64), epsilon=1.0, method=TreeNoise())
    assert release.statement.mechanism == "tree_laplace"
    with pytest.raises(ValueError, match=r"quantiles requires a release over the bins of a line\. Hint: by=Key"):
        release.quantiles([0.5])


def test_lines_are_asked_for_where_there_are_none():
    budget = Budget.of(epsilon=1.0, delta=1e-6, rho=None, d_in=1)
    for method in (Curve(), Quantiles()):
        with pytest.raises(ValueError, match="have no order"):
            planned_candidate(OpenTree.columns(2), budget, alpha=0.1, method=method)


def test_plans_of_trees_do_not_list_them():
    names = {candidate.name for candidate in plan(3, epsilon=1.0, nodes="public").candidates}
    assert not names & {"curve", "segment_curve", "bin_curve", "chosen_quantiles"}


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Curve(segments="yes"), TypeError, "segments"),
        (lambda: Curve(finding=0.0), ValueError, "finding"),
        (lambda: Curve(grouping=0.9999), ValueError, "grouping"),
        (lambda: Curve(groups=1), ValueError, "together"),
        (lambda: Curve(public_groups="a"), TypeError, "public_groups"),
        (lambda: Quantiles([]), ValueError, "at least one"),
        (lambda: Quantiles(["a"]), TypeError, "numbers"),
        (lambda: plan_line(0, epsilon=1.0), ValueError, "bins"),
        (lambda: plan_line(10, epsilon=1.0, people=0), ValueError, "people"),
    ],
)
def test_options_that_cannot_be_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_budget_that_noise_cannot_be_drawn_for_is_refused():
    budget = Budget.of(epsilon=1e-9, delta=0.0, rho=None, d_in=10**6)
    with pytest.raises(ValueError, match="budget"):
        planned_candidate(Key.number("age", low=0, high=9, bins=9).tree, budget, alpha=0.1, method="curve")
