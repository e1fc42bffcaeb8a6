"""The pictures of a release and its text on the front page: `python docs/release_pictures.py`.

The release is stored beside them, because each release has fresh noise. Each picture has a narrow version, which the
site's style sheet shows on phones. Needs Kaleido and Chromium. `--anew` makes a new release first.
"""

import re
import sys
import textwrap
from functools import partial
from pathlib import Path

import opendp.prelude as dp

from opendp_tree import TreeRelease, plot_level, plot_tree, release_tree
from opendp_tree.data import example_flights
from opendp_tree.plots import style, write_image

IMAGES, STATIC = (Path(__file__).parent / name for name in ("images", "_static"))
KEPT = IMAGES / "flights.json"
BY = ["origin", "carrier", "dest"]
PICTURES = {
    "flights_tree.svg": partial(plot_tree, max_nodes=40),  # without boxes that only open by a click
    "flights_carriers.svg": partial(plot_level, level="carrier", top=12),
}
NARROW = 420
INK = ", ".join(str(int(style.INK[place : place + 2], 16)) for place in (1, 3, 5))
DARK = f"@media (prefers-color-scheme: dark) {{ text[style*='rgb({INK})'] {{ fill: #a9b1ba !important; }} }}"
"""Browsers apply this to an image of the page's own colour scheme. One grey cannot stand out from white and black."""


def narrow(figure):
    """The same picture for a phone: texts are in shorter lines."""
    look = figure.layout
    look.title.font.size = 16
    subtitle = textwrap.wrap(look.title.subtitle.text, 50)
    look.title.subtitle.text = "<br>".join(subtitle)
    look.margin.t += 17 * (len(subtitle) - 1)
    for note in look.annotations:
        lines = note.text.replace(style.SOFT_BREAK, " ").split("<br>")
        wrapped = [part for line in lines for part in textwrap.wrap(line, 56)]
        note.text = "<br>".join(wrapped)
        look.margin.b += 17 * (len(wrapped) - len(lines))
    for trace in figure.data:
        if trace.type == "icicle":
            texts = [text.split("<br>") for text in trace.text]
            short = [[line if len(line) < 13 else line.split(style.GAP)[0] for line in lines] for lines in texts]
            trace.text = ["<br>".join(lines) for lines in short]
    return figure


def write(figure, path, width=1000):
    """Write a picture whose texts can be read on light and on dark pages."""
    write_image(figure, path, width=width)
    path.write_text(path.read_text().replace("><", f"><style>{DARK}</style><", 1))


def main(anew):
    """Draw all pictures."""
    if anew:
        dp.enable_features("contrib")
        KEPT.write_text(release_tree(example_flights(), by=BY, epsilon=1.0, delta=1e-6).to_json())
    release = TreeRelease.from_json(KEPT.read_text())
    for name, draw in PICTURES.items():
        write(draw(release), IMAGES / name)
        write(narrow(draw(release)), STATIC / name, NARROW)
    front = IMAGES.parent / "index.md"
    words = f"```text\n{release}\n```"
    front.write_text(re.sub(r"```text\n.*?\n```", lambda _: words, front.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    main("--anew" in sys.argv)
