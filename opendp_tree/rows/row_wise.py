"""The expressions that steps may hold: each gives every row a result of that row alone, and never fails.

OpenDP judges whether steps are stable. This list stands on top of that judgement, because OpenDP admits some
expressions that look at other rows or that fail on some values. Each entry is proved by a generated test,
`tests/rows/test_row_wise.py`, over all data types and edge values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from opendp_tree.rows.dtypes import INTEGERS, in_calendar, is_total_cast, step_kind
from opendp_tree.rows.plans import Node, PlanStep, read_expression

_MOST_NESTED = 60
MOST_JOINED = 32
"""So many times may all steps together join a literal to a text."""
LONGEST_LITERAL = 1000
"""So many bytes may a text have that is written in a step; a row's text becomes longer by 32 such at most."""
NUMBERS = ("integer", "float")
EQUALITY = ("Eq", "NotEq", "EqValidity", "NotEqValidity")
ORDER = ("Lt", "LtEq", "Gt", "GtEq")
ARITHMETIC = ("Plus", "Minus", "Multiply")
WHOLE_DIVISION = ("FloorDivide", "Modulus")
BITS = ("And", "Or", "Xor")
NAN_TESTS = ("IsFinite", "IsInfinite", "IsNan", "IsNotNan")
DATE_PARTS = ("Millennium", "Century", "Year", "IsoYear", "Quarter", "Month", "Week", "WeekDay", "Day", "OrdinalDay")
TIME_PARTS = ("Hour", "Minute", "Second", "Millisecond", "Microsecond", "Nanosecond")
PARTS = {"date": DATE_PARTS, "time": TIME_PARTS, "datetime": DATE_PARTS + TIME_PARTS}
FORMAT = re.compile(r"(?:[^%]|%[YmdHMSyjbBFTD])+")
"""Formats of dates and times that never make Polars raise."""
_SCALARS = ("Boolean", "String", "Null", *(str(each) for each in (*INTEGERS, pl.Float32, pl.Float64)))
_HINTS = {
    "plus": f"texts are joined to a literal of at most {LONGEST_LITERAL} bytes, not to each other",
    "literal": f"a number, a truth value, or a text of at most {LONGEST_LITERAL} bytes",
    "replace_strict": "replace_strict with a default, and no return_dtype",
    "strptime": "str.to_date with a format and strict=False; time zones, %I and %p are refused",
    "to_physical": "cast(pl.String, strict=False) for categories, whose codes depend on the order of rows",
    "true_divide": "multiply, or // of integers: Polars divides one row otherwise than many",
    "divide": "multiply, or // of integers: Polars divides one row otherwise than many",
    "fill_null": "a value of the column's own data type",
    "when": "fill_nan on floats, with a number",
    "over": 'truncate_per_group(k) with keep="sample": an unordered metric knows no first rows',
    "categorical": "cast(pl.String, strict=False) first: codes of categories depend on the order of rows",
}


def check_steps(steps: Sequence[PlanStep], frame: pl.LazyFrame) -> None:
    """Refuses steps that are not row-wise and total, by name. `frame` has the schema that they start from, no rows."""
    check_growth(steps)
    for step in steps:
        for node in step.nodes:
            if not (step.method == "filter" and is_truncation(node, frame)):
                check_expression(node, frame)
        if step.method == "select" and not any(_has_column(node) for node in step.nodes):
            raise ValueError("select must take at least one column: literals alone are one row. Hint: with_columns")
        try:
            frame = step.take(frame)
            frame.collect_schema()
        except Exception as error:
            raise ValueError(f"{step.method} must suit the columns that it is used on. Polars says: {error}") from error


def check_growth(nodes: Any) -> None:
    """Refuses steps that join texts too often: without a limit, doublings of one row's text would fill any memory."""
    if _joined(nodes) > MOST_JOINED:
        raise ValueError(
            f"steps must join texts at most {MOST_JOINED} times in all. Hint: one column of labels, by replace_strict"
        )


