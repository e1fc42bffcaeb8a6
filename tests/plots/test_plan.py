from dataclasses import replace

import numpy as np
import pytest

from opendp_tree import plan, plot_plan
from opendp_tree.planning import Candidate
from opendp_tree.plots.plan import LEAST
from opendp_tree.plots.style import FOOTER
from tests.pictures import mechanisms


def footer_of(figure):
    (text,) = [note.text for note in figure.layout.annotations if note.name == FOOTER]
    return text.replace(" <br>", " ").split("<br>")


def test_each_possible_mechanism_has_a_line_and_the_best_stands_out():
    given = mechanisms("open")
    figure = plot_plan(given)
    best, *others = figure.data
    assert best.name == f"{given.best.name} (best)"
    assert [line.name for line in others] == [each.name for each in given.candidates[1:] if each.feasible]
    assert best.line.width > max(line.line.width for line in others)
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert list(best.x) == list(dict.fromkeys(given.curves()["weight"]))
    error = given.best.error_at(best.x)
    assert best.y == pytest.approx(np.where(error > 0, error, np.nan), nan_ok=True)  # no zero on this axis


def test_impossible_mechanisms_are_named_with_their_reason():
    given = mechanisms("open")
    lines = footer_of(plot_plan(given))
    assert "Not possible (noise on every node requires public nodes): " in lines[1]
    for each in given.candidates:
        assert any(each.name in line and each.reason in line for line in lines[1:]) != each.feasible


def test_far_worse_mechanisms_are_named_and_the_axes_hold_what_matters():
    given = mechanisms()
    worse = Candidate("worse", reason="", needs="", error=1e6, curve=lambda at: np.full_like(at, 1e6))
    figure = plot_plan(replace(given, candidates=(*given.candidates, worse)))
    assert footer_of(figure)[-1] == "Too large to draw: worse, 1,000,000."
    assert "worse" not in [line.name for line in figure.data]
    low, high = figure.layout.yaxis.range
    assert 10**low > LEAST / 2
    assert 10**high == pytest.approx(max(np.nanmax(line.y) for line in figure.data), rel=1)


def test_a_plan_in_which_nothing_is_possible_says_so():
    figure = plot_plan(plan(6, epsilon=1.0, nodes="open"))
    assert figure.data == ()
    assert figure.layout.title.subtitle.text == "No mechanism is possible."
    assert len(footer_of(figure)) > 1


@pytest.mark.parametrize("nodes", ["open", "public"])
def test_the_picture_shows_what_ranks_and_where_another_is_better(nodes):
    """A dot marks each line's highest point, and the footer tells for which counts a line is below the best one's."""
    given = mechanisms(nodes)
    figure = plot_plan(given)
    assert figure.layout.title.subtitle.text.endswith(
        f"{given.best.name}, because its worst error (its dot) is the smallest."
    )
    worst, written = [], []
    for line in figure.data:
        (top,) = [place for place, size in enumerate(line.marker.size) if size]
        assert line.y[top] == max(line.y)
        error = given.candidate(line.name.removesuffix(" (best)")).error
        # Figures that would lie on each other are written once.
        near = [other for place, other in written if place == top and abs(other - error) < 0.25 * error]
        assert [text for text in line.text if text] == ([] if near else [f"{error:.3g}"])
        assert line.text[top] == ("" if near else f"{error:.3g}")
        written += [] if near else [(top, error)]
        worst.append(error)
    assert worst[0] == min(worst)
    told = footer_of(figure)[0].removeprefix("Lower for nodes of some counts: ").rstrip(".")
    ranges = {part.split(" from ")[0]: part.split(" from ")[1].replace(",", "").split() for part in told.split("; ")}
    weights = np.array(figure.data[0].x)
    best = given.best.error_at(weights)
    for line in figure.data[1:]:
        lower = (given.candidate(line.name).error_at(weights) < 0.95 * best) & (best >= LEAST)
        assert (line.name in ranges) == lower.any()
        if lower.any():
            first, *to = ranges[line.name]
            assert float(first) == pytest.approx(weights[lower][0], abs=0.5)
            assert to == ["on"] or float(to[1]) == pytest.approx(weights[lower][-1], abs=0.5)


def test_a_plan_for_keys_says_what_ranks_it():
    figure = plot_plan(plan(8, epsilon=1.0, delta=1e-6, nodes="open", aim="keys"))
    assert "which shows nodes from" in figure.layout.title.subtitle.text
