from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, Ledger, Unit, frame_context, frame_domain, register, release_tree
from opendp_tree._opendp import make_measurement
from opendp_tree.ledger import BudgetError, LedgerError
from tests.context.shared import PAIR, PERSON, PUBLIC, ROW, VISITS

KEY = Key.columns("country", tree=PUBLIC)


def context_of(loss, data=VISITS, unit=ROW, **options):
    return frame_context(data, privacy_unit=unit, privacy_loss=loss, **options)


def test_frames_by_reference_are_not_copied():
    frame, seen = VISITS.lazy(), []
    space = frame_domain(VISITS), dp.symmetric_distance()
    spy = make_measurement(*space, dp.approximate(dp.max_divergence()), seen.append, lambda d_in: (0.5, 1e-7))
    context_of(PAIR, frame, split_evenly_over=1).context(spy)
    assert seen[0] is frame


def test_a_frame_context_prints_what_is_spent_and_left():
    context = context_of(PAIR, split_evenly_over=2)
    context.query().tree_counts(by="country").release()
    assert [line.split()[-1] for line in repr(context).splitlines()[2:]] == ["state", "spent", "left"]
    assert "epsilon 0.5" in repr(context)
    assert "epsilon 0.5" in context._repr_html_()
    open_ended = context_of(PAIR)
    assert "spent" in repr(open_ended)
    assert "left" in open_ended._repr_html_()
    odometer = context_of((dp.max_divergence(), float("inf")))
    odometer.query(epsilon=0.5).tree_counts(by=KEY).release()
    assert "spent" in repr(odometer)
    assert "left" not in repr(odometer)


def test_each_query_is_committed_to_the_ledger_with_its_cost(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1, "delta": "1e-6"}, unit="one row")
    context = context_of(PAIR, split_by_weights=[1, 3], ledger=ledger)
    assert ledger.entries() == []
    first = context.query().tree_counts(by="country").release()
    assert ledger.entries()[0].statement["loss"] == first.statement.loss
    assert 0.2499 < ledger.entries()[0].cost["epsilon"] <= Fraction(1, 4)
    context.query().filter(pl.col("country") == "be").tree_counts(by="country").release()
    assert 0 <= ledger.left()["epsilon"] < 1e-9
    with pytest.raises(ValueError, match=r"budget is spent: all 2 of its queries were released\. Hint"):
        context.query()
    with pytest.raises(BudgetError, match=r"Hint: (ask for at most|the ledger is spent)"):
        context_of(PAIR, ledger=ledger.path)
    assert len(ledger.entries()) == 2


def test_a_filter_counts_what_each_query_loses_and_refuses_more_without_harm(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1, "delta": "1e-6"}, unit="one value of 'user'")
    context = context_of(PAIR, unit=PERSON, ledger=str(ledger.path))

    def ask(epsilon, delta=1e-7):
        query = context.query(epsilon=epsilon, delta=delta).tree_counts(by="country", unit=Unit("user", rows=1))
        return query.release()

    ask(0.5, 5e-7)
    before = ledger.entries()
    lost = dict(zip(("epsilon", "delta"), context.current_privacy_loss(), strict=True))
    assert all(lost[name] <= cost <= lost[name] * (1 + 1e-12) for name, cost in before[0].cost.items())
    assert before[0].cost["epsilon"] == Fraction(1, 2)
    words = r"would cost epsilon .*, but epsilon .* are left for it. Hint: ask for at most"
    with pytest.raises(ValueError, match=words):
        ask(0.6)
    assert ledger.entries() == before
    ask(0.4)  # the filter still answers
    assert len(ledger.entries()) == 2


def test_what_a_ledger_is_not_for_is_refused_before_a_context_is_made(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1, "delta": "1e-6"}, unit="one row")
    for unit, loss, words in (
        (PERSON, PAIR, "is for unit 'one row'"),
        (dp.unit_of(contributions=2), PAIR, "is for unit 'one row', not '2 rows'"),
        (ROW, dp.loss_of(rho=0.1), "counts epsilon and delta, not rho"),
        (ROW, dp.loss_of(rho=0.1, delta=1e-7), "counts epsilon and delta, not rho and delta. Hint: ask for epsilon"),
        (ROW, (dp.max_divergence(), float("inf")), "must be finite with a ledger"),
    ):
        with pytest.raises(ValueError, match=words):
            context_of(loss, unit=unit, ledger=ledger)


