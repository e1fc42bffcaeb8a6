import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import Key, OpenTree, Tree, TreeRelease, Unit, frame_domain, leaf_domain
from opendp_tree.mechanisms import make_people_estimator, people_domain, then_people_estimator, then_people_records

TREE = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu", "lux")], names=["country", "city"])
ROWS = [(user, "be", "ghent") for user in range(900)] + [(user, "be", "liege") for user in range(0, 900, 2)]
ROWS += [(user, "lu", "lux") for user in range(300) for _ in range(4)]
VISITS = pl.DataFrame(ROWS, schema=["user", "country", "city"], orient="row")
OPTIONS = {"rows": {"rows": 3}, "people": {"nodes": (2, 3)}, "shares": {}}
SPACE = people_domain(TREE), dp.symmetric_distance()
OPEN = people_domain(OpenTree.columns(["country", "city"])), dp.symmetric_distance()


def records(tree=None):
    key = Key.columns("country", "city", tree=tree, outside=None if tree is None else "drop")
    space = frame_domain(VISITS), dp.symmetric_id_distance("user")
    return space >> then_people_records(by=key, unit=Unit("user", count="shares"))


@pytest.mark.parametrize("count", OPTIONS)
def test_the_map_of_an_open_tree_is_an_epsilon_and_a_delta(count):
    made = records() >> then_people_estimator(count=count, **OPTIONS[count], epsilon=1.0, delta=1e-6)
    assert made.output_measure == dp.approximate(dp.max_divergence())
    assert 0.99 < made.map(1)[0] <= 1
    assert made.map(1)[1] == 1e-6
    assert made.map(0) == (0.0, 0.0)
    assert made.map(2) >= made.map(1)
    release = made(VISITS)
    assert isinstance(release, TreeRelease)
    assert release.statement.loss == dict(zip(("epsilon", "delta"), made.map(1), strict=True))
    assert release.statement.counted.startswith(count if count != "shares" else "shares of people")
    assert release.statement.mechanism == f"people_{release.statement.parameters['noise']}"


def test_neither_the_map_nor_the_statement_has_a_loss_below_0():
    options = {"count": "people", "nodes": 1, "noise": "gaussian"}
    made = records() >> then_people_estimator(**options, epsilon=0.001, delta=0.1)
    losses = [made.map(people)[0] for people in range(6)]
    assert losses[0] == 0
    assert losses == sorted(losses)
    assert 0 < made(VISITS).statement.loss["epsilon"] <= 0.001


@pytest.mark.parametrize("count", OPTIONS)
def test_a_public_tree_needs_no_delta(count):
    made = records(TREE) >> then_people_estimator(count=count, **OPTIONS[count], epsilon=1.0)
    assert made.output_measure == dp.max_divergence()
    assert 0.99 < made.map(1) <= 1
    assert made.map(3) == pytest.approx(3 * made.map(1))
    assert made(VISITS).estimates.size == TREE.node_count


@pytest.mark.parametrize("count", OPTIONS)
def test_rho_is_what_gaussian_noise_has(count):
    made = records(TREE) >> then_people_estimator(count=count, **OPTIONS[count], rho=0.5, noise="gaussian")
    assert made.output_measure == dp.zero_concentrated_divergence()
    assert 0.499 < made.map(1) <= 0.5
    assert made.map(2) == pytest.approx(4 * made.map(1))


@pytest.mark.parametrize("space", [SPACE, OPEN])
def test_a_budget_may_be_for_several_people(space):
    one, three = (make_people_estimator(*space, count="shares", epsilon=1.0, delta=1e-6, d_in=k) for k in (1, 3))
    pair = three.map(3) if space is OPEN else (three.map(3), 0.0)
    assert pair <= (1.0, 1e-6)
    assert three.map(1) < one.map(1)


def test_searches_find_an_epsilon():
    found = dp.binary_search_chain(
        lambda epsilon: make_people_estimator(*OPEN, count="shares", epsilon=epsilon, delta=1e-6),
        d_in=1,
        d_out=(0.5, 1e-6),
    )
    assert found.map(1)[0] == pytest.approx(0.5, abs=1e-6)