def _joined(node: Any) -> int:
    """How many literals are joined to texts."""
    if isinstance(node, PlanStep):
        node = node.nodes
    if isinstance(node, (list, tuple)):
        return sum(map(_joined, node))
    if not isinstance(node, dict):
        return 0
    inner = node.get("BinaryExpr", {})
    own = inner.get("op") == "Plus" and any(_is_text(inner[side]) for side in ("left", "right"))
    return own + sum(map(_joined, node.values()))


def _is_text(node: Node) -> bool:
    """Whether this is a literal text."""
    value = node.get("Literal") if isinstance(node, dict) else None
    return isinstance(value, dict) and any(
        kind in (value.get("Dyn") or value.get("Scalar") or {}) for kind in ("Str", "String")
    )


def check_expression(node: Node, frame: pl.LazyFrame, depth: int = 0) -> None:
    """Refuses an expression that is not row-wise and total on frames of this schema."""
    if depth > _MOST_NESTED:
        raise ValueError(f"a step must not be nested more than {_MOST_NESTED} deep. Hint: with_columns for its parts")
    name, operands = _read(node)
    for operand in operands:
        if not _is_list(operand):
            check_expression(operand, frame, depth + 1)
    dtypes = [_dtype(operand, frame, name) for operand in operands]
    if not _allowed(node, dtypes, frame):
        kinds = [step_kind(dtype) for dtype in dtypes]
        hint = _HINTS.get("categorical" if "categorical" in kinds and name != "to_physical" else name, _hint(node))
        types = f" of {', '.join(map(str, dtypes))}" if dtypes else ""
        raise ValueError(f"a step's expression ({name}{types}) must be row-wise and never fail. Hint: {hint}")


def _hint(node: Node) -> str:
    name = _read(node)[0]
    if name in map(_snake, PARTS["datetime"]):
        return 'cast(pl.Date, strict=False) first, or cast(pl.Datetime("ns"), strict=False) for hours'
    if "Cast" not in node:
        return "filter, select and with_columns with the expressions on the page about leaf counts"
    return "cast(..., strict=False); text becomes a date by str.to_date, a date a number by dt.year"


def _read(node: Node) -> tuple[str, list[Node]]:
    """The name of an expression, as its user knows it, and the expressions that it is made of."""
    if not isinstance(node, dict):
        return _snake(str(node)), []
    kind, inner = next(iter(node.items()))
    if kind == "Alias":
        return "alias", inner[:1]
    if kind == "BinaryExpr":
        return _snake(inner["op"]), [inner["left"], inner["right"]]
    if kind == "Cast":
        return ("cast" if inner["options"] == "NonStrict" else f"{inner['options'].lower()} cast"), [inner["expr"]]
    if kind == "Ternary":
        return "when", [inner["predicate"], inner["truthy"], inner["falsy"]]
    if kind == "Function":
        return _snake(_function(inner["function"])[0]), inner["input"]
    return _snake(next(iter(inner)) if kind == "Agg" else kind), []


def _function(function: Node) -> tuple[str, Node]:
    """The innermost name of a function, and its options."""
    options = None
    while isinstance(function, dict) and function:
        name, options = next(iter(function.items()))
        if not (name.endswith("Expr") or name == "Boolean"):
            return name, options
        function = options
    return str(function), None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _dtype(node: Node, frame: pl.LazyFrame, name: str) -> pl.DataType:
    try:
        return frame.select(read_expression(node).alias("value")).collect_schema()["value"]
    except Exception as error:
        raise ValueError(f"a step's expression ({name}) must suit its columns. Polars says: {error}") from error


