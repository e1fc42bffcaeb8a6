"""Pictures of releases and plans. They show what was released and touch no data. All need Plotly (the extra `plot`)."""

from opendp_tree.plots.lines import plot_bounds, plot_cdf, plot_series
from opendp_tree.plots.page import write_html, write_image
from opendp_tree.plots.plan import plot_plan
from opendp_tree.plots.rows import plot_level, plot_means, plot_quantiles
from opendp_tree.plots.tree import plot_tree

__all__ = [
    "plot_bounds", "plot_cdf", "plot_level", "plot_means", "plot_plan", "plot_quantiles", "plot_series",
    "plot_tree", "write_html", "write_image",
]  # fmt: skip
