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
<title>{title}</title>
<style>
* {{ box-sizing: border-box; }}
:root {{ color-scheme: light dark; }}
body {{ margin: 0; font: 14px/1.4 {font}; overflow-wrap: anywhere; }}
section {{ min-height: 100vh; min-height: 100dvh; display: flex; flex-direction: column; }}
header {{ padding: 12px 20px 2px; }}
h1 {{ margin: 0; font-size: 20px; font-weight: 600; line-height: 1.25; }}
header p {{ margin: 2px 0 0; opacity: 0.8; }}
footer {{ order: 1; padding: 2px 20px 10px; font-size: 12.5px; opacity: 0.8; }}
footer p {{ margin: 1px 0; }}
main {{ flex: 1 1 auto; position: relative; }}
main > div {{ position: absolute; inset: 0; }}
:is(.infolayer, .xtick, .ytick) text {{ fill: currentColor !important; }}
</style>
</head>
<body>
{sections}
<noscript>These pictures are drawn by a script inside this file.</noscript>
</body>
</html>
"""
# The footer comes before the picture, which is drawn where it is read, so that the room that is left is known.
_SECTION = """<section>
<header>{header}</header>
<footer>{footer}</footer>
<main style="min-height: {height}px">{picture}</main>
</section>"""
_LEAST_HEIGHT = 420
FIT_TEXTS = """// Shorten lines that are wider than a column: first leave out figures, then the middle of names.
function fitTexts(picture) {
  const trace = picture.data[0], gap = "\\u2002", letters = text => text.match(/&[^;\\s]+;|./gsu) ?? [];
  if (trace.type !== "icicle") return;
  const room = Math.max(3, Math.floor((picture._fullLayout._size.w / trace.maxdepth - 8) / 7));
  const fit = line => {
    const parts = line.split(gap), half = Math.floor((room - 1) / 2);
    while (parts.length > 1 && letters(parts.join(gap)).length > room) parts.pop();
    if (parts[0].length > room) parts[0] = parts[0].replace(/^(\\([\\d,]+) (more|nodes?)\\)$/, "$1)");
    const name = letters(parts[0]);
    if (name.length > room) parts[0] = [...name.slice(0, room - 1 - half), "…", ...name.slice(-half)].join("");
    return parts.join(gap);
  };
  const texts = (picture.texts ??= trace.text).map(text => text.split("<br>").map(fit).join("<br>"));
  if (texts.some((text, index) => text !== trace.text[index])) Plotly.restyle(picture, {text: [texts]});
}
"""
_SCRIPT = f"""{FIT_TEXTS}
const picture = document.getElementById("{{plot_id}}");
fitTexts(picture);
picture.on("plotly_afterplot", () => fitTexts(picture));
picture.on("plotly_animated", () => Plotly.redraw(picture)); // texts that became too small hide only then
addEventListener("load", () => Plotly.Plots.resize(picture)); // a scroll bar is there only then"""
FORMATS = ("svg", "png")


def write_html(figure: go.Figure | Sequence[go.Figure], path: str | os.PathLike[str]) -> Path:
    """Write pictures as one HTML file that fills the window, and neither needs nor allows network access.

    Titles and footers become the page's own text, so that they fit any width. The file is complete or absent: it is
    written beside `path` and then moved. Links are followed, and an existing file keeps its mode. Returns the path.

    :param figure: Any Plotly figure, or several, which are drawn below each other and share one copy of Plotly's 5 MB.
    :param path: Where to write; an existing file is replaced.
    """
    go = style.graph_objects()
    figures: list[Any] = list(figure) if isinstance(figure, (list, tuple)) else [figure]
    for each in figures:
        check_type(each, go.Figure, name="figure", hint="plot_tree(...)")
    if not figures:
        raise ValueError("figure must hold at least one figure. Hint: plot_tree(...)")
    sections, titles = [], []
    for number, each in enumerate(figures, start=1):
        title, lead, footer, drawing = _without_texts(each)
        titles.append(title or "opendp-tree")
        picture = drawing.to_html(
            **{"full_html": False, "include_plotlyjs": number == 1, "post_script": _SCRIPT},
            **{"div_id": "picture" if number == 1 else f"picture-{number}", "config": {"displayModeBar": False}},
        )
        header = (f"<h1>{title}</h1>" if title else "") + (f"<p>{lead}</p>" if lead else "")
        height = _LEAST_HEIGHT if each.layout.height in (None, style.HEIGHT, style.TREE_HEIGHT) else each.layout.height
        sections.append(_SECTION.format(header=header, height=height, picture=picture, footer=footer))
    page = _PAGE.format(title=titles[0], sections="\n".join(sections), font=style.FONT)
    with deferred_interrupts(), PendingFile(Path(path)) as file:
        file.commit(page.encode("utf-8"))
    return Path(path)


def write_image(
    figure: go.Figure, path: str | os.PathLike[str], *, width: int = 1000, height: int | None = None
) -> Path:
    """Write a picture as SVG or PNG, for paper. Needs Kaleido, and a Chrome or Chromium for it: `pip install kaleido`.

    The file is complete or absent. Returns the path.

    :param figure: Any Plotly figure.
    :param path: Where to write; it ends in .svg or .png. An existing file is replaced.
    :param width: In pixels. By default 1000, which fits a page of paper. PNG has twice as many, for sharp print.
    :param height: In pixels. By default the figure's own.
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
                content = figure.to_image(form, width=width, height=height, scale=2 if form == "png" else 1)
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(
                f"Kaleido could not draw the picture ({type(error).__name__}). Hint: it needs a Chrome or Chromium; "
                "write_html needs neither"
            ) from error
        file.commit(content)
    return target


def _without_texts(figure: go.Figure) -> tuple[str, str, str, go.Figure]:
    """The title, the subtitle and the footer as HTML, and the figure without them."""
    drawing = figure.__class__(figure)
    look = drawing.layout
    title, lead = _plain(look.title.text or ""), _plain(look.title.subtitle.text or "")
    notes = [note.text for note in look.annotations if note.name == style.FOOTER]
    look.annotations = [note for note in look.annotations if note.name != style.FOOTER]
    look.title = look.height = look.width = None
    if look.margin.t is not None:
        look.margin.t = max(4, look.margin.t - style.HEAD)
    if look.margin.b is not None and notes:
        look.margin.b -= style.foot_height(sum(text.count("<br>") + 1 for text in notes))
    lines = [line for text in notes for line in text.replace(style.SOFT_BREAK, " ").split("<br>")]
    return title, lead, "".join(f"<p>{_plain(line)}</p>" for line in lines), drawing


def _plain(text: str) -> str:
    """The text that Plotly would show, without its markup, as HTML."""
    return html.escape(html.unescape(re.sub(r"<[^>]*>", " ", text)).strip())