def _allowed(node: Node, dtypes: list[pl.DataType], frame: pl.LazyFrame) -> bool:
    """Whether an expression is on the list, once its operands are."""
    if not isinstance(node, dict):
        return False
    kind, inner = next(iter(node.items()))
    kinds = [step_kind(dtype) for dtype in dtypes]
    if kind in ("Column", "Alias"):
        return True
    if kind == "Literal":
        value = inner.get("Dyn") or inner.get("Scalar")
        known = value is not None and next(iter(value)) in ("Int", "Float", "Str", *_SCALARS)
        return known and _is_short(node)
    if kind == "BinaryExpr":
        made = step_kind(_dtype(node, frame, "expression"))
        if "text" in kinds and inner["op"] == "Plus" and not (_is_text(inner["left"]) or _is_text(inner["right"])):
            return False
        return _binary(inner["op"], dtypes, kinds) and made != "other" and (inner["op"] not in BITS or made == kinds[0])
    if kind == "Cast":
        to = _dtype(node, frame, "cast")
        return inner["options"] == "NonStrict" and is_total_cast(dtypes[0], to)
    if kind == "Ternary":
        filled = _filled(node, inner["truthy"], inner["falsy"], frame)
        return kinds[0] == "truth" and _same(kinds[1:]) and filled
    if kind == "Function":
        if _function(inner["function"])[0] == "FillNull" and not _filled(
            node, inner["input"][0], inner["input"][1], frame
        ):
            return False
        return _call(*_function(inner["function"]), inner["input"], dtypes, kinds)
    return False


def _filled(node: Node, column: Node, value: Node, frame: pl.LazyFrame) -> bool:
    """Whether a literal fills gaps in a column of its own type. Polars would cast another strictly, which may fail."""
    return _has_column(column) and "Literal" in value and _dtype(node, frame, "fill") == _dtype(column, frame, "fill")


def _same(kinds: Sequence[str]) -> bool:
    """Whether values are all numbers, all text, or all truths."""
    return all(kind in NUMBERS for kind in kinds) or set(kinds) in ({"text"}, {"truth"})


def _binary(op: str, dtypes: list[pl.DataType], kinds: list[str]) -> bool:
    if op in (*EQUALITY, *ORDER):
        alike = dtypes[0] == dtypes[1] and kinds[0] in ("date", "time", "datetime")
        named = set(kinds) == {"enum", "text"} or (kinds == ["enum", "enum"] and dtypes[0] == dtypes[1])
        return _same(kinds) or alike or (op in EQUALITY and named)
    if op in ARITHMETIC:
        return all(kind in NUMBERS for kind in kinds) or (op == "Plus" and kinds == ["text", "text"])
    if op in WHOLE_DIVISION:
        return kinds == ["integer", "integer"]
    return op in BITS and kinds in (["integer", "integer"], ["truth", "truth"])


def _call(name: str, options: Node, inputs: list[Node], dtypes: list[pl.DataType], kinds: list[str]) -> bool:
    first = kinds[0] if kinds else ""
    if name in ("IsNull", "IsNotNull"):
        return first != "other"
    if name in NAN_TESTS:
        return first in NUMBERS
    if name == "Not":
        return first in ("truth", "integer")
    if name == "ToPhysical":
        return first in ("integer", "float", "truth", "text", "date", "time", "datetime")
    if name == "Clip":
        # Polars broadcasts a bound of one row, so that a bound that is a column is not taken row by row.
        return all(kind in NUMBERS for kind in kinds) and not any(map(_has_column, inputs[1:]))
    if name == "FillNull":
        return _same(kinds)
    if name == "Cut":
        short = all(len(label.encode()) <= LONGEST_LITERAL for label in options["labels"] or ())
        return first in NUMBERS and not options["include_breaks"] and short
    if name in ("Replace", "ReplaceStrict"):
        return _replace(name, options, inputs, dtypes, kinds)
    if name == "Strptime":
        return _strptime(options, kinds)
    if name in PARTS.get(first, ()):
        return first != "datetime" or in_calendar(dtypes[0])
    return False


def _replace(name: str, options: Node, inputs: list[Node], dtypes: list[pl.DataType], kinds: list[str]) -> bool:
    if len(inputs) < 3 or not all(_is_list(each) for each in inputs[1:3]):
        return False
    if not all(_is_short(each) for each in inputs[1:3]):
        return False
    old, new = (step_kind(dtype.inner) for dtype in dtypes[1:3] if isinstance(dtype, pl.List))
    if not _same([kinds[0], old]):
        return False
    if name == "Replace":
        return len(inputs) == 3 and (dtypes[0] == pl.Float64 or old == kinds[0]) and _same([kinds[0], new])
    # Two old values of another kind may become one value of the column's, and then a row has two matches.
    plain = options["return_dtype"] is None and len(inputs) == 4 and old == kinds[0]
    return plain and new in (*NUMBERS, "text", "truth") and (dtypes[3] == pl.Null or _same([new, kinds[3]]))


