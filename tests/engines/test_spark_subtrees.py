"""The partition inside executors: what comes back is the whole walk's, drawn once, and nothing of it is left behind."""

import os
import re
import uuid
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from opendp.mod import OpenDPException
from scipy import stats

from opendp_tree import Key, Unit, leaf_domain, make_partition_estimator, release_tree
from opendp_tree.engines import spark_subtrees
from opendp_tree.engines.spark import SparkTable
from opendp_tree.mechanisms.partition.parameters import GapParameters
from opendp_tree.mechanisms.partition.release import people_at
from opendp_tree.mechanisms.partition.subtrees import NO_ROOT, find_in_parts
from opendp_tree.mechanisms.partition.walk import find_cells
from opendp_tree.noise import uniform_words
from opendp_tree.rows.groups import kinds_of
from opendp_tree.rows.row_counts import RowCounter
from opendp_tree.theorems.tree_partition import GapShape
from opendp_tree.trees.distant_counts import DistantCounts, Excerpt
from opendp_tree.trees.shown_nodes import ShownCells
from tests.engines.spark_session import LOG, spark_session
from tests.engines.test_spark import SALT, as_spark
from tests.goodness_of_fit import FALSE_ALARM
from tests.mechanisms.partition.test_walk import SCALE, TOKEN_SCALE, Q, T, exact_open
from tests.privacy.partition_law import Mechanism

pytestmark = [
    pytest.mark.engines,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]


@pytest.fixture(scope="module")
def session():
    return spark_session()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    many = 4000
    region, city = rng.zipf(1.6, many).clip(0, 12), rng.zipf(1.4, many).clip(0, 60)
    return pl.DataFrame(
        {
            "user": rng.integers(0, 900, many),
            "region": [None if number == 3 else f"r{number}" for number in region],
            "city": [None if number == 5 else int(number) for number in city],
            "path": [f"/{a}/{b}/" if b % 4 else f"{a}" for a, b in zip(region, city, strict=True)],
            "number": (region * 1000 + city).astype(np.int64),
            "address": [f"10.{a}.{b}.{a}" for a, b in zip(region, city, strict=True)],
            "wide": [f"2001:db8::{a:x}:{b:x}" for a, b in zip(region, city, strict=True)],
            "page": [None if b == 5 else f"https://www.p{a}.com/{b}?q" for a, b in zip(region, city, strict=True)],
            "mixed": [f"10.{a}.{b}.1" if a % 2 else f"{a}::{b}" for a, b in zip(region, city, strict=True)],
            "day": pl.Series(region * 30 + city).cast(pl.Int32).cast(pl.Date),
        }
    )


@pytest.fixture(scope="module")
def table(session, rows):
    return as_spark(session, rows)


def sharp(depth, threshold=30):
    """A partition without noise: what it finds is known."""
    return GapParameters(0.0, 0.0, GapShape.uniform(depth, threshold=threshold, radius=9, margin=3))


def described(counts, cells):
    """Shown nodes with their levels, people and cells, whatever the places are called."""
    listed = ShownCells.of(counts, cells.places, cells.levels)
    nodes = listed.nodes
    places = cells.places[listed.order][listed.firsts]
    high, low = people_at(counts.occupied, nodes.levels, places, np.ones(nodes.size, dtype=np.bool_))
    gaps = np.where(listed.is_cell, cells.gaps[listed.order][listed.firsts], 0)
    labels = [None] if nodes.words is not None else [each.to_list() for each in nodes.labels]
    words = [] if nodes.words is None else np.stack((nodes.words.high, nodes.words.low)).tolist()
    shape = nodes.levels.tolist(), nodes.parents.tolist(), labels, words
    return (*shape, high.tolist(), low.tolist(), listed.is_cell.tolist(), gaps.tolist())


KEYS = [
    (Key.columns("region", "city"), "region"),
    (Key.columns("region", "city"), "city"),
    (Key.columns("region", "city", nulls="drop"), 1),
    (Key.path("path", depth=4), 1),
    (Key.bits("number", width=16, outside="drop"), 5),
    (Key.bits("number", width=63, stride=3, outside="drop"), 16),
    (Key.ip("address", outside="drop"), 2),
    (Key.ip("wide", version=6, stride=4, outside="drop"), 30),
    (Key.calendar("day"), "month"),
    (Key.calendar("day", levels=("year", "quarter", "month", "day")), "quarter"),
    (Key.calendar("day", levels=("year", "week")), "year"),
    (Key.url("page"), 1),
    (Key.url("page", nulls="drop"), 2),
    (Key.ip("mixed", version="both", stride=8), 3),
]


