"""`opendp-tree release`: everything is checked, then counted in the ledger, then released, then written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from opendp.mod import Measurement

from opendp_tree._interrupts import interruptible, interrupts_deferred
from opendp_tree._show import table
from opendp_tree.budget import Budget
from opendp_tree.cli.source import Source, budget_of, cost_of, open_source
from opendp_tree.cli.spending import Job, check_outputs, first_sentence, output_format, run_job
from opendp_tree.cli.terminal import CommandError, Exit, Progress, silenced
from opendp_tree.keys.key import Key
from opendp_tree.planning.methods import METHODS, Auto, Curve, Line, Method, Quantiles
from opendp_tree.prepare import Question
from opendp_tree.releases.release import TreeRelease
from opendp_tree.rows.unit import Unit
from opendp_tree.rows.value import Value

__all__ = ["run_release"]


@interrupts_deferred
def run_release(options: argparse.Namespace) -> Exit:
    """Release the counts of a file. Interrupts wait where a file is made or cleared away, and while OpenDP counts."""
    progress = Progress(quiet=options.quiet)
    form = _check_arguments(options)
    progress.step("planning")
    with interruptible():
        source = open_source(options, unit=options.unit, values=tuple(options.value or ()))
    _check_writable(source, form)
    columns = [*source.key.columns_used, *(options.value or ())]
    job = Job(
        "release",
        source.frame,
        build_measurement(options, source),
        lambda release: _encode(release, form, options.spreadsheet_safe, options.quantiles),
        cost_of(options),
        {"file": Path(options.file).name, "columns": columns, "output": Path(options.output).name},
    )
    release: TreeRelease = run_job(options, job, progress)
    if options.plot is not None:
        progress.step("drawing")
        _draw(release, options.plot, options.quantiles)
    progress.end(_summary(release, options.quantiles) if progress.shown else "")
    return Exit.OK


def build_measurement(options: argparse.Namespace, source: Source) -> Measurement:
    """From the frame to the release, within the budget for one row or one unit."""
    try:
        question = Question.of(source.key, unit=_unit(options), method=_method(options), value=_values(options))
        counts = question.transformation(source.frame)
    except (TypeError, ValueError) as error:  # about columns and arguments: no row has been read
        raise CommandError(Exit.USAGE, f"{first_sentence(error)} Hint: opendp-tree release --help") from None
    try:
        return question.release_from(
            counts,
            1,
            Budget.of(**budget_of(options)),
            alpha=float(options.alpha),
            confidence=float(options.confidence),
            counted=question.counted(),
        )
    except ValueError as error:
        open_nodes = source.key.tree is None
        if open_nodes and options.delta == 0:
            words = "unknown nodes need a delta above 0: without one, none can be found"
            raise CommandError(
                Exit.INFEASIBLE, f"{words}. Hint: --delta 1e-6, or --tree FILE for public ones"
            ) from None
        known = open_nodes and options.method.startswith(("tree_", "raw_", "multiplicative"))
        hint = "--tree FILE lists public nodes" if known else "opendp-tree plan shows what is possible"
        raise CommandError(Exit.INFEASIBLE, f"{first_sentence(error)} Hint: {hint}") from None


def _method(options: argparse.Namespace) -> Method | str:
    """The method; where quantiles are asked for, one that has some."""
    if options.method == Quantiles.name:
        return Quantiles(options.quantiles)
    return Curve() if options.quantiles is not None and options.method == Auto().name else str(options.method)


def _unit(options: argparse.Namespace) -> Unit | None:
    if options.unit is None:
        return None
    bounds = {"rows": options.rows_per_unit, "leaves": options.leaves_per_unit, "nodes": options.nodes_per_unit}
    return Unit(options.unit, count=options.count, **bounds)


def _values(options: argparse.Namespace) -> list[Value] | None:
    pairs = zip(options.value or (), options.bounds or (), strict=True)
    return [Value(column, bounds=(low, high)) for column, (low, high) in pairs] or None


def _check_arguments(options: argparse.Namespace) -> str:
    """What the parser cannot check, and the format of the output."""
    bounds = {
        "rows": options.rows_per_unit or options.leaves_per_unit,
        "people": options.nodes_per_unit,
        "shares": options.count == "shares" or None,
    }
    if options.unit is None and any(bounds.values()):
        raise CommandError(Exit.USAGE, "what of units is counted, and bounds of them, need a unit. Hint: --unit COLUMN")
    if options.unit is not None and not bounds[options.count]:
        needed = "--nodes-per-unit M" if options.count == "people" else "--rows-per-unit K, or --count shares"
        raise CommandError(Exit.USAGE, f"--unit needs a bound. Hint: {needed}")
    if len(options.value or ()) != len(options.bounds or ()):
        raise CommandError(Exit.USAGE, "each --value needs bounds, and none else. Hint: --value COLUMN --bounds 0 500")
    if options.confidence == 0:
        raise CommandError(Exit.USAGE, "--confidence must be above 0. Hint: 0.95")
    check_outputs(options, reads=(options.file, options.tree))
    form = output_format(options, printed="csv") or "csv"
    _check_quantiles(options, form)
    if options.spreadsheet_safe and form != "csv":
        raise CommandError(Exit.USAGE, "--spreadsheet-safe goes with CSV output. Hint: leave it out")
    return form


def _has_line(key: Key | None) -> bool:
    """Whether a key is a number, or ends in one."""
    return key is not None and (key.line_below or key.tree) is not None


def _check_quantiles(options: argparse.Namespace, form: str) -> None:
    """That quantiles are asked for where there are some."""
    if options.quantiles is None and options.method == Quantiles.name:
        raise CommandError(Exit.USAGE, "--method chosen_quantiles needs to know which. Hint: --quantiles 0.5")
    if options.quantiles is not None and options.number is None and not _has_line(options.by):
        raise CommandError(Exit.USAGE, "--quantiles needs a number. Hint: --number COLUMN")
    if options.quantiles is not None and form == "json" and options.method != Quantiles.name:
        raise CommandError(Exit.USAGE, "--quantiles has no JSON: a curve's has them all. Hint: -o OUT.csv")
    lines = ("auto", *(name for name, method in METHODS.items() if isinstance(method, Line)))
    if options.quantiles is not None and options.method not in lines:
        raise CommandError(Exit.USAGE, f"--method {options.method} has no quantiles. Hint: --method curve")
    if options.plot is not None and options.method == Quantiles.name:
        raise CommandError(Exit.USAGE, "--plot needs counts. Hint: --method curve")


def _check_writable(source: Source, form: str) -> None:
    """Whether the labels' types have a place in the output's format."""
    from opendp_tree.releases.writing import unwritable

    if form == "json" or not source.key.label_columns:  # the others' labels are texts and numbers
        return
    with silenced():
        found = unwritable(source.frame.select(source.key.label_columns).collect_schema(), file_format=form)
    if found:
        raise CommandError(
            Exit.USAGE, f"{', '.join(found)} cannot be written as {form}; nothing was spent. Hint: -o OUT.parquet"
        )


def _encode(release: TreeRelease, form: str, spreadsheet_safe: bool, quantiles: Sequence[float] | None) -> bytes:
    if form == "json":
        return release.to_json().encode()
    from opendp_tree.releases.writing import frame_bytes

    frame = release.to_frame(spreadsheet_safe=spreadsheet_safe) if quantiles is None else release.quantiles(quantiles)
    return frame_bytes(frame, file_format=form, statement=release.statement, words=release.describe())


def _draw(release: TreeRelease, path: str, quantiles: Sequence[float] | None) -> None:
    from opendp_tree.plots.page import write_html
    from opendp_tree.plots.rows import plot_quantiles
    from opendp_tree.plots.tree import plot_tree

    with silenced(), interruptible():
        write_html(plot_tree(release) if quantiles is None else plot_quantiles(release, quantiles), path)


def _summary(release: TreeRelease, quantiles: Sequence[float] | None) -> str:
    """What came out, for the terminal."""
    if quantiles is not None:
        found = release.quantiles(quantiles)
        cells = [["" if cell is None else str(cell) for cell in row] for row in found.rows()]
        return f"{table(found.columns, cells)}\n\n{release.describe()}"
    from opendp_tree.releases.words import level_rows

    names = ("all", *(release.tree.names or ()))
    rows = [
        [names[level] if level < len(names) else str(level), shown, largest, half]
        for level, shown, largest, half in level_rows(release.to_frame())
    ]
    return f"{table(['level', 'nodes', 'largest', 'within'], rows)}\n\n{release.describe()}"
