import polars as pl
import pytest

from opendp_tree.rows.plans import plan_steps, read_expression

EMPTY = pl.LazyFrame(schema={"a": pl.Int64, "b": pl.String})


def test_steps_come_in_the_order_in_which_they_are_taken():
    plan = EMPTY.filter(pl.col("a") > 1).with_columns(c=pl.col("a") + 1, d=pl.lit("x")).select("b", "c")
    steps = plan_steps(plan)
    assert [(step.method, len(step.nodes)) for step in steps] == [("filter", 1), ("with_columns", 2), ("select", 2)]
    frame = EMPTY
    for step in steps:
        frame = step.take(frame)
    assert frame.collect_schema() == plan.collect_schema()


def test_a_plan_whose_schema_was_asked_for_has_the_same_steps():
    plan = EMPTY.filter(pl.col("a") > 1).select("b")
    before = plan_steps(plan)
    plan.collect_schema()
    assert plan_steps(plan.select("b"))[: len(before)] == before


def test_no_step_is_no_step():
    assert plan_steps(EMPTY) == ()


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (lambda frame: frame.group_by("a").len(), "group_by"),
        (lambda frame: frame.sort("a"), "sort"),
        (lambda frame: frame.unique(), "unique"),
        (lambda frame: frame.join(EMPTY, on="a"), "join"),
        (lambda frame: frame.head(3), "slice"),
    ],
)
def test_other_steps_are_refused_by_name(step, name):
    with pytest.raises(ValueError, match=rf"a step \({name}\) must be filter, .* Hint: .*unit=Unit"):
        plan_steps(step(EMPTY).filter(pl.col("a") > 1))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 0.1])
def test_floats_that_json_cannot_hold_are_read_for_their_type(value):
    (step,) = plan_steps(EMPTY.with_columns(c=pl.col("a") * value))
    assert EMPTY.select(read_expression(step.nodes[0])).collect_schema() == {"c": pl.Float64}


def test_nesting_beyond_reading_is_refused():
    expression = pl.col("a")
    for _ in range(3000):
        expression = expression + 1
    with pytest.raises(ValueError, match="nested"):
        plan_steps(EMPTY.filter(expression > 1))