@pytest.mark.parametrize(("key", "subtrees"), KEYS, ids=lambda each: getattr(each, "kind", each))
def test_cells_people_and_labels_are_those_of_the_whole_walk(rows, table, key, subtrees):
    kinds = kinds_of(rows.schema)
    counter = RowCounter.of(key, kinds, {name: kinds[name] for name in key.columns_used}, None)
    counts, parameters = counter.count(rows), sharp(key.open_tree().depth)
    whole = described(counts, find_cells(counts.occupied, parameters))
    distant = counter.count(SparkTable(table, subtrees))
    assert isinstance(distant, DistantCounts)
    here, cells = find_in_parts(distant, parameters)
    assert described(here, cells) == whole
    assert len(whole[0]) > 3
    assert here.occupied.counts.sum() == counts.occupied.counts.sum()
    assert here.occupied.counts.size < counts.occupied.counts.size or subtrees == "city"


def test_parts_that_spark_joins_are_parts(session, rows, table):
    session.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "true")
    try:
        test_cells_people_and_labels_are_those_of_the_whole_walk(rows, table, *KEYS[0])
    finally:
        session.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")


@pytest.mark.parametrize(("key", "subtrees"), [KEYS[0], KEYS[3], KEYS[4]], ids=lambda each: getattr(each, "kind", each))
def test_people_are_bounded_before_they_are_spread(table, key, subtrees):
    """As in the driver, for keys that are leaves; and for others each person is bounded by the leaf."""
    unit = Unit("user", rows=2, leaves=2, rows_per_leaf=2)
    distant = SparkTable(table, subtrees).distant_counts(key, unit, SALT)
    found = find_in_parts(distant, sharp(key.open_tree().depth))[0].occupied.counts.sum()
    alone = SparkTable(table.where("user % 2 = 0"), subtrees).distant_counts(key, unit, SALT)
    others = SparkTable(table.where("user % 2 = 1"), subtrees).distant_counts(key, unit, SALT)
    parts = [find_in_parts(each, sharp(key.open_tree().depth))[0].occupied.counts.sum() for each in (alone, others)]
    assert found == sum(parts)
    assert found <= 2 * table.select("user").distinct().count()
    if key.kind == "columns":
        assert found == SparkTable(table).leaf_counts(key, unit, SALT)["people"].sum()


def test_a_release_is_made_and_says_what_it_cost(table):
    release = release_tree(SparkTable(table, "region"), by=["region", "city"], epsilon=2.0, delta=1e-6)
    assert release.statement.mechanism == "partition_estimator"
    assert release.statement.loss["epsilon"] <= 2.0
    assert abs(release.to_frame(other=False)["estimate"][0] - 4000) < 100
    unit = Unit("user", rows=1)
    people = release_tree(SparkTable(table, "region"), by=["region", "city"], epsilon=2.0, delta=1e-6, unit=unit)
    assert abs(people.to_frame(other=False)["estimate"][0] - 900) < 100


def test_samples_from_executors_follow_the_law(session):
    """1,500 equal subtrees are 1,500 runs: chi-square against the exact law; a false alarm in 1e9 runs."""
    paths, runs = {("x",): 3, ("y",): 2}, 1500
    levels = ((3, 2, 1),) * 2
    law = exact_open(paths, Mechanism(Q, T, levels))
    frame = pl.DataFrame(
        [(f"t{run}", label) for run in range(runs) for (label,), people in paths.items() for _ in range(people)],
        schema=["tree", "label"],
        orient="row",
    )
    shape = GapShape((0, 1, 2), (3, 3, 3), (2, 2, 2), (1, 1, 1))
    table = SparkTable(as_spark(session, frame), "tree")
    distant = table.distant_counts(Key.columns("tree", "label"), None, SALT)
    counts, cells = find_in_parts(distant, GapParameters(SCALE, TOKEN_SCALE, shape))
    columns = [column.gather(pl.Series(counts.keys.rows)).to_list() for column in counts.keys.columns]
    found = {f"t{run}": [] for run in range(runs)}
    for place, level, gap in zip(cells.places.tolist(), cells.levels.tolist(), cells.gaps.tolist(), strict=True):
        if level > 0:
            found[columns[0][place]].append(((columns[1][place],) if level == 2 else (), gap))
    seen = Counter(frozenset(each) for each in found.values())
    assert set(seen) <= set(law)
    common = [(seen[each], runs * float(mass)) for each, mass in law.items() if runs * mass >= 10]
    observed, expected = (np.array(part) for part in zip(*common, strict=True))
    rest = runs - observed.sum(), runs - expected.sum()
    if rest[1] > 0:
        observed, expected = np.append(observed, rest[0]), np.append(expected, rest[1])
    assert observed.size > 8
    assert stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), observed.size - 1) > FALSE_ALARM


