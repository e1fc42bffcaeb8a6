"""Pictures as files: a page that any browser shows without a network, or an image."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opendp_tree._arguments import check_integer, check_type
from opendp_tree._files import PendingFile
from opendp_tree._interrupts import deferred_interrupts, interruptible
from opendp_tree.plots import style

if TYPE_CHECKING:
    import plotly.graph_objects as go

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
body {{ margin: 0; font: 14px/1.4 {font}; color: {ink}; background: white; overflow-wrap: anywhere; }}
section {{ min-height: 100vh; min-height: 100dvh; display: flex; flex-direction: column; }}
header {{ padding: 12px 20px 2px; }}
h1 {{ margin: 0; font-size: 20px; font-weight: 600; line-height: 1.25; }}
header p {{ margin: 2px 0 0; color: {quiet}; }}
footer {{ padding: 2px 20px 10px; font-size: 12.5px; color: {quiet}; }}
footer p {{ margin: 1px 0; }}
main {{ flex: 1 1 auto; position: relative; }}
.picture {{ position: absolute; inset: 0; }}
</style>
</head>
<body>
{sections}
<noscript>These pictures are drawn by a script inside this file.</noscript>
<script>{plotly}</script>
<script>
for (const [name, figure] of Object.entries({figures})) {{
  Plotly.newPlot(name, figure.data, figure.layout, {{responsive: true, displayModeBar: false}}).then(picture => {{
    picture.on("plotly_animated", () => Plotly.redraw(picture)); // texts that became too small hide only then
  }});
}}
</script>
</body>
</html>
"""
_SECTION = """<section>
<header>{header}</header>
<main style="min-height: {height}px"><div class="picture" id="{place}"></div></main>
<footer>{footer}</footer>
</section>"""
_LEAST_HEIGHT = 420
FORMATS = ("svg", "png")


def write_html(figure: go.Figure | Sequence[go.Figure], path: str | os.PathLike[str]) -> Path:
    """Write pictures as one HTML file that fills the window, needs no network, and forbids itself any.

    Titles and footers become the page's own text, so that they fit any width. The file is whole or not there: it is
    written beside `path` and then moved. A link is followed, and a file's mode is kept. Gives the path.

    Parameters
    ----------
    figure
        Any Plotly figure; those of this package have a footer that becomes text. Or several, which stand under one
        another and share one copy of Plotly's 5 MB.
    path
        Where to write; a file that is there is replaced.

    >>> import tempfile
    >>> import plotly.graph_objects as go
    >>> from opendp_tree.plots import write_html
    >>> figure = go.Figure(go.Bar(x=[1, 2], y=[3, 4]), {"title": {"text": "Two bars"}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_html([figure, figure], f"{folder}/bars.html").read_text(encoding="utf-8")
    >>> "<title>Two bars</title>" in page, page.count("<h1>Two bars</h1>")
    (True, 2)
    """
    go = style.graph_objects()
    figures = list(figure) if isinstance(figure, (list, tuple)) else [figure]
    for each in figures:
        check_type(each, go.Figure, name="figure", hint="plot_tree(...)")
    if not figures:
        raise ValueError("figure must hold at least one figure. Hint: plot_tree(...)")
    from plotly.offline import get_plotlyjs

    target = Path(path)
    # The first is called "picture", as if it were alone.
    places = ["picture", *(f"picture-{number}" for number in range(2, len(figures) + 1))]
    parts = [_section(each, place) for each, place in zip(figures, places, strict=True)]
    drawings = ",".join(f'"{place}":{drawing}' for place, (_, _, drawing) in zip(places, parts, strict=True))
    page = _PAGE.format(
        name=html.escape(parts[0][0] or "opendp-tree"),
        sections="\n".join(section for _, section, _ in parts),
        figures=f"{{{drawings}}}",
        **{"font": style.FONT, "ink": style.INK, "quiet": style.QUIET, "plotly": get_plotlyjs()},
    )
    with deferred_interrupts(), PendingFile(target) as file:
        file.commit(page.encode("utf-8"))
    return target


def write_image(
    figure: go.Figure, path: str | os.PathLike[str], *, width: int = 1000, height: int | None = None
) -> Path:
    """Write a picture as SVG or PNG, for paper. Needs Kaleido, and a Chrome or Chromium for it: `pip install kaleido`.

    The file is whole or not there. Gives the path.

    Parameters
    ----------
    figure
        Any Plotly figure.
    path
        Where to write; it ends in .svg or .png. A file that is there is replaced.
    width
        In pixels. By default 1000, which a page of paper takes. PNG has twice as many, for sharp print.
    height
        In pixels. By default the figure's own.
    """
    check_type(figure, style.graph_objects().Figure, name="figure", hint="plot_tree(...)")
    check_integer(width, name="width", least=1)
    if height is not None:
        check_integer(height, name="height", least=1)
    target = Path(path)
    form = target.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise ValueError(f"path ({target.name[:40]!r}) must end in .svg or .png. Hint: write_html for a page")
    if find_spec("kaleido") is None:
        raise ImportError("pictures as SVG or PNG need Kaleido. Hint: pip install kaleido; write_html needs no more")
    with deferred_interrupts(), PendingFile(target) as file:
        try:
            with interruptible():
                content = _on_paper(figure).to_image(form, width=width, height=height, scale=2 if form == "png" else 1)
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(
                f"Kaleido could not draw the picture ({type(error).__name__}). Hint: it needs a Chrome or Chromium; "
                "write_html needs neither"
            ) from error
        file.commit(content)
    return target


def _on_paper(figure: go.Figure) -> go.Figure:
    """The figure without what only a page can do."""
    still = figure.__class__(figure)
    told = still.layout.title.subtitle.text
    if told:
        still.update_layout(title_subtitle_text=told.replace(style.CLICK, ""))
    return still


def _section(figure: go.Figure, place: str) -> tuple[str, str, str]:
    """A figure's title, its part of the page, and what the script draws there."""
    drawing: dict[str, Any] = figure.to_plotly_json()
    look = dict(drawing["layout"])
    title = look.pop("title", None) or {}
    notes = look.get("annotations", ())
    look["annotations"] = [note for note in notes if note.get("name") != style.FOOTER]
    foot = "<br>".join(note.get("text", "") for note in notes if note.get("name") == style.FOOTER)
    height = look.pop("height", None)
    look.pop("width", None)
    margin = dict(look.get("margin", {}))
    if "t" in margin:
        margin["t"] = max(4, margin["t"] - style.HEAD)
    if "b" in margin and len(look["annotations"]) < len(notes):
        margin["b"] -= style.foot_height(foot.count("<br>") + 1 if foot else 0)
    name = _plain(title.get("text") or "")
    lead = _plain((title.get("subtitle") or {}).get("text") or "")
    header = (f"<h1>{html.escape(name)}</h1>" if name else "") + (f"<p>{html.escape(lead)}</p>" if lead else "")
    # Inside a script, "<" could end it; JSON has it only in texts, where it may be written as an escape.
    data = figure.__class__(drawing["data"], look | {"margin": margin}).to_json()
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    section = _SECTION.format(
        header=header,
        place=place,
        height=_LEAST_HEIGHT if height in (None, style.HEIGHT) else height,
        footer="".join(
            f"<p>{html.escape(_plain(line))}</p>" for line in foot.replace(style.SOFT_BREAK, " ").split("<br>")
        ),
    )
    return name, section, data


def _plain(text: str) -> str:
    """The text that Plotly would show, without its markup."""
    return html.unescape(re.sub(r"<[^>]*>", " ", text)).strip()
