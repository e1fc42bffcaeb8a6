"""The pictures of a release and its text on the front page: `python docs/release_pictures.py`.

The release is stored beside them, because each release has fresh noise. Needs Kaleido and
Chromium. `--anew` makes a new release first.
"""

import re
import sys
from functools import partial
from pathlib import Path

import opendp.prelude as dp

from opendp_tree import TreeRelease, plot_level, plot_tree, release_tree
from opendp_tree.data import example_flights
from opendp_tree.plots import write_image

IMAGES = Path(__file__).parent / "images"
KEPT = IMAGES / "flights.json"
BY = ["origin", "carrier", "dest"]
PICTURES = {
    "flights_tree.svg": partial(plot_tree, max_nodes=40),  # without boxes that only open by a click
    "flights_carriers.svg": partial(plot_level, level="carrier", top=12),
}


def main(anew):
    """Draw all pictures."""
    if anew:
        dp.enable_features("contrib")
        KEPT.write_text(release_tree(example_flights(), by=BY, epsilon=1.0, delta=1e-6).to_json())
    release = TreeRelease.from_json(KEPT.read_text())
    for name, draw in PICTURES.items():
        write_image(draw(release), IMAGES / name)
    front = IMAGES.parent / "index.md"
    words = f"```text\n{release}\n```"
    front.write_text(re.sub(r"```text\n.*?\n```", lambda _: words, front.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    main("--anew" in sys.argv)