# The failure model.


def recording(occupied, *, folder, kill):
    """A task that writes down what it drew, one file a run, and dies after the first run of a part, if it must."""
    from pyspark import TaskContext

    context = TaskContext.get()
    part, attempt = context.partitionId(), context.attemptNumber()
    drawn = uniform_words(2).view(np.int64)
    Path(folder, f"{part}-{attempt}-{uuid.uuid4()}").write_text(" ".join(map(str, drawn.tolist())))
    if kill and attempt == 0:
        os._exit(1)
    places = np.arange(occupied.levels.size)
    return Excerpt(places, np.tile(drawn, (places.size, 1)), places[:0], np.zeros((0, 2), dtype=np.int64))


def runs_of(folder):
    return {path.name: tuple(map(int, path.read_text().split())) for path in folder.iterdir()}


@pytest.fixture
def distant(table):
    return SparkTable(table, "region").distant_counts(Key.columns("region", "city"), None, SALT)


def test_a_killed_task_draws_again_and_one_draw_leaves_the_executor(distant, tmp_path):
    _, found = distant.gather(partial(recording, folder=str(tmp_path), kill=True))
    runs, came = runs_of(tmp_path), set(map(tuple, found.numbers.tolist()))
    lost = {drawn for name, drawn in runs.items() if name.split("-")[1] == "0"}
    assert len(lost) > 1
    assert came == set(runs.values()) - lost
    assert len(came) == len(lost)


def test_one_release_is_one_action(distant, tmp_path):
    """Every part runs once; and no part draws what another drew, though workers are forked from one process."""
    _, found = distant.gather(partial(recording, folder=str(tmp_path), kill=False))
    runs = runs_of(tmp_path)
    assert len(runs) > 1
    assert len({name.split("-")[0] for name in runs}) == len(runs) == len(set(runs.values()))
    assert set(map(tuple, found.numbers.tolist())) == set(runs.values())


def test_a_second_action_would_draw_anew(table, tmp_path, monkeypatch):
    """Why nobody is handed the frame: asked twice, it gives two draws, and their overlap tells."""
    frames = []
    made = spark_subtrees.drawing_frame
    monkeypatch.setattr(spark_subtrees, "drawing_frame", lambda *given: frames.append(made(*given)) or frames[-1])
    distant = SparkTable(table, "region").distant_counts(Key.columns("region", "city"), None, SALT)
    distant.gather(partial(recording, folder=str(tmp_path), kill=False))
    once = len(runs_of(tmp_path))
    (frame,) = frames
    frame.toArrow()
    assert len(set(runs_of(tmp_path).values())) == 2 * once


def test_what_is_handed_out_holds_no_frame(distant, table, tmp_path):
    counts, found = distant.gather(partial(recording, folder=str(tmp_path), kill=False))
    assert {type(part) for part in vars(found).values()} == {np.ndarray}
    release = release_tree(SparkTable(table, "region"), by=["region", "city"], epsilon=1.0, delta=1e-6)
    assert "pyspark" not in repr([type(part).__module__ for part in (*vars(release).values(), *vars(counts).values())])


def test_nothing_is_shuffled_or_cached_after_the_draw(session, distant, tmp_path, monkeypatch):
    plans = []
    made = spark_subtrees.drawing_frame

    def seen(*given):
        frame = made(*given)
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return frame

    monkeypatch.setattr(spark_subtrees, "drawing_frame", seen)
    distant.gather(partial(recording, folder=str(tmp_path), kill=False))
    (plan,) = plans
    before = plan[: plan.index("MapInArrow")]
    assert "Exchange" in plan
    assert not re.search("Exchange|InMemory|Checkpoint|Cache", before)
    assert session.sparkContext._jsc.sc().getPersistentRDDs().size() == 0


