"""The frame and the two kinds of Contexts over it that these tests use."""

import numpy as np
import opendp.prelude as dp
import polars as pl

from opendp_tree import Tree, frame_context, leaf_domain

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


def contexts(unit, loss, data=VISITS, **split):
    """The same budget over the same frame, in OpenDP's Context and by reference."""
    through = dp.Context.compositor(data=data.lazy(), privacy_unit=unit, privacy_loss=loss, **split)
    return through, frame_context(data, privacy_unit=unit, privacy_loss=loss, **split)


def on_leaf_counts(counts=(900, 400), tree=PUBLIC, loss=PAIR, people=1, **split):
    """OpenDP's Context over leaf counts."""
    return dp.Context.compositor(
        data=np.array(counts),
        domain=leaf_domain(tree),
        privacy_unit=dp.unit_of(l1=people, U="i64"),
        privacy_loss=loss,
        **split,
    )
