"""The side-by-side benchmark says what it does, without running any peer."""

import ast
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from benchmarks.peers.__main__ import MARK, PAGE, page
from benchmarks.peers.data import LEVELS, SIZES, generate
from benchmarks.peers.environments import NAMES, requirements, trouble
from benchmarks.peers.measure import Run, astray, kept, rmse, run, why_not
from benchmarks.peers.peers import PEERS, SCRIPTS, Peer, count_user_lines

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


def test_user_lines_are_those_between_the_marks():
    text = (
        "import job\n# user code\nimport a\n\n# why\nb = 1\n# end\njob.ready()\n# user code\nc(\n    b)\n# end\ns()\n"
    )
    assert count_user_lines(text) == 4


@pytest.mark.parametrize(
    "text", ["# user code\n", "# end\n", "# user code\n# user code\n# end\n", "# end\n# user code\n"]
)
def test_marks_must_pair_up(text):
    with pytest.raises(ValueError, match=r"pair up|has no"):
        count_user_lines(text)


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


@pytest.mark.parametrize(("seconds", "releases"), [(1e9, 3), (0, 1)])
def test_a_script_hands_over_the_time_and_the_counts_of_each_release(tmp_path, seconds, releases):
    generate(100).write(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(
        "import job, polars as pl\n"
        "job.ready()\n"
        "rows = pl.read_parquet(job.ROWS)\n"
        "job.save(rows.group_by('state').agg(pl.len()), [('s', 'c', 2)])\n"
    )
    result = tmp_path / "result.json"
    command = [sys.executable, SCRIPTS / "job.py", tmp_path, result, script, "3", str(seconds)]
    subprocess.run(command, check=True)
    found = json.loads(result.read_text())
    assert found["start"] > 0
    assert found["seconds"] > 0
    assert len(found["releases"]) == releases
    for states, counties in found["releases"]:
        assert sum(row[-1] for row in states) == 100
        assert counties == [["s", "c", 2.0]]


def test_levels_are_taken_from_one_frame_of_all_nodes(tmp_path):
    frame = pl.DataFrame(
        {"level": [0, 1, 2, 2], "label_1": [None, "a", "a", "a"], "label_2": [None, None, "x", "(other)"]}
    )
    frame = frame.with_columns(
        label_3=None, estimate=pl.Series([5, 5, 3, 2]), other=pl.Series([False, False, False, True])
    )
    frame.write_parquet(tmp_path / "frame.parquet")
    code = (
        f"import sys; sys.path.insert(0, {str(SCRIPTS)!r}); sys.argv = ['', {str(tmp_path)!r}, 'result']\n"
        "import job, polars as pl\n"
        f"print([t.rows() for t in job.by_level(pl.read_parquet({str(tmp_path / 'frame.parquet')!r}))])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ast.literal_eval(done.stdout) == [[("a", 5)], [("a", "x", 3), ("a", "(other)", 2)], []]


def test_a_peer_that_is_not_there_is_told_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.environments.HOME", tmp_path)
    assert trouble("tumult") == "not installed (`make peers`)"
    (tmp_path / "tumult").mkdir()
    (tmp_path / "tumult" / "failed").write_text("no such package")
    assert trouble("tumult") == "could not be installed: no such package"
    assert trouble(None) is None
    assert why_not(Peer("x", "x", None, public=True, program="no-such-program")) == "needs no-such-program"


def test_a_script_that_fails_is_told_with_its_last_line(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.peers.SCRIPTS", tmp_path)
    (tmp_path / "broken.py").write_text("raise KeyError('a|b')\n")
    assert run(Peer("broken", "broken", None, public=True), tmp_path) == "failed: KeyError: 'a/b'"


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
