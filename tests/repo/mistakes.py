"""Typical mistakes and what they are told, for the docs: `python -m tests.repo.mistakes` writes docs/mistakes.md."""

import contextlib
import io
import os
import sys
import tempfile
import warnings
from pathlib import Path

import opendp.prelude as dp
import polars as pl

import opendp_tree
from opendp_tree.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
HEAD = """# Ten typical mistakes

What is wrong is said before a row is read, in the words of whoever called: in Python, in a Context, on the command line.
Nothing is spent by a mistake. Each message below is what came out when this page was made, by
`python -m tests.repo.mistakes`; a test makes it again.

All of them have these visits (`visits.csv` on the command line), and `context(...)` stands for
`frame_context(visits, privacy_unit=dp.unit_of(contributions=1), privacy_loss=...)`.

```python
visits = pl.DataFrame(
    {"user": [1, 1, 2], "country": ["be", "be", "lu"], "city": ["ghent", "liege", "lux"], "age": [41, 42, 43]}
)
```
"""
MISTAKES = {
    "A delta is forgotten": (
        "Which countries there are is in the data alone. To find them, a release needs a chance, however small, of a larger loss.",
        [
            'release_tree(visits, by="country", epsilon=1.0)',
            'context(dp.loss_of(epsilon=1.0), split_evenly_over=2).query().tree_counts(by="country").release()',
            "release visits.csv --by country --epsilon 1 -o out.csv",
        ],
    ),
    "A unit without a bound": (
        "To protect people, at most so many rows of each are counted. How many is yours to say; `bound_report` helps.",
        [
            'release_tree(visits, by="country", unit="user", epsilon=1.0, delta=1e-6)',
            'context(dp.loss_of(epsilon=1.0, delta=1e-6), identifier="user").query(epsilon=0.5, delta=1e-7).tree_counts(by="country")',
            "release visits.csv --by country --unit user --epsilon 1 --delta 1e-6 -o out.csv",
        ],
    ),
    "A unit where rows are protected": (
        "The Context says who is protected; a query cannot protect anyone else.",
        [
            'context(dp.loss_of(epsilon=1.0, delta=1e-6)).query(epsilon=0.5, delta=1e-7).tree_counts(by="country", unit=Unit("user", rows=5))',
            "release visits.csv --by country --rows-per-unit 5 --epsilon 1 --delta 1e-6 -o out.csv",
        ],
    ),
    "A column that is not there": (
        "Names are compared letter by letter.",
        [
            'release_tree(visits, by=["country", "town"], epsilon=1.0, delta=1e-6)',
            'release_tree(visits, by="country", unit=Unit("person", rows=5), epsilon=1.0, delta=1e-6)',
            "release visits.csv --by country,town --epsilon 1 --delta 1e-6 -o out.csv",
        ],
    ),
    "Noise on every node, and unknown nodes": (
        "Some methods add noise to every node, empty ones too, so that all must be known: list them in a public tree.",
        [
            'release_tree(visits, by="country", method="tree_laplace", epsilon=1.0, delta=1e-6)',
            "release visits.csv --by country --method tree_laplace --epsilon 1 --delta 1e-6 -o out.csv",
        ],
    ),
    "A spent budget": (
        "A ledger and a Context count every release; what is over is refused, and costs nothing.",
        [
            'release_tree(visits, by="country", epsilon=1.0, delta=1e-6, ledger="spent.db")',
            'context(dp.loss_of(epsilon=1.0, delta=1e-6)).query(epsilon=2.0, delta=1e-7).tree_counts(by="country").release()',
            "release visits.csv --by country --epsilon 1 --delta 1e-6 -o out.csv --ledger spent.db",
            "release visits.csv --by country --epsilon 1 --delta 1e-6 -o out.csv --ledger new.db",
        ],
    ),
    "Both budgets, or none": (
        "A loss is in epsilon, or in rho.",
        [
            'release_tree(visits, by="country", delta=1e-6)',
            'release_tree(visits, by="country", epsilon=1.0, rho=0.1)',
            'context(dp.loss_of(epsilon=1.0, delta=1e-6)).query().tree_counts(by="country")',
            "release visits.csv --by country -o out.csv",
        ],
    ),
    "Rows without types": (
        "Types that are found in rows would tell of rows, so they are declared.",
        ['release_tree([{"country": "be"}], by="country", epsilon=1.0, delta=1e-6)'],
    ),
    "A step that can fail, or sees other rows": (
        "One row must not decide whether the others are counted.",
        [
            'context(dp.loss_of(epsilon=1.0, delta=1e-6)).query(epsilon=0.5, delta=1e-7).filter(pl.col("city").cast(pl.Int64) > 3).tree_counts(by="country")',
            'context(dp.loss_of(epsilon=1.0)).query(epsilon=0.5).select(pl.col("age").sum()).tree_counts(by="age")',
        ],
    ),
    "Options that have no effect": (
        "What a method, a hierarchy or a command does not take is refused, and not ignored.",
        [
            'release_tree(visits, by=["country", "city"], method=Auto(levels=[2]), rho=0.1, delta=1e-6)',
            'release_tree(visits, by=Key.columns("country", "city", show=["city"]), method="pruned_laplace", epsilon=1.0, delta=1e-6)',
            "plan --by country --value age --epsilon 1 --delta 1e-6",
            "release visits.csv --by country --count people --epsilon 1 --delta 1e-6 -o out.csv",
        ],
    ),
}
VISITS = pl.DataFrame(
    {"user": [1, 1, 2], "country": ["be", "be", "lu"], "city": ["ghent", "liege", "lux"], "age": [41, 42, 43]}
)


def unread(batch):
    raise AssertionError("a row was read")


def context(loss, *, identifier=None, **split):
    unit = dp.unit_of(contributions=1, identifier=identifier)
    frame = VISITS.lazy().map_batches(unread, schema=VISITS.schema)
    return opendp_tree.frame_context(frame, privacy_unit=unit, privacy_loss=loss, **split)


def told(call):
    """What a call says: of Python an error's name and text, of the command line its line and exit code."""
    if call.startswith(("release ", "plan ")):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = main(call.split())
        assert code in (1, 2, 3, 4), call
        return f"$ opendp-tree {call}\n{errors.getvalue().strip()}\n$ echo $?\n{code}"
    names = {**vars(opendp_tree), "pl": pl, "dp": dp, "context": context}
    names["visits"] = VISITS.lazy().map_batches(unread, schema=VISITS.schema)
    try:
        eval(call, names)
    except (TypeError, ValueError) as error:
        return f"> {call}\n{type(error).__name__}: {error}"
    raise AssertionError(f"nothing is wrong with {call}")


def page():
    """The page, made by making the mistakes."""
    dp.enable_features("contrib")
    parts = [HEAD]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = Path.cwd()
        os.chdir(folder)
        try:
            VISITS.write_csv("visits.csv")
            book = opendp_tree.Ledger.open("spent.db", total={"epsilon": "1", "delta": "1e-6"})
            book.commit({"epsilon": "1", "delta": "1e-6"})
            for title, (why, calls) in MISTAKES.items():
                shown = "\n\n".join(map(told, calls))
                parts.append(f"\n## {title}\n\n{why}\n\n```text\n{shown}\n```\n")
            assert len(book.entries()) == 1, "a mistake was paid for"
            left = {each.name for each in Path(folder).iterdir()}
            assert left == {"visits.csv", "spent.db"}, left
        finally:
            os.chdir(before)
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE}\n")
