"""Pictures of releases and plans, with Plotly (the extra `plot`). They show what was released and touch no data."""

from opendp_tree.plots.bounds import plot_bounds
from opendp_tree.plots.curve import plot_cdf, plot_quantiles
from opendp_tree.plots.level import plot_level
from opendp_tree.plots.means import plot_means
from opendp_tree.plots.page import write_html, write_image
from opendp_tree.plots.plan import plot_plan
from opendp_tree.plots.tree import plot_tree

__all__ = [
    "plot_bounds",
    "plot_cdf",
    "plot_level",
    "plot_means",
    "plot_plan",
    "plot_quantiles",
    "plot_tree",
    "write_html",
    "write_image",
]