def test_releases_compose():
    space = frame_domain(VISITS), dp.symmetric_id_distance("user")
    queries = [records() >> then_people_estimator(count="shares", epsilon=0.5, delta=1e-7) for _ in range(2)]
    both = dp.c.make_composition(queries)
    assert both.map(1)[0] == pytest.approx(1.0)
    assert len(both(VISITS)) == 2
    assert (both.input_domain, both.input_metric) == space


def test_a_release_comes_back_from_its_text():
    made = records() >> then_people_estimator(count="people", nodes=2, epsilon=1.0, delta=1e-6)
    release = made(VISITS)
    again = TreeRelease.from_json(release.to_json())
    assert not again.adds_up
    assert again.estimates.tolist() == release.estimates.tolist()
    assert "do not add up" in again.describe()
    assert not again.to_frame()["other"].any()


def test_levels_that_are_not_shown_cost_nothing_and_have_no_row():
    made = records() >> then_people_estimator(count="people", nodes=3, epsilon=1.0, delta=1e-6, levels=[2])
    release = made(VISITS)
    assert set(release.to_frame()["level"]) <= {0, 2}
    whole = records() >> then_people_estimator(count="people", nodes=3, epsilon=1.0, delta=1e-6)
    noisy, noisier = (each.statement.parameters["noise_deviations"] for each in (release, whole(VISITS)))
    assert float(noisy.split(", ")[-1]) < float(noisier.split(", ")[-1])
    TreeRelease.from_json(release.to_json())


@pytest.mark.parametrize("count", OPTIONS)
def test_nobody_at_all_is_no_error(count):
    for tree in (None, TREE):
        made = records(tree) >> then_people_estimator(count=count, **OPTIONS[count], epsilon=1.0, delta=1e-6)
        release = made(VISITS.clear())
        assert np.isfinite(release.estimates).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"count": "visits"}, ValueError, r"count \('visits'\) must be one of"),
        ({"rows": None}, ValueError, r"unit: rows must be given for count='rows'. Hint"),
        ({"count": "people"}, ValueError, "unit: nodes must be given for count='people'. Hint"),
        ({"rho": 1.0}, ValueError, "exactly one of epsilon and rho"),
        ({"epsilon": None, "rho": 1.0}, ValueError, "epsilon and delta must be given where nodes must be found"),
        ({"delta": 0.0}, ValueError, "epsilon and delta must be given where nodes must be found"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"noise": "normal"}, ValueError, r"noise \('normal'\) must be one of"),
        ({"measuring": 1.0}, ValueError, r"measuring \(1.0\) must be above 0 and below 1"),
        ({"levels": "2"}, TypeError, r"levels \('2'\) must be a sequence of levels"),
        ({"levels": [9]}, ValueError, r"levels \(\[9\]\) must be some of 0 to 2"),
        ({"d_in": 0}, ValueError, "d_in"),
        ({"confidence": 1.0}, ValueError, "confidence"),
    ],
)
def test_wrong_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        make_people_estimator(*OPEN, **{"rows": 3, "epsilon": 1.0, "delta": 1e-6, **options})


def test_other_spaces_are_refused():
    with pytest.raises(ValueError, match=r"input_domain .* must be people_domain"):
        make_people_estimator(leaf_domain(TREE), dp.l1_distance(T="i64"), rows=1, epsilon=1.0)
    with pytest.raises(ValueError, match=r"input_metric .* must be symmetric_distance, of people"):
        make_people_estimator(SPACE[0], dp.change_one_distance(), rows=1, epsilon=1.0)
    with pytest.raises(ValueError, match="levels must be left out for a public tree"):
        make_people_estimator(*SPACE, rows=1, epsilon=1.0, levels=[2])
    made = make_people_estimator(*SPACE, rows=1, epsilon=1.0)
    with pytest.raises(Exception, match="must be records of people"):
        made(np.zeros(3, dtype=np.int64))
