import json
from dataclasses import replace

import numpy as np
import pytest

from opendp_tree import Tree, TreeRelease
from opendp_tree.releases.values import NodeValues, value_columns, values_of_rest

TREE = Tree.from_paths([("be", "ghent"), ("be", "liege"), ("lu",)], names=["country", "city"])
COUNTS = np.array([100.0, 80.0, 50.0, 20.0, 15.0])
SUMS = COUNTS * 3


def node_values(name="amount"):
    return NodeValues(name, 0.0, 5.0, SUMS, SUMS - 9, SUMS + 9, SUMS / COUNTS, SUMS / COUNTS - 1, SUMS / COUNTS + 1)


def release(*names):
    values = tuple(node_values(name) for name in names)
    shown = np.array([True, True, True, False, True])
    return TreeRelease(TREE, COUNTS, COUNTS - 5, COUNTS + 5, 0.95, None, shown=shown, values=values)


def test_columns_stand_beside_the_counts_and_have_names_where_there_are_several():
    assert release("amount").to_frame(other=False).columns[:10] == [
        "path", "estimate", "lower", "upper", "sum", "sum_lower", "sum_upper", "mean", "mean_lower", "mean_upper",
    ]  # fmt: skip
    several = release("amount", "delay").to_frame().columns
    assert several[4] == "amount_sum"
    assert several[15] == "delay_mean_upper"
    assert release().to_frame().columns == [
        name for name in release("a").to_frame().columns if name not in value_columns([node_values()])
    ]


def test_other_rows_hold_the_rest_of_sums_and_no_ends():
    rest = release("amount").to_frame().filter("other").sort("level")
    (below,) = rest.filter(rest["level"] == 2).rows(named=True)
    hidden = 80.0 - 50.0 if below["country"] == "be" else None
    assert below["estimate"] == pytest.approx(hidden)
    assert below["sum"] == pytest.approx(3 * hidden)
    assert below["mean"] == pytest.approx(3)
    assert below["mean_lower"] is below["sum_upper"] is None


def test_a_rest_without_rows_has_no_mean():
    values = [node_values()]
    rest = values_of_rest(values, value_columns(values), np.array([0.0, -2.0]), lambda sums: sums[:2])
    assert np.isnan(rest["mean"]).all()
    assert rest["sum"].tolist() == SUMS[:2].tolist()


@pytest.mark.parametrize(("total", "mean"), [(1e6, 5.0), (-1e6, 0.0), (1e308, 5.0)])
@pytest.mark.parametrize("names", [("amount",), ("amount", "delay")])
def test_means_of_other_rows_stay_within_the_bounds(names, total, mean):
    made = release(*names)
    sums = np.where(np.arange(5) == 1, total, SUMS)
    counts = np.where(np.arange(5) == 1, 50.0 + 1e-6, COUNTS)  # almost nobody is left below the node
    rest = replace(made, estimates=counts, values=tuple(replace(each, sum=sums) for each in made.values))
    (below,) = rest.to_frame().filter("other").filter(level=2).rows(named=True)
    assert below["sum" if len(names) == 1 else "amount_sum"] == total - 150
    for name in ("mean",) if len(names) == 1 else ("amount_mean", "delay_mean"):
        assert below[name] == mean


@pytest.mark.parametrize("names", [(), ("amount",), ("amount", "delay")])
def test_json_brings_back_every_number(names):
    made = release(*names)
    odd = {"sum_upper": np.full(5, np.inf), "mean": np.full(5, np.nan)}
    made = replace(made, values=tuple(replace(each, **odd) for each in made.values))
    again = TreeRelease.from_json(made.to_json())
    assert again.to_frame().equals(made.to_frame())
    assert [each.name for each in again.values] == list(names)


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.append(3),
        lambda values: values.append(values[0]),
        lambda values: values[0].pop("mean"),
        lambda values: values[0]["sum"].pop(),
        lambda values: values[0].update(low="x"),
        lambda values: values[0]["sum_lower"].__setitem__(0, None),
    ],
)
def test_texts_that_say_nonsense_are_refused(change):
    parts = json.loads(release("amount").to_json())
    change(parts["values"])
    with pytest.raises(ValueError, match='"'):
        TreeRelease.from_json(json.dumps(parts))


def test_words_and_tables_say_what_is_summed():
    made = release("amount")
    assert "Sums and means: amount clipped to [0, 5]; the median interval of a mean extends 1 from" in made.describe()
    assert "mean" in repr(made).splitlines()[0]
    assert "mean" in made._repr_html_()
    assert "Sums" not in release().describe()
