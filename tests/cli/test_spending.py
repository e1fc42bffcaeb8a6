import argparse
import os
from fractions import Fraction

import polars as pl
import pytest

from opendp_tree import Ledger
from opendp_tree.cli.spending import Job, check_outputs, first_sentence, output_format, run_job
from opendp_tree.cli.terminal import CommandError, Exit, Progress
from opendp_tree.ledger import BudgetError

QUIET = Progress(quiet=True)


def options(folder, **given):
    plain = {"output": str(folder / "out.csv"), "output_format": None, "plot": None, "ledger": None, "unit": None}
    more = {
        "total_epsilon": None,
        "total_rho": None,
        "total_delta": None,
        "dataset": None,
        "file": str(folder / "in.csv"),
    }
    return argparse.Namespace(**{**plain, **more, **given})


def job(measurement, encode=lambda made: made):
    frame = pl.LazyFrame({"a": ["x"]})
    return Job(
        "release", frame, measurement, encode, {"epsilon": Fraction("0.5"), "delta": Fraction(0)}, {"file": "in"}
    )


def test_release_and_cost_are_committed_together_before_anything_is_written(tmp_path):
    book = tmp_path / "ledger"
    given = options(tmp_path, ledger=str(book), total_epsilon=Fraction(1))
    seen = []

    def measurement(frame):
        seen.append((Ledger.open(book).entries(), os.listdir(tmp_path)))
        return b"out"

    assert run_job(given, job(measurement), QUIET) == b"out"
    assert seen == [([], ["ledger"])]  # no cost, and no file of an output, while data are read
    assert (tmp_path / "out.csv").read_bytes() == b"out"
    (entry,) = Ledger.open(book).entries()
    assert entry.cost["epsilon"] == Fraction(1, 2)


def test_what_the_ledger_refuses_is_not_made(tmp_path):
    given = options(tmp_path, ledger=str(tmp_path / "ledger"), total_epsilon=Fraction("0.4"))

    def measurement(frame):
        raise AssertionError("data was touched")

    with pytest.raises(BudgetError, match=r"Hint: ask for at most epsilon 0\.4, delta 0$"):
        run_job(given, job(measurement), QUIET)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("with_ledger", [True, False])
def test_a_failure_is_one_line_without_data_and_costs_nothing(tmp_path, with_ledger):
    book = tmp_path / "ledger"
    given = options(tmp_path, **({"ledger": str(book), "total_epsilon": Fraction(1)} if with_ledger else {}))

    def measurement(frame):
        raise ValueError("a secret")

    with pytest.raises(CommandError, match=r"the release failed \(ValueError\).*\. Hint: can .* be read") as caught:
        run_job(given, job(measurement), QUIET)
    assert "secret" not in str(caught.value)
    assert "nothing was spent" in str(caught.value)
    if with_ledger:
        assert Ledger.open(book).entries() == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dataset": "flights"}, "a total or a data set is for a ledger"),
        ({"ledger": "book", "total_delta": Fraction(0)}, "--total-delta goes with --total-epsilon or --total-rho"),
        ({"output": "in.csv", "file": "in.csv"}, "a file is named twice"),
        ({"plot": "same", "output": "same"}, "a file is named twice"),
    ],
)
def test_arguments_that_clash_are_refused(tmp_path, given, words):
    with pytest.raises(CommandError, match=rf"{words}\. Hint: ") as caught:
        check_outputs(options(tmp_path, **given), reads=("in.csv", None))
    assert caught.value.code == Exit.USAGE


def test_the_format_is_said_or_follows_from_the_ending(tmp_path):
    for name, form in (("a.pq", "parquet"), ("a.JSONL", "ndjson"), ("a.json", "json"), ("-", "csv"), (None, "csv")):
        assert output_format(options(tmp_path, output=name), printed="csv") == form
    assert output_format(options(tmp_path, output="a.xyz", output_format="csv"), printed=None) == "csv"
    with pytest.raises(CommandError, match="unknown ending"):
        output_format(options(tmp_path, output="a.xyz"), printed=None)


def test_excel_needs_its_writer_before_anything_is_spent(tmp_path, monkeypatch):
    for given in ({"output": "a.xlsx"}, {"output": "-", "output_format": "xlsx"}):
        assert output_format(options(tmp_path, **given), printed="csv") == "xlsx"
        with monkeypatch.context() as context:
            context.setattr("opendp_tree.cli.spending.find_spec", lambda name: None)
            with pytest.raises(CommandError, match=r"needs XlsxWriter\. Hint: pip install xlsxwriter"):
                output_format(options(tmp_path, **given), printed="csv")


def test_hints_of_python_calls_are_left_out():
    assert first_sentence(ValueError("by must be. Hint: by='a'\nmore")) == "by must be."
