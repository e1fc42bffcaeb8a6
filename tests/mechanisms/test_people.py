"""The map, and estimates and intervals against what is counted, computed row by row."""

from collections import defaultdict

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from scipy.stats import binom, poisson

from opendp_tree import Key, OpenTree, Tree, TreeRelease, Unit, frame_domain, noise
from opendp_tree.mechanisms import make_people_estimator, make_people_records
from opendp_tree.mechanisms.people import least_shares, most_shares
from opendp_tree.rows import people
from opendp_tree.theorems.tails import laplace_multiplier
from opendp_tree.trees.nodes import KnownNodes
from tests.thoroughness import slow

NAMES = ["country", "city"]
PUBLIC = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu", "lux"), ("lu", "esch"), ("nl",)], names=NAMES)
PATHS = [("be", "ghent"), ("be", "liege"), ("lu", "lux"), ("lu", "esch"), ("nl", None)]
OPTIONS = {
    "rows": {"rows": 4},
    "rows by level": {"rows": (6, 4, 2)},
    "people": {"nodes": (2, 3)},
    "shares": {},
}
SURE = 1 - 1e-9


def made_up_rows(people=400, seed=5):
    generator = np.random.default_rng(seed)
    rows = []
    for user in range(people):
        size = int(generator.integers(1, 12))
        rows += [(user, *PATHS[place]) for place in generator.choice(5, size, p=[0.4, 0.3, 0.15, 0.1, 0.05])]
    return rows


ROWS = made_up_rows()
FRAME = pl.DataFrame(ROWS, schema=["user", *NAMES], orient="row")
TREES = {"open": None, "public": PUBLIC, "known": None, "closed": None}
OPEN = OpenTree.columns(NAMES)
ALL = [(), ("be",), ("lu",), ("nl",), *PATHS]
KNOWN = {
    "open": KnownNodes.of(OPEN, ()),
    "known": KnownNodes.of(OPEN, [("be", "liege"), ("lu", "mersch"), ("fr",)], closed=[("lu",)]),
    "closed": KnownNodes.of(OPEN, [*PATHS, ("fr", "lille")], closed=[*ALL, ("fr",), ("fr", "lille")]),
}


def records(tree, memory=None):
    space = frame_domain(FRAME), dp.symmetric_id_distance("user")
    unit = Unit("user", count="shares")
    return make_people_records(*space, by=Key.columns(*NAMES, tree=tree), unit=unit, memory=memory)


def measurement(name, kind, **options):
    made = records(TREES[kind])
    count = name.split(" ")[0]
    chosen = {"epsilon": 1.0, "delta": 1e-6, "known": KNOWN.get(kind), **OPTIONS[name], **options}
    return make_people_estimator(made.output_domain, made.output_metric, count=count, **chosen), made(FRAME)


def nodes_above(path, kind):
    """The place and all nodes above it; in the public tree a place without a city is a leaf of the first level."""
    found = tuple(path) if kind != "public" else tuple(label for label in path if label is not None)
    return [found[:length] for length in range(len(found) + 1)]


def truth(name, kind, *, squared=False):
    """What is counted at each node, shown or not: {path: weight}, one row after the other."""
    by_user, found = defaultdict(list), defaultdict(float)
    for user, *path in ROWS:
        by_user[user].append(path)
    for paths in by_user.values():
        if name == "people":
            held = defaultdict(set)
            for path in paths:
                for node in nodes_above(path, kind):
                    held[len(node)].add(node)
            for level, nodes in held.items():
                most = (1, *OPTIONS[name]["nodes"])[level]
                share = min(1.0, most / len(nodes))
                for node in nodes:
                    found[node] += share**0.5 if squared else share
            continue
        for path in paths:
            for node in nodes_above(path, kind):
                most = {"rows": 4, "rows by level": (6, 4, 2)[len(node)], "shares": 1}[name]
                found[node] += most / len(paths) if name == "shares" else min(1.0, most / len(paths))
    return found


