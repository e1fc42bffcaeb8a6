"""What may be a step: each expression on the list is row-wise and total, over all data types and edge values."""

import re
from datetime import date

import polars as pl
import pytest

from opendp_tree.rows import domains, row_wise
from opendp_tree.rows.row_wise import check_steps, is_truncation, plan_steps, read_expression
from tests.fuzz import steps as fuzz
from tests.fuzz.edge_values import DTYPES, edge_frame

COLUMNS = {name: pl.col(name) for name in DTYPES}


def refused(*steps, schema=DTYPES):
    """The words with which a step is refused."""
    plan = pl.LazyFrame(schema=schema)
    for name, expression in steps:
        plan = getattr(plan, name)(expression)
    with pytest.raises(ValueError, match="must") as error:
        check_steps(plan_steps(plan), pl.LazyFrame(schema=schema))
    return str(error.value)


def admitted_of(every):
    """What the list admits of the expressions of one column, of two, or of a column and a literal.

    Those of one column are all made, and of the others each that is a multiple of `every`.
    """
    single = [*fuzz.parsed(COLUMNS["string"]), *fuzz.parsed(COLUMNS["date"])]
    double = []
    for name, column in COLUMNS.items():
        single += [*fuzz.unary(column), *fuzz.of_many_rows(column), *fuzz.binary(column, column)]
        for other in COLUMNS.values():
            double += fuzz.binary(column, other)
        for value in fuzz.LITERALS if not name.startswith("datetime") else fuzz.LITERALS[:1]:
            double += [*fuzz.binary(column, pl.lit(value)), *fuzz.binary(pl.lit(value), column)]
    made = [*single, *double[::every]]
    return len(made), list({each.meta.serialize(): each for each in made if fuzz.admitted(each)}.values())


