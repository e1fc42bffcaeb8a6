"""The side-by-side benchmark says what it does, without running any peer."""

import ast
import math
import re
from pathlib import Path

import pytest

from benchmarks.peers.__main__ import MARK, PAGE, page
from benchmarks.peers.data import LEVELS, SIZES, generate
from benchmarks.peers.environments import NAMES, requirements
from benchmarks.peers.measure import Run, astray, kept, rmse
from benchmarks.peers.peers import PEERS, SCRIPTS

ROOT = Path(__file__).parents[2]


def test_the_data_is_the_same_every_time_and_skewed():
    one, two = generate(20_000), generate(20_000)
    assert one.rows.equals(two.rows)
    assert one.keys.shape == (math.prod(SIZES), len(LEVELS))
    states, counties, cities = one.truth()
    assert sum(states.values()) == sum(counties.values()) == sum(cities.values()) == 20_000
    assert len(states) == SIZES[0] < len(counties) < len(cities) < one.keys.height
    assert max(states.values()) > 10 * min(states.values())
    # In random order: the first rows are from many states.
    assert one.rows.head(200)["state"].n_unique() > 20


def test_every_script_is_listed_once_and_every_environment_is_used():
    listed = [peer.script for peer in PEERS]
    assert sorted(listed) == sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem != "job")
    assert {peer.environment for peer in PEERS} - {None} == set(NAMES)
    for name in NAMES:  # pinned
        assert all("==" in line for line in requirements(name).read_text().split())


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.script)
def test_scripts_hold_nothing_but_user_code_and_the_clock(peer):
    text = peer.path.read_text()
    assert peer.user_lines > 5
    if peer.environment is not None:  # settings are from the peer's documentation
        assert re.search(r"https://\S+", ast.get_docstring(ast.parse(text)))
    inside, outside = False, []
    for line in text.split('"""', 2)[2].splitlines():
        inside = line == "# user code" or (inside and line != "# end")
        if not inside and line not in ("", "# end"):
            outside.append(line)
    assert outside[:2] == ["import job", "job.ready()"]
    assert len(outside) == 3
    assert outside[2].startswith("job.save(")
    assert ("job.KEYS" in text) == peer.public
    assert "seed" not in text


def test_errors_are_over_all_places_that_have_rows():
    truth = {("a",): 10, ("b",): 4}
    one, two = {("a",): 13.0, ("c",): 99.0}, {("a",): 10.0, ("b",): 4.0}
    half = math.sqrt((9 + 16) / 2) / 2  # the mean of two, and the standard error of that mean
    assert rmse([one, two], truth) == pytest.approx((half, half))
    assert math.isnan(rmse([one], truth)[1])
    assert kept([{("a",): 13.0, ("c",): 99.0}, {}], truth) == 0.5


def test_counts_that_do_not_add_up_are_told():
    above, below = {("a",): 5.0, ("b",): 2.0}, {("a", "x"): 3.0, ("a", "y"): 2.0, ("b", "x"): 2.0}
    assert astray([above, below], public=True) == astray([above, below], public=False) == 0
    assert astray([{**above, ("c",): 1.0}, below], public=True) == 1 / 3  # nothing below it
    assert astray([{**above, ("(outside)",): 1.0}, below], public=True) == 0
    fewer = {("a", "x"): 3.0, ("b", "x"): 2.0}
    assert astray([above, fewer], public=True) == 0.5
    assert astray([above, fewer], public=False) == 0
    more = {**below, ("b", "y"): 0.5}
    assert astray([above, more], public=False) == 0.5
    assert astray([{("a",): 5.0}, below], public=False) == 0.5  # a child without its parent
    rest = {**fewer, ("a", "(other)"): above["a",] - 3.0}
    assert astray([above, rest], public=False) == 0
    assert astray([above, {**rest, ("a", "(other)"): 0.0}], public=False) == 0.5  # rows "(other)" must add up


def test_the_page_is_what_the_driver_writes():
    text = PAGE.read_text()
    assert MARK in text
    truth = [{("a",): 10}, {("a", "b"): 10}, {("a", "b", "c"): 10}]
    release = [{place: count + 3.0 for place, count in level.items()} for level in truth]
    made = Run(1.0, 3.0, 2**30, [release, release])
    written = page({peer: ("no Java" if peer.program else made) for peer in PEERS}, truth, 2, 0.0)
    assert re.search(r"\| +2 \| +3\.00 \|.*\| +3\.00 ± 0\.00 / 3\.00 ± 0\.00 / 3\.00 ± 0\.00 \|", written)
    assert "not run: no Java" in written
    again = page({PEERS[0]: made}, truth, 2, 1.0, written)
    assert [line for line in again.splitlines() if line[:1] == "|"] == [
        line for line in written.splitlines() if line[:1] == "|"
    ]
    assert f"From an earlier run, load 0.0: {'; '.join(peer.name for peer in PEERS[1:])}." in again
    for peer in PEERS:  # the page has a line for each, as the driver writes it
        assert re.search(rf"^\| +{re.escape(peer.name)} \|", text, re.MULTILINE), peer.name
        assert re.search(rf"^\| +{re.escape(peer.name)} \|", written, re.MULTILINE), peer.name
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        peer = next((peer for peer in PEERS if peer.name == cells[0]), None)
        if peer is not None and not cells[2].startswith("not run"):
            assert cells[5] == str(peer.user_lines), f"{peer.name}: run `make bench-peers` again"