def paths_of(release):
    frame = release.to_frame(other=False)
    return [row[1 : 1 + row[0]] for row in frame.select("level", *NAMES).rows()], frame


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("name", OPTIONS)
def test_without_noise_to_speak_of_estimates_are_what_is_counted(name, kind):
    """At an epsilon of 1000; 20 standard deviations of the noise, and a hundredth for what is rounded to units."""
    for kind_of_noise in ("laplace", "gaussian"):
        if name == "shares" and kind_of_noise == "laplace" and kind in ("open", "known"):
            continue  # where people are put is chance, whatever the budget
        release_of, data = measurement(name, kind, epsilon=1e3, noise=kind_of_noise)
        release = release_of(data)
        paths, frame = paths_of(release)
        expected = truth(name, kind, squared=kind_of_noise == "gaussian")
        assert () in paths
        far = 0.01 + 20 * max(map(float, release.statement.parameters["noise_deviations"].split(",")))
        assert far < 6
        for path, estimate in zip(paths, frame["estimate"].to_list(), strict=True):
            assert estimate == pytest.approx(expected[path], abs=far), (path, kind_of_noise)


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("name", OPTIONS)
def test_intervals_that_are_sure_hold_what_is_counted(name, kind):
    """Chance of a false alarm below 1e-7: a hundred intervals that miss with 1e-9 each."""
    release_of, data = measurement(name, kind, confidence=SURE)
    for _ in range(3):
        release = release_of(data)
        paths, frame = paths_of(release)
        expected = truth(name, kind, squared=release.statement.parameters["noise"] == "gaussian")
        for path, lower, upper in zip(paths, frame["lower"], frame["upper"], strict=True):
            assert lower - 1e-2 <= expected[path] <= upper + 1e-2, path