def failing(occupied):
    raise ValueError("hemlock-secret")


def test_a_task_that_fails_says_nothing_of_its_data(distant):
    with pytest.raises(RuntimeError, match="details are withheld") as raised:
        distant.gather(failing)
    assert raised.value.__context__ is None
    assert "hemlock" not in LOG.read_text(errors="replace")


def test_logs_hold_neither_labels_nor_residuals(session):
    frame = pl.DataFrame({"a": ["hemlock-a"] * 77_777, "b": ["hemlock-b"] * 77_777})
    table = SparkTable(as_spark(session, frame), "a")
    find_in_parts(table.distant_counts(Key.columns("a", "b"), None, SALT), sharp(3))
    log = LOG.read_text(errors="replace")
    assert "hemlock" not in log
    assert "77777" not in log


def test_speculation_is_refused_before_anything_is_drawn(session, table, tmp_path):
    spark = SparkTable(table, "region")
    session.sparkContext._conf.set("spark.speculation", "true")
    try:
        with pytest.raises(OpenDPException, match=r"spark\.speculation \(true\) must be false"):
            release_tree(spark, by=["region", "city"], epsilon=1.0, delta=1e-6)
    finally:
        session.sparkContext._conf.set("spark.speculation", "false")


def test_a_subtree_in_two_parts_is_noticed(distant):
    """Were Spark to split a subtree, each half would draw: the driver sees two roots at one node, and stops."""

    def doubled(task):
        counts, found = distant.gather(task)
        roots = np.flatnonzero(found.numbers[:, 1] != NO_ROOT)
        shared = np.flatnonzero(
            (counts.occupied.meets >= 1) & ~np.isin(np.arange(1, counts.occupied.levels.size), roots)
        )
        numbers = found.numbers.copy()
        numbers[shared + 1, 1] = 0
        return counts, replace(found, numbers=numbers)

    with pytest.raises(AssertionError, match="from one part"):
        find_in_parts(replace(distant, gather=doubled), sharp(3))


def test_other_mechanisms_refuse_counts_that_are_not_here(table):
    options = {"by": ["region", "city"], "epsilon": 1.0, "delta": 1e-6, "method": "pruned_laplace"}
    with pytest.raises(OpenDPException, match=r"only the partition's estimator"):
        release_tree(SparkTable(table, "region"), **options)


def test_levels_are_checked_before_a_row_is_read(table):
    for subtrees in ("nowhere", 3):
        with pytest.raises(OpenDPException, match="subtrees"):
            release_tree(SparkTable(table, subtrees), by=["region", "city"], epsilon=1.0, delta=1e-6)
    key = Key.columns("region", "city")
    shown = GapParameters(1.0, 1.0, GapShape((0, 1), (5, 5), (4, 4), (1, 1)))
    with pytest.raises(ValueError, match="must not be below all levels"):
        find_in_parts(SparkTable(table, "city").distant_counts(key, None, SALT), shown)


OUTSIDE = [Key.bits("number", width=8), Key.ip("address"), Key.ip("wide", version=6, stride=4)]
WHOLE = [Key.calendar("day", levels=("year", "weekday")), Key.nested(Key.columns("region"), Key.url("page"))]


@pytest.mark.parametrize("key", [*OUTSIDE, *WHOLE], ids=lambda each: each.kind)
def test_keys_that_subtrees_would_lose_rows_of_are_refused_before_a_row_is_read(table, key):
    """The plan would fail at its first row."""
    unread = SparkTable(table.withColumn("region", table["region"].cast("int").cast("string")), 1)
    hint = rf"Hint: Key\.{key.kind}\(.*outside='drop'" if key in OUTSIDE else "Hint: leave it out"
    with pytest.raises(OpenDPException, match=rf"subtrees must not be given for .* {hint}"):
        release_tree(unread, by=key, epsilon=1.0, delta=1e-6)


def test_an_empty_table_is_released(session, table):
    distant = SparkTable(table.where("false"), "region").distant_counts(Key.columns("region", "city"), None, SALT)
    import opendp.prelude as dp

    measurement = make_partition_estimator(leaf_domain(distant.tree), dp.l1_distance(T="i64"), epsilon=1.0, delta=1e-6)
    assert measurement(distant).to_frame(other=False).height <= 1
