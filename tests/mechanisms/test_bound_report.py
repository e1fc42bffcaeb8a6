"""The measurement: its map, its noise, and what it refuses."""

import re
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest

from opendp_tree import frame_domain
from opendp_tree.mechanisms import make_bound_report, then_bound_report
from opendp_tree.mechanisms.bound_report import noise_loss
from opendp_tree.theorems.laplace import bin_ends
from tests.goodness_of_fit import FALSE_ALARM, laplace_masses, p_value

dp.enable_features("contrib")
FRAME = pl.DataFrame({"user": [*range(3000), *range(1000), *range(1000)]})
SPACE = frame_domain(FRAME), dp.symmetric_id_distance("user")


def test_the_map_is_exact_or_rounded_up_and_twice_for_changed_people():
    for scale in (0.3, 1.0, 7.0, 20.0):
        made = make_bound_report(*SPACE, scale, most=9)
        changed = make_bound_report(SPACE[0], dp.change_one_id_distance("user"), scale, most=9)
        losses = [made.map(k) for k in range(6)]
        assert losses[0] == 0
        for k, loss in enumerate(losses):
            assert 0 <= Fraction(loss) - k / Fraction(scale) <= Fraction(np.spacing(loss))
            assert changed.map(k) == made.map(2 * k)
        assert made.output_measure == dp.max_divergence()


def test_the_statement_is_the_map_at_one():
    changed = make_bound_report(SPACE[0], dp.change_one_id_distance("user"), 8.0, most=9)
    for made, unit in ((make_bound_report(*SPACE, 8.0, most=9), "'user'"), (changed, "'user' for another")):
        statement = made(FRAME).statement
        assert statement.loss == {"epsilon": made.map(1)}
        assert statement.unit == f"one value of {unit}"
        assert statement.parameters == {"scale": 8.0, "most": 9}


def test_every_bin_gets_integer_laplace_noise_even_where_nobody_is():
    """Chi-square with a false-alarm rate of 1e-9; another scale is told from it."""
    made = make_bound_report(*SPACE, 3.0, most=500)
    drawn = np.concatenate([made(FRAME.clear()).people for _ in range(100)])
    support = range(-200, 201)
    assert p_value(drawn, support, laplace_masses(3.0, support)) > FALSE_ALARM
    assert p_value(drawn, support, laplace_masses(1.5, support)) < FALSE_ALARM
    assert p_value(drawn, support, laplace_masses(4.0, support)) < FALSE_ALARM


def test_the_columns_of_a_report_do_not_depend_on_the_data():
    made = make_bound_report(*SPACE, 2.0, most=40)
    for frame in (FRAME, FRAME.clear(), FRAME.head(1)):
        report = made(frame)
        assert report.bounds.tolist() == list(bin_ends(40))
        assert all(
            part.size == report.bounds.size for part in (report.people, report.shares, report.lower, report.upper)
        )


def test_people_are_counted_where_they_belong():
    """A noise of scale 1/4 is 40 or more with a chance below 1e-60."""
    report = make_bound_report(*SPACE, 0.25, most=4)(FRAME)
    assert np.abs(report.people - [2000, 0, 1000, 0]).max() < 40
    assert abs(report.rows - 5000) < 400


def test_it_composes_and_goes_through_a_context():
    made = SPACE >> then_bound_report(20.0, most=5)
    composed = dp.c.make_composition([made, made])
    assert composed.map(1) == pytest.approx(0.1)
    assert [report.most for report in composed(FRAME)] == [5, 5]
    context = dp.Context.compositor(
        data=FRAME,
        privacy_unit=(SPACE[1], 1),
        privacy_loss=dp.loss_of(epsilon=0.1),
        split_evenly_over=2,
        domain=SPACE[0],
    )
    assert context(made).most == 5


WRONG = [
    ({"scale": 0.0}, ValueError, "scale (0.0) must be positive"),
    ({"scale": -1.0}, ValueError, "scale (-1.0) must be finite and non-negative"),
    ({"scale": 2.0**51}, ValueError, "must be from 2**-50 to 2**50"),
    ({"scale": 1e-300}, ValueError, "must be from 2**-50 to 2**50"),
    ({"scale": "1"}, TypeError, "scale ('1') must be a number"),
    ({"confidence": 1.0}, ValueError, "confidence (1.0) must be above 0 and below 1"),
    ({"confidence": 1 - 2.0**-53}, ValueError, "must be at most 1 - 2**-50"),
    ({"most": 1}, ValueError, "most (1) must be from 2"),
]


@pytest.mark.parametrize(("given", "kind", "words"), WRONG)
def test_wrong_arguments_are_told(given, kind, words):
    options = {"scale": 20.0, "most": 5, **given}
    with pytest.raises(kind, match=re.escape(words)):
        make_bound_report(*SPACE, options.pop("scale"), **options)


def test_a_distance_that_is_none_has_no_loss():
    with pytest.raises(ValueError, match="d_in"):
        noise_loss(-1, 2.0)