def _strptime(options: Node, kinds: list[str]) -> bool:
    to, parsing = options
    naive = to["Literal"] in (
        "Date",
        "Time",
        *({"Datetime": [unit, None]} for unit in ("Milliseconds", "Microseconds")),
    )
    form = parsing["format"] or ""
    known = FORMAT.fullmatch(form) is not None and ("%H" in form) == ("%M" in form)
    return kinds[0] == "text" and naive and known and parsing["exact"] and not parsing["strict"]


def _is_list(node: Node) -> bool:
    """Whether this is a literal list, of which only replacements have a use."""
    return isinstance(node, dict) and "List" in (node.get("Literal") or {}).get("Scalar", {})


def _is_short(node: Node) -> bool:
    """Whether the texts of a literal, or of a literal list, are no longer than a step may write."""
    texts = pl.select(read_expression(node).alias("text"))["text"]
    if isinstance(texts.dtype, pl.List):
        texts = texts.explode()
    return texts.dtype != pl.String or not (texts.str.len_bytes() > LONGEST_LITERAL).any()


def _has_column(node: Node) -> bool:
    if isinstance(node, dict):
        return "Column" in node or any(_has_column(each) for each in node.values())
    return isinstance(node, list) and any(_has_column(each) for each in node)


_ENUMERATION = {
    "Function": {
        "input": [{"Literal": {"Dyn": {"Int": 0}}}, "Len"],
        "function": {"Range": {"IntRange": {"step": 1, "dtype": {"Literal": "Int64"}}}},
    }
}
_SHUFFLE = {"Function": {"input": [_ENUMERATION], "function": {"Random": {"method": "Shuffle", "seed": None}}}}


def is_truncation(node: Node, frame: pl.LazyFrame) -> bool:
    """Whether a filter is one of OpenDP's truncations that do not depend on the order of rows."""
    compared = node.get("BinaryExpr", {}) if isinstance(node, dict) else {}
    if compared.get("op") != "Lt" or "Over" not in compared["left"] or "Literal" not in compared["right"]:
        return False
    over = compared["left"]["Over"]
    columns = all("Column" in each for each in over["partition_by"])
    if not columns or over["order_by"] is not None or over["mapping"] != "GroupsToRows":
        return False
    return bool(over["function"] == _SHUFFLE) or _is_value_rank(over["function"], frame)


def shuffles(steps: Sequence[PlanStep]) -> bool:
    """Whether a step draws at random which rows are kept."""
    return any("Random" in str(node) for step in steps for node in step.nodes)


def _is_value_rank(node: Node, frame: pl.LazyFrame) -> bool:
    """Whether this ranks tuples of columns by their values, or by a hash of them, equal tuples alike."""
    name, options = _function(node["Function"]["function"]) if "Function" in node else ("", None)
    if name != "Rank" or options is None or options["options"]["method"] != "Dense" or options["seed"] is not None:
        return False
    ranked = node["Function"]["input"][0]
    fields = _struct_fields(ranked)
    if len(fields) == 2 and _struct_fields(fields[1]):
        hashed = fields[0].get("Function", {})
        if _function(hashed.get("function"))[0] != "Hash" or hashed["input"] != [fields[1]]:
            return False
        fields = _struct_fields(fields[1])
    if not fields or not all("Column" in field for field in fields):
        return False
    kinds = {step_kind(_dtype(field, frame, "truncate_num_groups")) for field in fields}
    return not kinds & {"other", "categorical", "float"}


def _struct_fields(node: Node) -> list[Node]:
    call = node.get("Function", {}) if isinstance(node, dict) else {}
    return list(call["input"]) if call.get("function") == "AsStruct" else []
