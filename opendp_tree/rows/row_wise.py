"""The expressions that steps may hold: each computes a row's result from that row alone, and never fails.

OpenDP judges whether steps are stable. This list is a further check, because OpenDP admits some expressions that depend
on other rows or fail on some values. Each entry is tested over all data types and edge values by
`tests/rows/test_row_wise.py`.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from io import StringIO
from typing import Any, NamedTuple

import polars as pl

from opendp_tree.rows.domains import INTEGERS, in_calendar, is_total_cast, step_kind

Node = Any
"""An expression as Polars serializes it: nested dictionaries, lists, names and numbers."""
MOST_JOINED = 32
"""How often all steps together may join a literal to a text."""
LONGEST_LITERAL = 1000
"""The most bytes of a text that is written in a step."""
NUMBERS = ("integer", "float")
DATE_PARTS = ("Millennium", "Century", "Year", "IsoYear", "Quarter", "Month", "Week", "WeekDay", "Day", "OrdinalDay")
TIME_PARTS = ("Hour", "Minute", "Second", "Millisecond", "Microsecond", "Nanosecond")
FORMAT = re.compile(r"(?:[^%]|%[YmdHMSyjbBFTD])+")
"""Formats of dates and times with which Polars never raises."""
_MOST_NESTED = 60
_METHODS = {"Filter": ("filter", "predicate"), "HStack": ("with_columns", "exprs"), "Select": ("select", "expr")}
_NAMES = {"GroupBy": "group_by", "Join": "join", "Sort": "sort", "Slice": "slice", "Distinct": "unique"}
_INTEGER_LITERALS = ("Int", *map(str, INTEGERS))
_LITERALS = (*_INTEGER_LITERALS, "Float", "Float32", "Float64", "Str", "String", "Boolean", "Null")
_PARSED = ("Date", "Time", *({"Datetime": [unit, None]} for unit in ("Milliseconds", "Microseconds")))
_OPERANDS = {"BinaryExpr": ("left", "right"), "Cast": ("expr",), "Ternary": ("predicate", "truthy", "falsy")}
_DIVISION = "multiply, or // of integers: Polars divides one row otherwise than many"
_HINTS = {
    "plus": f"texts are joined to a literal of at most {LONGEST_LITERAL} bytes, not to each other",
    "literal": f"a number, a truth value, or a text of at most {LONGEST_LITERAL} bytes",
    "replace_strict": "replace_strict with a default, and no return_dtype",
    "strptime": "str.to_date with a format and strict=False; time zones, %I and %p are refused",
    "is_in": 'OpenDP has no is_in: (pl.col("state") == "CA") | (pl.col("state") == "TX")',
    "to_physical": "cast(pl.String, strict=False) for categories, whose codes depend on the order of rows",
    "true_divide": _DIVISION,
    "divide": _DIVISION,
    "fill_null": "a value of the column's own data type",
    "when": "fill_nan on floats, with a number",
    "over": 'truncate_per_group(k) with an integer k from 1 and keep="sample": an unordered metric knows no first rows',
    "cut": "finite breaks, and no include_breaks",
    "categorical": "cast(pl.String, strict=False) first: codes of categories depend on the order of rows",
    "cast": "cast(..., strict=False); text becomes a date by str.to_date, a date a number by dt.year",
    "part": 'cast(pl.Date, strict=False) first, or cast(pl.Datetime("ns"), strict=False) for hours',
    "other": "filter, select and with_columns with the expressions on the page about leaf counts",
}


class PlanStep(NamedTuple):
    """A method of lazy frames, and its expressions."""

    method: str
    nodes: tuple[Node, ...]


def plan_steps(plan: pl.LazyFrame) -> tuple[PlanStep, ...]:
    """The steps of a plan, from the first to the last. Any other than filter, select and with_columns is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # another version of Polars may change this form; the tests read every step
        text = plan.serialize(format="json")
    try:
        node = json.loads(text)
    except RecursionError:
        raise ValueError("a step must be nested less deeply. Hint: name parts of it by with_columns first") from None
    steps: list[PlanStep] = []
    while (kind := next(iter(node))) != "DataFrameScan":
        inner = node[kind]
        if kind == "IR":  # a plan whose schema was asked for
            node = inner["dsl"]
            continue
        if kind not in _METHODS:
            raise ValueError(
                f"a step ({_NAMES.get(kind, kind)}) must be filter, select, with_columns or OpenDP's truncation. "
                "Hint: tree_counts groups and counts rows; who contributes how many is bounded by unit=Unit(...)"
            )
        method, key = _METHODS[kind]
        nodes = inner[key]
        steps.append(PlanStep(method, tuple(nodes) if isinstance(nodes, list) else (nodes,)))
        node = inner["input"]
    return tuple(reversed(steps))


