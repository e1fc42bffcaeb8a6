"""The examples run."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_demo_plans_releases_and_compares(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "demo.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "Best: " in shown
    assert "336776" in shown
    assert "rmse" in shown


def test_chains_print_their_maps_and_a_release(capsys):
    runpy.run_path(str(EXAMPLES / "chain.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "if 1 row(s) may change: epsilon = 0.5" in shown
    assert shown.count("above\n") >= 1
