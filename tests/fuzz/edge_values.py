"""Values at which Polars is known to raise, to panic or to wrap, for each data type."""

import polars as pl

ENUM = pl.Enum(["a", "b", "1"])
TIMES = [pl.Datetime(unit, zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC", "Europe/Brussels")]
DTYPES = {
    **{str(dtype).lower(): dtype for dtype in (pl.Int32, pl.Int64, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64)},
    **{"boolean": pl.Boolean, "string": pl.String, "date": pl.Date, "time": pl.Time, "enum": ENUM},
    **{f"datetime_{dtype.time_unit}_{dtype.time_zone}": dtype for dtype in TIMES},
    "categorical": pl.Categorical,
}
"""The data types that OpenDP knows, by the name of the column that has them here."""

_TEXTS = ["", "a", "b", "1", "-1", " 1", "1.5", "nan", "inf", "1e400", "9" * 40, "true", "\x00", "é\u0301", "𝔘" * 50]
_TEXTS += ["2020-01-01", "2020-02-30", "0000-00-00", "9999-12-31", "99999-01-01", "-262144-01-01", "+262143-12-31"]
_TEXTS += ["2021-03-28 02:30:00", "2021-10-31 02:30:00", "1677-01-01 00:00:00", "24:00:00", "23:59:60", "12:30:00"]
_TEXTS += ["01/02/2020", "Feb 03 2020", "200", "2020", "-5", "99999999999999", "10:30", "366", "2019-366", "5 AM"]
_TEXTS += ["292278994-08-17", "2020-01-01 00:00:00+99:99", "292277-01-01", "2262-04-12", "x" * 5_000, None]
_FLOATS = [0.0, -0.0, 1.0, -1.0, 1.5, 0.1, float("nan"), float("inf"), float("-inf"), 3e38, 1.7e308, 5e-324, 2.0**63]
_DAYS = [0, 1, -1, 18_262, -719_162, -719_163, 2_932_896, 2_932_897, 95_026_236, 95_026_237, -96_465_292, -96_465_293]
_TICKS_PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_TICKS = [0, 1, -1, 10**9, 10**15, 10**18, -(10**18), -(2**63), 2**63 - 1]
_OTHERS = {
    pl.Boolean: [True, False, None],
    pl.Binary: [b"", b"a", b"\xff", None],
    pl.List: [[], [1], [1, None], None],
    pl.Struct: [{"a": 1}, {"a": None}, None],
    pl.Null: [None],
    pl.Decimal: ["0", "1.25", None],
}


def _integers(dtype: pl.DataType) -> list[int | None]:
    """Both ends of the type, and what is near zero."""
    least, greatest = (pl.select(getattr(pl.lit(0, dtype), end)()).item() for end in ("lower_bound", "upper_bound"))
    near = [each for each in (-2, -1, 0, 1, 2, 3, 7, 1_000) if least <= each <= greatest]
    return list(dict.fromkeys([least, least + 1, greatest - 1, greatest, *near, None]))


def _physical(values: list[int | None], physical: pl.DataType, dtype: pl.DataType) -> pl.Series:
    """A column with these values underneath, whether or not the type has room for them."""
    codes = pl.Series(values, dtype=physical)
    # A null keeps an extreme value under it: functions that look there must not panic.
    data = codes.fill_null(strategy="max")
    return pl.Series._from_buffers(dtype, data, codes.is_not_null())


def edge_values(dtype: pl.DataType) -> pl.Series:
    """The edge values of a data type, null among them."""
    if dtype.is_integer():
        return _physical(_integers(dtype), dtype, dtype)
    if dtype.is_float():
        return pl.Series([*_FLOATS, None], dtype=dtype, strict=False)
    if dtype == pl.Date:
        return _physical([*_DAYS, -(2**31), 2**31 - 1, None], pl.Int32, dtype)
    if dtype == pl.Time:
        return _physical([0, 1, 86_399_999_999_999, 43_200 * 10**9, None], pl.Int64, dtype)
    if isinstance(dtype, pl.Datetime):
        day = _TICKS_PER_DAY[dtype.time_unit]
        ticks = [days * day + offset for days in _DAYS for offset in (0, -1, day // 7)]
        ticks += [day * 18_714 + day * 5 // 48, day * 18_931 + day * 5 // 48]  # gap and overlap of summer time
        return _physical([*(t for t in ticks if abs(t) < 2**63), *_TICKS[3:], None], pl.Int64, dtype)
    if dtype == pl.Duration:
        return _physical([*_TICKS, None], pl.Int64, dtype)
    if dtype == pl.Enum:
        return pl.Series([*dtype.categories, None], dtype=dtype)
    if dtype in (pl.String, pl.Categorical):
        return pl.Series(_TEXTS).cast(dtype)
    return pl.Series(_OTHERS[dtype.base_type()], strict=False).cast(dtype)


def edge_frame(rows: int, seed: int) -> pl.DataFrame:
    """One column for each data type, with its edge values in an order of its own, so that different ones meet."""
    columns = []
    for place, (name, dtype) in enumerate(DTYPES.items()):
        values = edge_values(dtype).alias(name)
        repeated = pl.concat([values] * (rows // len(values) + 1))
        columns.append(repeated.sample(rows, shuffle=True, seed=seed + place).rechunk())
    return pl.DataFrame(columns)