def test_a_ledger_of_rho_and_delta_counts_queries_of_unknown_names(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"rho": "0.5", "delta": "1e-6"}, unit="one row")
    context = context_of(dp.loss_of(rho=0.5, delta=1e-6), split_evenly_over=2, ledger=ledger)
    for _ in range(2):
        context.query().tree_counts(by="country").release()
    assert all(0 <= left < 1e-9 for left in ledger.left().values())


@pytest.mark.parametrize("parts", [3, 7, 10])
def test_a_budget_fits_a_ledger_of_the_same_total_to_the_last_query(tmp_path, parts):
    """Of 0.7, which no float is; and ten times 0.1, where each query says what it costs."""
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": "0.7"})
    context = context_of(dp.loss_of(epsilon=0.7), split_evenly_over=parts, ledger=ledger)
    for _ in range(parts):
        context.query().tree_counts(by=KEY).release()
    assert 0 <= ledger.left()["epsilon"] < 1e-12
    other = Ledger.open(tmp_path / "other", total={"epsilon": "1"})
    context = context_of(dp.loss_of(epsilon=1.0), ledger=other)
    for _ in range(10):
        context.query(epsilon=0.1).tree_counts(by=KEY).release()
    assert other.left()["epsilon"] == 0


@pytest.mark.parametrize(
    ("total", "weights"), [(0.3, [9, 7]), (0.7, [3, 5, 1]), (2.0, [1, 3, 7]), (0.45, [8, 3, 9, 2])]
)
def test_the_last_query_of_a_weighted_split_is_paid(tmp_path, total, weights):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": repr(total)})
    context = context_of(dp.loss_of(epsilon=total), split_by_weights=weights, ledger=ledger)
    lost = Fraction(0)
    for _ in weights:
        lost += Fraction(context.query().tree_counts(by=KEY).release().statement.loss["epsilon"])
        assert lost <= ledger.total["epsilon"] - ledger.left()["epsilon"] <= Fraction(repr(total))


def test_a_query_without_a_statement_counts_for_the_unit_of_its_context(tmp_path):
    register()
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1})
    context = context_of(dp.loss_of(epsilon=0.5), unit=PERSON, split_evenly_over=1, ledger=ledger)
    context.query().leaf_counts(by=KEY, unit=Unit("user", rows=1)).tree_laplace(scale=50.0).release()
    assert ledger.entries()[0].statement["unit"] == "one value of 'user'"
    with pytest.raises(LedgerError, match="is for unit \"one value of 'user'\", not 'one row'"):
        release_tree(VISITS, by=KEY, epsilon=0.1, ledger=ledger)


@pytest.mark.parametrize("metric", [dp.change_one_distance(), dp.hamming_distance()])
def test_a_context_of_changed_rows_protects_two_and_says_so_before_it_spends(tmp_path, metric):
    loss, options = dp.loss_of(epsilon=0.5), {"unit": (metric, 1), "split_evenly_over": 1}
    rows = Ledger.open(tmp_path / "rows", total={"epsilon": 1}, unit="one row")
    with pytest.raises(LedgerError, match="is for unit 'one row', not '2 rows'"):
        context_of(loss, ledger=rows, **options)
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1})
    release = context_of(loss, ledger=ledger, **options).query().tree_counts(by=KEY).release()
    assert release.statement.unit == "2 rows"
    assert ledger.left()["epsilon"] == Fraction(1, 2)


def test_numbers_of_numpy_are_shares(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger", total={"epsilon": 1})
    context = context_of((dp.max_divergence(), np.float64(1.0)), ledger=ledger)
    for epsilon in (np.float64(0.1), np.float32(0.25)):
        context.query(epsilon=epsilon).tree_counts(by=KEY).release()
    assert ledger.left()["epsilon"] == Fraction(65, 100)


@pytest.mark.parametrize("split", [{"split_evenly_over": 7}, {"split_by_weights": [0.7, 3.0, 11.0]}])
def test_every_pair_of_amounts_can_be_split(split):
    """OpenDP's search fails where rounding leaves one sum below its amount and the other above."""
    for number in range(12):
        total = 0.2 + number / 7, 10 ** (-7 - number / 11)
        shares = context_of(dp.loss_of(epsilon=total[0], delta=total[1]), **split).d_mids
        for amount, parts in zip(total, zip(*shares, strict=True), strict=True):
            assert amount * (1 - 1e-12) <= sum(map(Fraction, parts)) <= Fraction(amount)
