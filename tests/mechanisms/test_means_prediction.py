import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Value, frame_domain
from opendp_tree.mechanisms import make_leaf_values, then_tree_means
from opendp_tree.mechanisms.means import MeansShares, choose_shares, predict_levels

dp.enable_features("contrib")


@pytest.mark.parametrize("depth", [2, 3, 4, 6, 12, 40])
def test_shares_are_all_of_epsilon_and_none_is_forgotten(depth):
    chosen = choose_shares(depth, 1.0, 1e-6)
    assert chosen.finding + chosen.pairs + chosen.cells == pytest.approx(1)
    assert min(chosen.finding, chosen.pairs, chosen.cells) >= 0.149


def test_errors_fall_with_epsilon_and_with_their_share():
    shares = MeansShares(0.4, 0.3, 0.3)
    little, much = (predict_levels((1, 20, 400), shares, epsilon=epsilon, delta=1e-6) for epsilon in (0.5, 2.0))
    for one, other in zip(little, much, strict=True):
        assert one.sum_sd == pytest.approx(4 * other.sum_sd)
        assert one.count_sd > other.count_sd
    more_cells = predict_levels((1, 20, 400), MeansShares(0.4, 0.2, 0.4), epsilon=0.5, delta=1e-6)
    assert more_cells[2].sum_sd < little[2].sum_sd
    assert more_cells[0].sum_sd > little[0].sum_sd


def test_rows_of_one_person_divide_epsilon():
    shares = MeansShares(0.4, 0.3, 0.3)
    one, five = (predict_levels((1, 20, 400), shares, epsilon=1.0, delta=1e-6, d_in=d_in) for d_in in (1, 5))
    assert five[2].sum_sd == pytest.approx(5 * one[2].sum_sd)


def test_too_small_a_budget_is_refused():
    with pytest.raises(ValueError, match="epsilon"):
        choose_shares(3, 1e-30, 1e-6)


def test_measured_errors_are_near_the_predicted_ones():
    """200 leaves and 10 nodes, 20 runs: the mean square of a level is within a third of its expectation."""
    rng = np.random.default_rng(4)
    size, value = 100_000, Value("x", bounds=(0, 2))
    frame = pl.DataFrame(
        {
            "a": rng.integers(0, 10, size).astype(str),
            "b": rng.integers(0, 20, size).astype(str),
            "x": rng.uniform(0, 2, size),
        }
    )
    made = make_leaf_values(frame_domain(frame), dp.symmetric_distance(), values=value, by=["a", "b"])
    leaves = made(frame)
    means = (made.output_domain, made.output_metric) >> then_tree_means(epsilon=1.0, delta=1e-6)
    truth = frame.group_by("a", "b").agg(true=(pl.col("x") - 1).sum(), rows=pl.len())
    off = []
    for _ in range(20):
        shown = means(leaves).to_frame(other=False).filter(pl.col("level") == 2).join(truth, on=["a", "b"])
        off.append((shown["sum"] - shown["estimate"] - shown["true"]).to_numpy())
    chosen = choose_shares(3, 1.0, 1e-6)
    predicted = predict_levels((1, 10, 200), chosen, epsilon=1.0, delta=1e-6)[2].sum_sd * 2
    assert np.sqrt(np.mean(np.concatenate(off) ** 2)) == pytest.approx(predicted, rel=0.25)