def read_expression(node: Node) -> pl.Expr:
    """An expression for its data type alone: floats may differ in their last bit, or be zero."""
    # JSON has no NaN or infinity: Polars writes null, and cannot read it.
    text = re.sub(r'("Float(?:32|64)?": )null', r"\g<1>0.0", json.dumps(node))
    return pl.Expr.deserialize(StringIO(text), format="json")


def check_steps(steps: Sequence[PlanStep], frame: pl.LazyFrame) -> None:
    """Refuses steps that are not row-wise and total. `frame` has the schema that they start from, and no rows."""
    if sum(_joined(step.nodes) for step in steps) > MOST_JOINED:
        raise ValueError(
            f"steps must join texts at most {MOST_JOINED} times in all. Hint: one column of labels, by replace_strict"
        )
    for step in steps:
        for node in step.nodes:
            if not (step.method == "filter" and is_truncation(node, frame)):
                _check_expression(node, frame)
        if step.method == "select" and not column_names(step.nodes):
            raise ValueError("select must take at least one column: literals alone are one row. Hint: with_columns")
        try:
            frame = getattr(frame, step.method)([read_expression(node) for node in step.nodes])
            frame.collect_schema()
        except Exception as error:
            raise ValueError(f"{step.method} must suit the columns that it is used on. Polars says: {error}") from error


def _joined(node: Any) -> int:
    """The number of literals that are joined to texts."""
    if isinstance(node, (list, tuple)):
        return sum(map(_joined, node))
    if not isinstance(node, dict):
        return 0
    inner = node.get("BinaryExpr")  # a text, such as "Size", for functions of bytes
    joins = isinstance(inner, dict) and inner.get("op") == "Plus" and any(map(_is_text, inner.values()))
    return joins + sum(map(_joined, node.values()))


def _check_expression(node: Node, frame: pl.LazyFrame, depth: int = 0) -> None:
    """Refuses an expression that is not row-wise and total on frames of this schema."""
    if depth > _MOST_NESTED:
        raise ValueError(f"a step must not be nested more than {_MOST_NESTED} deep. Hint: with_columns for its parts")
    each = Expression(node, frame)
    for operand in each.operands:
        if not _is_list(operand):
            _check_expression(operand, frame, depth + 1)
    if not each.is_admitted():
        other = "part" if each.name in DATE_PARTS + TIME_PARTS else "cast" if each.form == "Cast" else "other"
        if "categorical" in each.kinds and each.name != "ToPhysical":
            hint = _HINTS["categorical"]
        else:
            hint = _HINTS.get(each.words, _HINTS[other])
        types = f" of {', '.join(map(str, each.dtypes))}" if each.dtypes else ""
        raise ValueError(f"a step's expression ({each.words}{types}) must be row-wise and never fail. Hint: {hint}")


class Expression:
    """One expression of a step, on frames of a schema: its form, name and options in Polars, and its operands."""

    def __init__(self, node: Node, frame: pl.LazyFrame) -> None:
        head: tuple[str, Any] = next(iter(node.items())) if isinstance(node, dict) else ("", None)
        self.node, self.frame, (self.form, inner) = node, frame, head
        self.name, self.options, self.operands = self.form or str(node), None, []  # type: str, Any, list[Node]
        if self.form == "Function":
            self.name, self.options = _function(inner["function"])
            self.operands = inner["input"]
        elif self.form == "Agg":
            self.name = next(iter(inner))
        elif self.form == "Alias":
            self.operands = inner[:1]
        elif self.form in _OPERANDS:
            self.name, self.options = inner.get("op", self.form), inner.get("options")
            self.operands = [inner[key] for key in _OPERANDS[self.form]]

    @property
    def words(self) -> str:
        """The name of the expression, as users write it."""
        if self.form == "Cast":
            return "cast" if self.options == "NonStrict" else f"{str(self.options).lower()} cast"
        return "when" if self.form == "Ternary" else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()

    @cached_property
    def dtypes(self) -> list[pl.DataType]:
        """The data types of the operands."""
        return [self.dtype(operand) for operand in self.operands]

    @cached_property
    def kinds(self) -> list[str]:
        """What the operands hold."""
        return [step_kind(dtype) for dtype in self.dtypes]

    @property
    def first(self) -> str:
        """What the first operand holds."""
        return self.kinds[0] if self.kinds else ""

    def dtype(self, node: Node) -> pl.DataType:
        """The data type of an expression on the same frame."""
        try:
            return self.frame.select(read_expression(node).alias("value")).collect_schema()["value"]
        except Exception as error:
            reason = f"must suit its columns. Polars says: {error}"
            raise ValueError(f"a step's expression ({self.words}) {reason}") from error

    def is_admitted(self) -> bool:
        """Whether the expression is on the list, once its operands are."""
        table = {"BinaryExpr": _OPERATORS, "Function": _FUNCTIONS}.get(self.form, _FORMS)
        if self.name not in table or (table is _FORMS and self.name != self.form):
            return False
        made = step_kind(self.dtype(self.node)) if table is _OPERATORS else ""
        return made != "other" and (self.name not in _BITS or made == self.first) and table[self.name](self)

    def fills(self, column: Node, value: Node) -> bool:
        """Whether a literal fills gaps in a column of its own type: Polars casts another strictly, which may fail."""
        return bool(column_names(column)) and "Literal" in value and self.dtype(self.node) == self.dtype(column)