@pytest.fixture(scope="module", params=[23, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def admitted(request):
    """All expressions of one column, and a part of those of two, or all of them: more than 3,000."""
    made, found = admitted_of(request.param)
    assert (3_000 if request.param == 1 else 500) < len(found) < made / 2
    return found


def parts(expressions):
    return [expressions[start : start + 500] for start in range(0, len(expressions), 500)]


def test_admitted_expressions_are_row_wise_and_total(admitted):
    """On 300 rows of edge values: 60 alone, 60 pairs, a third, any order, streaming."""
    for number, part in enumerate(parts(admitted)):
        fuzz.check_row_wise(part, edge_frame(300, 7), number, alone=60)


def test_wrong_flags_change_no_admitted_expression(admitted):
    """Flags that a column is sorted, either way, on 300 rows of edge values in any order."""
    for part in parts(admitted):
        fuzz.check_flags(part, edge_frame(300, 7))


def test_no_admitted_expression_makes_texts_longer_than_by_a_literal(admitted):
    edges, longest = edge_frame(60, 9), 20_000
    texts = pl.Series("string", ["x" * longest] * 60)
    frame = edges.with_columns(texts, texts.cast(pl.Categorical).alias("categorical"))
    texts = frame.with_columns(each.alias(str(place)) for place, each in enumerate(admitted))
    texts = texts.select(pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String).str.len_bytes().max())
    assert texts.width > 20
    assert max(length or 0 for length in texts.row(0)) <= longest + row_wise.LONGEST_LITERAL


LONG = "x" * (row_wise.LONGEST_LITERAL + 1)


@pytest.mark.parametrize(
    "expression",
    [
        pl.col("string") + pl.col("string"),
        pl.col("string") + pl.col("string").replace({"a": "b"}),
        pl.col("string") + pl.col("int64").cast(pl.String, strict=False),
        pl.col("string") + pl.lit("x").cast(pl.String, strict=False),
        pl.concat_str("string", "string"),
        pl.format("{}{}", "string", "string"),
        pl.col("string").str.pad_start(9),
        pl.col("string").str.replace_all("", "x"),
        pl.col("string").repeat_by(9),
        pl.col("string") + LONG,
        pl.col("string").fill_null(LONG),
        pl.col("string").replace({"a": LONG}),
        pl.col("string").replace_strict({"a": LONG}, default=""),
        pl.col("string").replace_strict({"a": ""}, default=LONG),
        pl.col("string").replace_strict({LONG: 1}, default=2),
        pl.col("int64").replace_strict({1: LONG}, default=None),
        pl.col("float64").cut([0.0], labels=["", LONG]),
    ],
    ids=lambda expression: str(expression)[:60],
)
def test_texts_are_joined_to_short_literals_alone(expression):
    assert "Hint" in refused(("with_columns", expression.alias("made")))


def test_texts_are_joined_so_often_and_no_more():
    """In one expression or by many steps: what one row has decides nothing."""
    steps = [("with_columns", pl.col("string") + "x")] * row_wise.MOST_JOINED
    plan = pl.LazyFrame(schema=DTYPES)
    for _, expression in steps:
        plan = plan.with_columns(expression)
    check_steps(plan_steps(plan), pl.LazyFrame(schema=DTYPES))
    assert "at most 32 times" in refused(*steps, ("filter", "x" + pl.col("string") == "xx"))
    assert "at most 32 times" in refused(("with_columns", sum([pl.lit("x")] * 33, pl.col("string"))))


def test_opendp_runs_what_is_written(admitted):
    """One path runs the written expressions, the other what OpenDP makes of them."""
    frame = edge_frame(60, 8)
    assert sum(fuzz.check_opendp_runs_the_same(each, frame) for each in admitted[::9]) > 40


def test_each_entry_of_the_list_is_admitted_for_something(admitted):
    """An entry that nothing reaches is proved by nothing."""
    text = " ".join(each.meta.serialize(format="json") for each in admitted)
    for entry in (*row_wise._OPERATORS, *row_wise._FUNCTIONS, *{*row_wise._FORMS} - {"Alias"}):
        assert f'"{entry}"' in text, entry
    schema = pl.LazyFrame(schema=DTYPES).with_columns(each.alias(str(n)) for n, each in enumerate(admitted))
    kinds = {domains.step_kind(dtype) for dtype in schema.collect_schema().dtypes()}
    assert kinds == {*domains.CASTS}


@pytest.mark.parametrize(
    "expression",
    [
        pl.col("int64") / 1.5,
        pl.col("float64") % 1.5,
        pl.col("date").cast(pl.String, strict=False),
        pl.col("uint64").fill_null(-1),
        pl.col("string").str.to_datetime("%F %T", time_zone="Europe/Brussels", ambiguous="null", strict=False),
    ],
    ids=str,
)
def test_what_opendp_admits_and_polars_does_not_run_row_by_row_is_refused(expression):
    assert not fuzz.admitted(expression)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (pl.col("string").cast(pl.Int64), "strict cast.*strict=False"),
        (pl.col("int64").cast(pl.Int8, wrap_numerical=True), "overflowing cast.*strict=False"),
        (pl.col("string").replace_strict({"a": "b"}), "replace_strict.*default"),
        (pl.col("string").str.to_date("%Y"), "strptime.*strict=False"),
        (pl.col("string").str.to_date(strict=False), "strptime.*format"),
        (pl.col("float64").cut([0.0]).to_physical(), "to_physical.*pl.String"),
        (pl.col("categorical") == "a", "eq.*pl.String"),
        (pl.col("float64") / 3, "true_divide.*multiply"),
        (pl.col("datetime_us_None").dt.year(), r"year of Datetime.*pl.Date"),
        (pl.col("int64").sum(), "sum"),
        (pl.col("int64").sum().over("string"), "over.*truncate_per_group"),
        (pl.col("int64").shift(1), "shift"),
        (pl.col("int64").reverse(), "reverse"),
        (pl.lit(pl.Series([1, 2])), "literal"),
        (pl.lit(date(2020, 1, 1)), "literal"),
        (pl.col("int64").is_in([1]), r"is_in.*Hint: OpenDP has no is_in: \(pl\.col"),
        (pl.col("string").cast(pl.Binary).bin.size(), "strict cast"),
        (pl.col("string").cast(pl.Binary, strict=False).bin.size(), "cast of String"),
        (pl.col("float64").cut([-float("inf"), float("inf")]), "cut.*finite breaks"),
        (pl.col("string").str.to_datetime("%Y", strict=False, ambiguous=pl.col("string")), "strptime"),
        (pl.all(), "selector"),
        (pl.col("int64").clip(2, pl.col("int32")), "row-wise"),  # a bound of one row would be broadcast
        (pl.col("int64").replace_strict({1.5: 2.0, 1.0: -1.0}, default=256), "row-wise"),  # both keys would be 1
    ],
    ids=str,
)
def test_what_is_refused_is_named_with_a_hint(expression, words):
    told = refused(("with_columns", expression.alias("made")))
    assert re.search(words, told), expression
    assert "Hint" in told


