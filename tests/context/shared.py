"""The frame and the two kinds of Contexts over it that these tests use."""

import opendp.prelude as dp
import polars as pl

from opendp_tree import Tree, frame_context

VISITS = pl.DataFrame(
    {
        "user": [row % 300 for row in range(1300)],
        "country": ["be"] * 900 + ["lu"] * 400,
        "city": ["ghent"] * 800 + ["liege"] * 100 + ["lux"] * 400,
    }
)
ROW = dp.unit_of(contributions=1)
PERSON = dp.unit_of(contributions=1, identifier="user")
PAIR = dp.loss_of(epsilon=1.0, delta=1e-6)
SURE = 1 - 1e-9
PUBLIC = Tree.from_paths([("be",), ("lu",)])


def contexts(unit, loss, **split):
    """The same budget over the same frame, by OpenDP's own road and by reference."""
    through = dp.Context.compositor(data=VISITS.lazy(), privacy_unit=unit, privacy_loss=loss, **split)
    return through, frame_context(VISITS, privacy_unit=unit, privacy_loss=loss, **split)