def _function(function: Node) -> tuple[str, Node]:
    """The innermost name of a function, and its options."""
    options = None
    while isinstance(function, dict) and function:
        name, options = next(iter(function.items()))
        if not (name.endswith("Expr") or name == "Boolean"):
            return name, options
        function = options
    return str(function), None


def _are_numbers(kinds: Sequence[str]) -> bool:
    return all(kind in NUMBERS for kind in kinds)


def _same(kinds: Sequence[str]) -> bool:
    """Whether values are all numbers, all text, or all truths."""
    return _are_numbers(kinds) or set(kinds) in ({"text"}, {"boolean"})


def _ordered(each: Expression) -> bool:
    return _same(each.kinds) or (each.dtypes[0] == each.dtypes[1] and each.first in ("date", "time", "datetime"))


def _equal(each: Expression) -> bool:
    named = each.kinds == ["enum", "enum"] and each.dtypes[0] == each.dtypes[1]
    return named or set(each.kinds) == {"enum", "text"} or _ordered(each)


def _cut(each: Expression) -> bool:
    short = all(len(label.encode()) <= LONGEST_LITERAL for label in each.options["labels"] or ())
    finite = None not in each.options["breaks"]  # JSON has no infinity
    return each.first in NUMBERS and not each.options["include_breaks"] and finite and short


def _replace(each: Expression) -> bool:
    if len(each.operands) < 3 or not all(_is_list(node) and _is_short(node) for node in each.operands[1:3]):
        return False
    old, new = (step_kind(dtype.inner) for dtype in each.dtypes[1:3] if isinstance(dtype, pl.List))
    if not _same([each.first, old]):
        return False
    if each.name == "Replace":
        unchanged = each.dtypes[0] == pl.Float64 or old == each.first
        return len(each.operands) == 3 and unchanged and _same([each.first, new])
    # Two old values of another kind may become one value of the column's, and then a row has two matches.
    plain = each.options["return_dtype"] is None and len(each.operands) == 4 and old == each.first
    return plain and new in (*NUMBERS, "text", "boolean") and (each.dtypes[3] == pl.Null or _same([new, each.kinds[3]]))


def _strptime(each: Expression) -> bool:
    to, parsing = each.options
    form = parsing["format"] or ""
    known = FORMAT.fullmatch(form) is not None and ("%H" in form) == ("%M" in form)
    plain = to["Literal"] in _PARSED and parsing["exact"] and not parsing["strict"]
    return each.first == "text" and known and plain and all(map(_is_text, each.operands[1:]))


def _has_part(each: Expression, kind: str) -> bool:
    return each.first == kind or (each.first == "datetime" and in_calendar(each.dtypes[0]))