def test_types_are_those_of_the_step_before_and_literals_are_not_alone():
    words = refused(("with_columns", pl.col("float64").cut([0.0]).alias("c")), ("select", pl.col("c").to_physical()))
    assert "to_physical of Categorical" in words
    assert "one row" in refused(("select", pl.lit(1)))


def test_truncations_are_those_that_do_not_see_the_order_of_rows():
    ranges = pl.int_range(pl.len())
    rank = pl.struct("string").rank("dense")
    frame = pl.LazyFrame(schema=DTYPES)

    def found(expression):
        return is_truncation(plan_steps(frame.filter(expression))[0].nodes[0], frame)

    assert found(ranges.shuffle().over("int64") < 2)
    assert found(rank.over("int64") < 2)
    assert found(pl.struct("string", "date").rank("dense", descending=True).over("int64") < 2)
    both = pl.struct("string", "date")
    assert found(pl.struct(both.hash(), both).rank("dense").over("int64") < 2)
    by_order = [ranges, ranges.reverse(), ranges.shuffle(seed=1), ranges.sort_by("date"), ranges.shuffle().reverse()]
    by_order += [pl.struct("string").rank("ordinal"), pl.struct("string").rank("random", seed=1)]
    by_order += [pl.struct(both.hash(), "string").rank("dense"), both.hash().rank("dense")]
    by_codes = [
        pl.struct("categorical").rank("dense"),
        pl.struct("float64").rank("dense"),
        pl.col("date").rank("dense"),
    ]
    for each in (*by_order, *by_codes, pl.col("int64").cum_sum()):
        assert not found(each.over("int64") < 2), each
    assert not found(ranges.shuffle().over("int64", order_by="date") < 2)
    assert not found(ranges.shuffle().over(pl.col("int64") + 1) < 2)
    assert not found(ranges.shuffle().over("int64") == 2)


EMPTY = pl.LazyFrame(schema={"a": pl.Int64, "b": pl.String})


def test_steps_come_in_the_order_in_which_they_are_taken():
    plan = EMPTY.filter(pl.col("a") > 1).with_columns(c=pl.col("a") + 1, d=pl.lit("x")).select("b", "c")
    steps = plan_steps(plan)
    assert [(step.method, len(step.nodes)) for step in steps] == [("filter", 1), ("with_columns", 2), ("select", 2)]


def test_a_plan_whose_schema_was_asked_for_has_the_same_steps():
    plan = EMPTY.filter(pl.col("a") > 1).select("b")
    before = plan_steps(plan)
    plan.collect_schema()
    assert plan_steps(plan.select("b"))[: len(before)] == before


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (lambda frame: frame.group_by("a").len(), "group_by"),
        (lambda frame: frame.sort("a"), "sort"),
        (lambda frame: frame.unique(), "unique"),
        (lambda frame: frame.join(EMPTY, on="a"), "join"),
        (lambda frame: frame.head(3), "slice"),
        (lambda frame: frame.with_row_index(), "MapFunction"),
    ],
)
def test_other_steps_are_refused_by_name(step, name):
    with pytest.raises(ValueError, match=rf"a step \({name}\) must be filter, .* Hint: .*unit=Unit"):
        plan_steps(step(EMPTY).filter(pl.col("a") > 1))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 0.1])
def test_floats_that_json_cannot_hold_are_read_for_their_type(value):
    (step,) = plan_steps(EMPTY.with_columns(c=pl.col("a") * value))
    assert EMPTY.select(read_expression(step.nodes[0])).collect_schema() == {"c": pl.Float64}


@pytest.mark.parametrize("depth", [200, 3000])
def test_deep_nesting_is_refused(depth):
    expression = pl.col("a")
    for _ in range(depth):
        expression = expression + 1
    with pytest.raises(ValueError, match="nested"):
        check_steps(plan_steps(EMPTY.filter(expression > 1)), EMPTY)
