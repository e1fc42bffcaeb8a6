"""A picture as one file that any browser shows, without a network."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opendp_tree._arguments import check_type
from opendp_tree._files import PendingFile
from opendp_tree._interrupts import deferred_interrupts
from opendp_tree.plots.style import FONT, FOOTER, HEAD, INK, QUIET, SOFT_BREAK, foot_height, graph_objects

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["write_html"]

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data: blob:">
<title>{name}</title>
<style>
* {{ box-sizing: border-box; }}
body {{ margin: 0; min-height: 100vh; min-height: 100dvh; display: flex; flex-direction: column;
  font: 14px/1.4 {font}; color: {ink}; background: white; overflow-wrap: anywhere; }}
header {{ padding: 16px 20px 4px; }}
h1 {{ margin: 0; font-size: 20px; font-weight: 600; line-height: 1.25; }}
header p {{ margin: 4px 0 0; color: {quiet}; }}
footer {{ padding: 4px 20px 14px; font-size: 12.5px; color: {quiet}; }}
footer p {{ margin: 2px 0; }}
main {{ flex: 1 1 auto; position: relative; min-height: {height}px; }}
#picture {{ position: absolute; inset: 0; }}
</style>
</head>
<body>
<header>{header}</header>
<main><div id="picture"></div></main>
<footer>{footer}</footer>
<noscript>This picture is drawn by a script inside this file.</noscript>
<script>{plotly}</script>
<script>
const figure = {figure};
Plotly.newPlot("picture", figure.data, figure.layout, {{responsive: true, displayModeBar: false}}).then(picture => {{
  picture.on("plotly_animated", () => Plotly.redraw(picture)); // texts that became too small hide only then
}});
</script>
</body>
</html>
"""


def write_html(figure: go.Figure, path: str | os.PathLike[str]) -> Path:
    """Write a picture as one HTML file that fills the window, needs no network, and forbids itself any.

    Title and footer become the page's own text, so that they fit any width. The file is whole or not there: it is
    written beside `path` and then moved. A link is followed, and a file's mode is kept. Gives the path.

    Parameters
    ----------
    figure
        Any Plotly figure; those of this package have a footer that becomes text.
    path
        Where to write; a file that is there is replaced.

    >>> import tempfile
    >>> import plotly.graph_objects as go
    >>> from opendp_tree import write_html
    >>> figure = go.Figure(go.Bar(x=[1, 2], y=[3, 4]), {"title": {"text": "Two bars"}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_html(figure, f"{folder}/bars.html").read_text(encoding="utf-8")
    >>> "<title>Two bars</title>" in page
    True
    """
    check_type(figure, graph_objects().Figure, name="figure", hint="plot_tree(...)")
    from plotly.offline import get_plotlyjs

    target = Path(path)
    drawing: dict[str, Any] = figure.to_plotly_json()
    look = dict(drawing["layout"])
    title = look.pop("title", None) or {}
    notes = look.get("annotations", ())
    look["annotations"] = [note for note in notes if note.get("name") != FOOTER]
    foot = "<br>".join(note.get("text", "") for note in notes if note.get("name") == FOOTER)
    height = look.pop("height", None) or 420
    look.pop("width", None)
    margin = dict(look.get("margin", {}))
    if "t" in margin:
        margin["t"] = max(12, margin["t"] - HEAD)
    if "b" in margin and len(look["annotations"]) < len(notes):
        margin["b"] -= foot_height(foot.count("<br>") + 1 if foot else 0)
    name = _plain(title.get("text") or "")
    lead = _plain((title.get("subtitle") or {}).get("text") or "")
    header = (f"<h1>{html.escape(name)}</h1>" if name else "") + (f"<p>{html.escape(lead)}</p>" if lead else "")
    # Inside a script, "<" could end it; JSON has it only in texts, where it may be written as an escape.
    data = figure.__class__(drawing["data"], look | {"margin": margin}).to_json()
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    page = _PAGE.format(
        name=html.escape(name or "opendp-tree"),
        header=header,
        footer="".join(f"<p>{html.escape(_plain(line))}</p>" for line in foot.replace(SOFT_BREAK, " ").split("<br>")),
        **{"font": FONT, "ink": INK, "quiet": QUIET, "height": height, "plotly": get_plotlyjs(), "figure": data},
    )
    with deferred_interrupts(), PendingFile(target) as file:
        file.commit(page.encode("utf-8"))
    return target


def _plain(text: str) -> str:
    """The text that Plotly would show, without its markup."""
    return html.unescape(re.sub(r"<[^>]*>", " ", text)).strip()