@pytest.mark.parametrize("kind", ["open", "known", *slow(["public", "closed"])])
@pytest.mark.parametrize("name", ["rows", "people", *slow(["rows by level", "shares"])])
def test_intervals_hold_as_often_as_they_say(name, kind):
    """One fixed node of each level in 150 runs; a true claim fails in fewer than one of 10**7 runs."""
    release_of, data = measurement(name, kind, epsilon=2.0)
    runs, missed = 150, defaultdict(int)
    for _ in range(runs):
        release = release_of(data)
        paths, frame = paths_of(release)
        expected = truth(name, kind, squared=release.statement.parameters["noise"] == "gaussian")
        for path, lower, upper in zip(paths, frame["lower"], frame["upper"], strict=True):
            missed[path] += not lower - 1e-2 <= expected[path] <= upper + 1e-2
    for path in ((), ("be",), ("be", "ghent")):
        assert missed[path] <= binom.isf(3e-8, runs, 0.05), path


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_release_is_the_same_in_any_number_of_parts(name, kind, monkeypatch):
    """With noise that is always 0, nodes that are found if they have people enough, and everybody put at the middle."""
    monkeypatch.setattr(people, "uniform_below", lambda limits: limits // 2)

    def none(scale, size):
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(noise, "laplace", none)
    monkeypatch.setattr(noise, "geometric", none)
    monkeypatch.setattr(noise, "skewed_geometric", lambda right, left, size: none(right, size))
    monkeypatch.setattr(noise, "truncated_geometric", lambda scale, radius, size: none(scale, size))
    monkeypatch.setattr(noise, "first_reach", lambda scale, radius, missing, limit: np.full(missing.size, limit + 1))
    monkeypatch.setattr(noise, "truncated_geometric_from", lambda scale, radius, least: np.maximum(least, 0))
    found = []
    for memory in (None, 2_000):
        made = records(TREES[kind], memory)
        options = {"epsilon": 1.0, "delta": 1e-6, "noise": "laplace", "known": KNOWN.get(kind), **OPTIONS[name]}
        data = made(FRAME)
        assert data.parts == 1 if memory is None else data.parts > 50
        measure = make_people_estimator(made.output_domain, made.output_metric, count=name.split(" ")[0], **options)
        found.append(measure(data).to_frame(other=False))
    assert found[0].height > 3
    assert found[0].equals(found[1])


@pytest.mark.parametrize("kind", TREES)
def test_what_adds_up_adds_up_and_joins_all_levels(kind):
    """The root is known from its own count and from the sums of the others, which its interval shows."""
    release_of, data = measurement("rows", kind)
    release = release_of(data)
    paths, frame = paths_of(release)
    own = float(release.statement.parameters["noise_deviations"].split(",")[0])
    half = (frame["upper"][0] - frame["lower"][0]) / 2
    assert half < 0.95 * own * laplace_multiplier(0.95, least_variance=1e9)
    assert release.adds_up
    if kind == "public":
        children = [place for place, path in enumerate(paths) if len(path) == 1]
        assert frame["estimate"][0] == pytest.approx(sum(frame["estimate"][place] for place in children))


def test_people_have_no_rows_for_what_is_left():
    release_of, data = measurement("people", "open")
    frame = release_of(data).to_frame()
    assert not frame["other"].any()
    assert "(other)" not in frame["country"].to_list()
    shares_of, data = measurement("shares", "open")
    assert "other" in shares_of(data).to_frame().columns


def test_no_public_node_weighs_less_than_nothing_where_levels_stand_alone():
    release_of, data = measurement("people", "public", epsilon=0.01, delta=0.0)
    release = release_of(data)
    assert (release.estimates >= 0).all()
    assert (release.lower >= 0).all()


@pytest.mark.parametrize("chance", [0.05, 0.001])
def test_shares_are_as_far_from_those_put_there_as_the_bound_says(chance):
    """Poisson's law is the widest of all sums of independent coins of one mean."""
    for placed in (0, 1, 5, 40, 300):
        most = float(most_shares(np.array([placed]), chance)[0])
        assert poisson.cdf(placed, most) <= chance
        least = float(least_shares(np.array([placed]), chance)[0])
        assert poisson.sf(placed - 1, least) <= chance or placed == 0
        assert least <= placed <= most


@pytest.mark.parametrize("kind_of_noise", ["laplace", "gaussian"])
def test_people_weigh_the_same_whatever_is_known(kind_of_noise, monkeypatch):
    """Otherwise counts of an unchanged table would fall as more names become known. Without noise, at a known name."""
    for name in ("laplace", "gaussian"):
        monkeypatch.setattr(noise, name, lambda scale, size: np.zeros(size, dtype=np.int64))
    counts = []
    for more in ([], [("be", "liege")], [("be", "liege"), ("lu", "lux"), ("lu", "esch"), ("nl", None)]):
        known = KnownNodes.of(OPEN, [("be", "ghent"), *more])
        release_of, data = measurement("people", "open", nodes=(1, 1), known=known, noise=kind_of_noise)
        paths, frame = paths_of(release_of(data))
        assert {("be", "ghent"), *more} <= set(paths)
        counts.append(frame["estimate"][paths.index(("be", "ghent"))])
    assert counts[0] == counts[1] == counts[2] > 0


def test_who_has_no_unknown_row_is_put_nowhere():
    """Where all leaves with rows are known, nothing is found, however many people there are."""
    known = KnownNodes.of(OPEN, PATHS)
    release_of, data = measurement("rows", "open", known=known)
    release = release_of(data)
    assert sorted(paths_of(release)[0], key=str) == sorted(ALL, key=str)
    assert release.statement.parameters["known"] == len(ALL)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_map_of_an_open_tree_is_an_epsilon_and_a_delta(name):
    made, data = measurement(name, "open")
    assert made.output_measure == dp.approximate(dp.max_divergence())
    assert 0.99 < made.map(1)[0] <= 1
    assert made.map(1)[1] == 1e-6
    assert made.map(0) == (0.0, 0.0)
    assert made.map(2) >= made.map(1)
    statement = made(data).statement
    assert statement.loss == dict(zip(("epsilon", "delta"), made.map(1), strict=True))
    assert statement.counted.startswith(name.split(" ")[0] if name != "shares" else "shares of people")
    assert statement.mechanism == f"people_{statement.parameters['noise']}"


@pytest.mark.parametrize("name", OPTIONS)
def test_a_public_tree_needs_no_delta_and_gaussian_noise_has_a_rho(name):
    made, data = measurement(name, "public", delta=0.0)
    assert made.output_measure == dp.max_divergence()
    assert 0.99 < made.map(1) <= 1
    assert made.map(3) == pytest.approx(3 * made.map(1))
    assert made(data).estimates.size == PUBLIC.node_count + 1  # with that of rows outside the tree
    made, _ = measurement(name, "public", epsilon=None, delta=0.0, rho=0.5, noise="gaussian")
    assert made.output_measure == dp.zero_concentrated_divergence()
    assert 0.499 < made.map(1) <= 0.5
    assert made.map(2) == pytest.approx(4 * made.map(1))


def test_levels_that_are_not_shown_cost_nothing_and_have_no_row():
    (some, data), (whole, _) = (
        measurement("people", "open", nodes=3, levels=[2]),
        measurement("people", "open", nodes=3),
    )
    release = some(data)
    assert set(release.to_frame()["level"]) <= {0, 2}
    noisy, noisier = (each.statement.parameters["noise_deviations"] for each in (release, whole(data)))
    assert float(noisy.split(", ")[-1]) < float(noisier.split(", ")[-1])
    again = TreeRelease.from_json(release.to_json())
    assert not again.adds_up
    assert again.estimates.tolist() == release.estimates.tolist()
    assert "do not add up" in again.describe()


def test_other_data_is_refused():
    with pytest.raises(Exception, match="must be records of people"):
        measurement("rows", "public")[0](np.zeros(3, dtype=np.int64))