_WHOLE, _TRUTHS, _TWO_TEXTS = ["integer", "integer"], ["boolean", "boolean"], ["text", "text"]
_BITS = ("And", "Or", "Xor")
_OPERATORS: dict[str, Callable[[Expression], bool]] = {
    **dict.fromkeys(("Lt", "LtEq", "Gt", "GtEq"), _ordered),
    **dict.fromkeys(("Eq", "NotEq", "EqValidity", "NotEqValidity"), _equal),
    **dict.fromkeys(("Minus", "Multiply"), lambda each: _are_numbers(each.kinds)),
    "Plus": lambda each: _are_numbers(each.kinds) or (each.kinds == _TWO_TEXTS and any(map(_is_text, each.operands))),
    **dict.fromkeys(("FloorDivide", "Modulus"), lambda each: each.kinds == _WHOLE),
    **dict.fromkeys(_BITS, lambda each: each.kinds in (_WHOLE, _TRUTHS)),
}
_FUNCTIONS: dict[str, Callable[[Expression], bool]] = {
    **dict.fromkeys(("IsNull", "IsNotNull"), lambda each: each.first != "other"),
    **dict.fromkeys(("IsFinite", "IsInfinite", "IsNan", "IsNotNan"), lambda each: each.first in NUMBERS),
    "Not": lambda each: each.first in ("boolean", "integer"),
    "ToPhysical": lambda each: each.first in ("integer", "float", "boolean", "text", "date", "time", "datetime"),
    # Polars broadcasts a bound of one row, so a bound that is a column is not applied row by row.
    "Clip": lambda each: _are_numbers(each.kinds) and not column_names(each.operands[1:]),
    "FillNull": lambda each: _same(each.kinds) and each.fills(*each.operands[:2]),
    "Cut": _cut,
    **dict.fromkeys(("Replace", "ReplaceStrict"), _replace),
    "Strptime": _strptime,
    **dict.fromkeys(DATE_PARTS, lambda each: _has_part(each, "date")),
    **dict.fromkeys(TIME_PARTS, lambda each: _has_part(each, "time")),
}
_FORMS: dict[str, Callable[[Expression], bool]] = {
    **dict.fromkeys(("Column", "Alias"), lambda each: True),
    "Literal": lambda each: _literal_value(each.node)[0] in _LITERALS and _is_short(each.node),
    "Cast": lambda each: each.options == "NonStrict" and is_total_cast(each.dtypes[0], each.dtype(each.node)),
    "Ternary": lambda each: each.first == "boolean" and _same(each.kinds[1:]) and each.fills(*each.operands[1:]),
}
"""All that is admitted: operators, functions, and other forms, each with a condition on its operands."""


def _literal_value(node: Node) -> tuple[str, Any]:
    """The type of a literal in Polars, and its value; an empty type for all other expressions."""
    literal = node.get("Literal") if isinstance(node, dict) else None
    value = (literal.get("Dyn") or literal.get("Scalar")) if isinstance(literal, dict) else None
    return next(iter(value.items())) if isinstance(value, dict) else ("", None)


def _is_text(node: Node) -> bool:
    """Whether this is a literal text."""
    return _literal_value(node)[0] in ("Str", "String")


def _is_list(node: Node) -> bool:
    """Whether this is a literal list, which only replacements may have."""
    return _literal_value(node)[0] == "List"


def _is_short(node: Node) -> bool:
    """Whether the texts of a literal, or of a literal list, are within `LONGEST_LITERAL`."""
    texts = pl.select(read_expression(node).alias("text"))["text"]
    if isinstance(texts.dtype, pl.List):
        texts = texts.explode()
    return texts.dtype != pl.String or not (texts.str.len_bytes() > LONGEST_LITERAL).any()


def column_names(node: Node) -> list[str]:
    """The names of the columns in an expression, each once."""
    names: dict[str, None] = {}
    if isinstance(node, dict):
        if "Column" in node:
            names[node["Column"]] = None
        node = list(node.values())
    for each in node if isinstance(node, (list, tuple)) else ():
        names.update(dict.fromkeys(column_names(each)))
    return list(names)


def is_truncation(node: Node, frame: pl.LazyFrame) -> bool:
    """Whether a filter is one of OpenDP's truncations that do not depend on the order of rows."""
    compared = node.get("BinaryExpr", {}) if isinstance(node, dict) else {}
    if compared.get("op") != "Lt" or "Over" not in compared["left"]:
        return False
    # OpenDP reads the limit as an integer of 32 bits and rounds a fraction down, but Polars does not.
    kind, limit = _literal_value(compared["right"])
    is_integer = kind in _INTEGER_LITERALS and 1 <= limit < 2**32
    over = compared["left"]["Over"]
    by_columns = all("Column" in each for each in over["partition_by"])
    if not (is_integer and by_columns) or over["order_by"] is not None or over["mapping"] != "GroupsToRows":
        return False
    order, names, schema = read_expression(over["function"]), column_names(over["function"]), frame.collect_schema()
    if not names:
        return order.meta.eq(pl.int_range(pl.len()).shuffle())
    if {step_kind(schema[name]) if name in schema else "other" for name in names} & {"other", "categorical", "float"}:
        return False
    # Ranks of tuples by their values, or by a hash of them: equal tuples have the same rank.
    tuples = pl.struct(names)
    ranks = [tuples.rank("dense", descending=descending) for descending in (False, True)]
    return any(map(order.meta.eq, [*ranks, pl.struct(tuples.hash(), tuples).rank("dense")]))
