"""Hostile expressions as steps: those that are admitted must be row-wise and total, and OpenDP must run the same."""

import operator
import random
from collections.abc import Sequence
from itertools import product

import opendp.prelude as dp
import polars as pl
from opendp.transformations import make_stable_lazyframe

from opendp_tree.rows.domains import narrowed
from opendp_tree.rows.row_wise import check_steps, plan_steps
from opendp_tree.rows.steps import made_up_rows
from tests.fuzz.edge_values import DTYPES, edge_frame

EMPTY = pl.LazyFrame(schema=DTYPES)
MADE_UP = [made_up_rows(EMPTY, rows).collect() for rows in (0, 1, 2)]
"""On these every step is tried before it is run."""
OPERATORS = {
    **{each: getattr(operator, each) for each in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul")},
    **{each: getattr(operator, each) for each in ("truediv", "floordiv", "mod", "and_", "or_", "xor")},
    "eq_missing": lambda left, right: left.eq_missing(right),
    "ne_missing": lambda left, right: left.ne_missing(right),
    "fill_null": lambda left, right: left.fill_null(right),
}
LITERALS = [0, 1, -1, 3, 10, 2**31, -(2**63), 2**63 - 1, 2**64, 10**30, 0.0, -0.0, 1.5, 0.1, 1e300, float("inf")]
LITERALS += [float("nan"), "", "a", "zzz", "2020-01-01", True, False, None]
MAPS = [{0: 1}, {1: 2, None: 3}, {1: None}, {1.5: 2.5}, {1: 1.5}, {2**40: 1}, {1: 2**40}, {-1: -2}, {"a": "z"}]
MAPS += [{"a": None, "b": "a"}, {True: False}, {float("nan"): 1.0}, {1: "x"}, {"a": 3}, {1: True}]
BREAKS = [[0.0], [0.0, 1.0], [1.0, 0.0], [], [0.0, 0.0]]
FORMATS = ["%Y-%m-%d", "%d/%m/%Y", "%Y", "%F %T", "%Y-%m-%d %H:%M:%S", "%H:%M:%S", "%H", "%s", "%y%m%d", "%Y-%j"]
FORMATS += ["%b %d %Y", "%B", "%I %p", "%+", "%c", "", "x%%", "%Y-%m-%d %H:%M:%S%z", "%H:%M", "%D", "%T"]
PARTS = ["millennium", "century", "year", "iso_year", "quarter", "month", "week", "weekday", "day", "ordinal_day"]
PARTS += ["hour", "minute", "second", "millisecond", "microsecond", "nanosecond"]
TESTS = ["is_null", "is_not_null", "is_finite", "is_infinite", "is_nan", "is_not_nan", "not_", "to_physical"]
CASTS = [*DTYPES.values(), pl.Int8, pl.Int16, pl.UInt8, pl.Int128, pl.Duration("us"), pl.Decimal(10, 2), pl.Binary]
PARSED = [pl.Date, pl.Time, *map(pl.Datetime, ("us", "ms", "ns")), pl.Datetime("us", "Europe/Brussels")]
OF_MANY_ROWS = ["rank", "shuffle", "cum_sum", "sum", "mean", "max", "first", "reverse", "sort", "unique", "n_unique"]
OF_MANY_ROWS += ["shift", "forward_fill", "is_duplicated", "is_first_distinct", "rle_id", "mode", "len", "hash"]
OF_MANY_ROWS += ["arg_sort"]


def unary(column: pl.Expr) -> list[pl.Expr]:
    """Every expression of one column that OpenDP may admit, in many forms, and some that it never does."""
    made = [getattr(column, each)() for each in TESTS]
    made += [getattr(column.dt, part)() for part in PARTS]
    made += [column.cast(to, strict=strict) for to in CASTS for strict in (False, True)]
    made += [column.cast(to, wrap_numerical=True) for to in (pl.Int8, pl.UInt32)]
    made += [column.clip(*bounds) for bounds in ((0, 5), (-1.5, 2.5), (5, 0), (0, 10**12))]
    made += [column.fill_nan(value) for value in (0, 1.5, None)]
    made += [column.replace(values) for values in MAPS]
    made += [column.replace_strict(values) for values in MAPS]
    made += [column.replace_strict(values, default=default) for values in MAPS for default in (None, 7, "q", 1.5, True)]
    made += [column.replace_strict({1: 2}, default=3, return_dtype=pl.Int8)]
    made += [column.cut(breaks, left_closed=closed) for breaks in BREAKS for closed in (False, True)]
    halves = column.cut([0.0])
    made += [column.cut([0.0], labels=["p", "q"]), column.cut([0.0], include_breaks=True)]
    return [*made, halves.to_physical(), halves.cast(pl.String, strict=False)]


def parsed(column: pl.Expr) -> list[pl.Expr]:
    """Text as dates and times."""
    made = [column.str.to_date("%Y"), column.str.to_date(), column.str.to_datetime(strict=False)]
    for to, form, exact in product(PARSED, FORMATS, (True, False)):
        made.append(column.str.strptime(to, form, strict=False, exact=exact))
    return made


def of_many_rows(column: pl.Expr) -> list[pl.Expr]:
    """Expressions whose result for a row depends on other rows, or that fail."""
    made = [getattr(column, each)() for each in OF_MANY_ROWS]
    made += [column.is_in([1]), column.sum().over("int64"), pl.int_range(pl.len()), pl.len(), column.qcut(2)]
    made += [column.map_batches(abs, return_dtype=pl.Int64), pl.all(), column.str.to_integer()]
    made += [pl.struct(column), column.implode(), column.name.suffix("x"), column.sort_by("int64")]
    return [*made, pl.lit(pl.Series([1, 2]))]


def binary(left: pl.Expr, right: pl.Expr) -> list[pl.Expr]:
    """Every operator on two expressions."""
    return [operate(left, right) for operate in OPERATORS.values()]


def admitted(expression: pl.Expr) -> bool:
    """Whether the list admits an expression, which also runs on made-up rows. It may say no in one way only."""
    try:
        check_steps(plan_steps(EMPTY.with_columns(expression.alias("made"))), EMPTY)
    except ValueError as error:
        if "must" not in str(error):
            raise
        return False
    try:
        for frame in MADE_UP:
            frame.lazy().select(expression).collect()
    except BaseException:
        return False
    return True


def check_row_wise(expressions: Sequence[pl.Expr], frame: pl.DataFrame, seed: int, alone: int) -> None:
    """Raises unless each row has the same results alone, in any order, and beside any others; and none fails."""
    rng = random.Random(seed)
    made = [each.alias(str(place)) for place, each in enumerate(expressions)]
    whole = _run(frame, made)
    order = rng.sample(range(len(frame)), len(frame))
    some = rng.sample(range(len(frame)), len(frame) // 3)
    pairs = [rng.sample(range(len(frame)), 2) for _ in range(alone)]
    for places in (order, some, *([place] for place in order[:alone]), *pairs, []):
        found = _run(frame[places] if places else frame.clear(), made)
        assert found.equals(whole[places] if places else whole.clear()), _different(found, whole[places], expressions)
    assert _run(frame, made, "streaming").equals(whole)


def _run(frame: pl.DataFrame, made: list[pl.Expr], engine: str = "in-memory") -> pl.DataFrame:
    found = frame.lazy().with_columns(made).collect(engine=engine).select(str(place) for place in range(len(made)))
    return found.with_columns(pl.col(pl.Categorical).cast(pl.String))


def _different(found: pl.DataFrame, expected: pl.DataFrame, expressions: Sequence[pl.Expr]) -> str:
    wrong = [str(expressions[int(name)]) for name in found.columns if not found[name].equals(expected[name])]
    return f"not row-wise: {wrong[:5]}"


def check_opendp_runs_the_same(expression: pl.Expr, frame: pl.DataFrame) -> bool:
    """Raises unless OpenDP refuses the step or gives what the expression gives. True if it admits it."""
    domain = dp.domain_of(EMPTY, infer=True)
    plan = EMPTY.with_columns(expression.alias("made"))
    try:
        steps = make_stable_lazyframe(
            domain, dp.symmetric_distance(), lazyframe=plan, MO="FrameDistance<SymmetricDistance>"
        )
    except dp.OpenDPException:
        return False
    theirs = steps(frame.lazy()).collect()["made"]
    ours = frame.with_columns(expression.alias("made"))["made"]
    if theirs.dtype == pl.Categorical:
        theirs, ours = theirs.cast(pl.String), ours.cast(pl.String)
    assert theirs.equals(ours), f"OpenDP runs {expression} otherwise"
    return True


def random_expression(rng: random.Random, depth: int) -> pl.Expr:
    """An expression of `depth` operations. Most are redrawn until they are admitted, so that deep ones are, too."""
    made = pl.col(rng.choice(list(DTYPES)))
    for _ in range(depth):
        grown = _grown(rng, made)
        for _ in range(rng.choice((0, 12, 12))):
            if admitted(grown):
                break
            grown = _grown(rng, made)
        made = grown
    return made


def _grown(rng: random.Random, made: pl.Expr) -> pl.Expr:
    """One operation more."""
    kind = rng.choice((unary, parsed, of_many_rows, binary, binary, binary))
    if kind is not binary:
        return rng.choice(kind(made))
    other = rng.choice((pl.lit(rng.choice(LITERALS)), pl.col(rng.choice(list(DTYPES))), made))
    return rng.choice(binary(made, other) if rng.random() < 0.8 else binary(other, made))


def fuzz(seed: int, cases: int) -> int:
    """Checks random expressions; raises on the first that is admitted and should not be."""
    dp.enable_features("contrib")
    rng = random.Random(seed)
    frame = edge_frame(40, seed)
    for _ in range(cases):
        expression = random_expression(rng, rng.randint(1, 3))
        if admitted(expression):
            try:
                check_row_wise([expression], frame, rng.randrange(2**32), alone=4)
                check_flags([expression], frame)
                check_opendp_runs_the_same(expression, frame)
            except BaseException as error:
                raise AssertionError(f"seed {seed}: {expression}") from error
    return cases


def check_flags(expressions: Sequence[pl.Expr], frame: pl.DataFrame) -> None:
    """Raises unless flags that columns are sorted, set wrongly on all, change no result, and none comes out wrong."""
    made = [each.alias(str(place)) for place, each in enumerate(expressions)]
    plain = _run(frame, made)
    for descending in (False, True):
        flagged = frame.with_columns(pl.all().set_sorted(descending=descending))
        for source in (flagged, flagged.lazy()):
            for engine in ("in-memory", "streaming"):
                found = narrowed(source, frame.columns).with_columns(made).collect(engine=engine)
                columns = found.select(str(place) for place in range(len(made)))
                texts = columns.with_columns(pl.col(pl.Categorical).cast(pl.String))
                assert texts.equals(plain), _different(texts, plain, expressions)
                wrong = [expressions[int(column.name)] for column in columns if _wrongly_flagged(column)]
                assert not wrong, f"wrongly flagged: {wrong[:5]}"


def _wrongly_flagged(column: pl.Series) -> bool:
    for flag, descending in (("SORTED_ASC", False), ("SORTED_DESC", True)):
        bare = pl.Series(column.to_arrow()) if column.flags[flag] else column
        if column.flags[flag] and not any(
            bare.is_sorted(descending=descending, nulls_last=last) for last in (False, True)
        ):
            return True
    return False
