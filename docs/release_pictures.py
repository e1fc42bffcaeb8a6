"""The pictures of releases in these pages, from a release that is kept beside them: `python docs/release_pictures.py`.

Noise is drawn anew in each release, so that a picture can only be drawn again from the same one. Needs Kaleido and a
Chromium; `--anew` makes another release first.
"""

import sys
from functools import partial
from pathlib import Path

import opendp.prelude as dp

from opendp_tree import TreeRelease, example_flights, plot_level, plot_tree, release_tree
from opendp_tree.plots import write_image

IMAGES = Path(__file__).parent / "images"
KEPT = IMAGES / "flights.json"
BY = ["origin", "carrier", "dest"]
PICTURES = {"flights_tree.svg": plot_tree, "flights_carriers.svg": partial(plot_level, level="carrier", top=12)}


def main(anew):
    """Draws all pictures."""
    if anew:
        dp.enable_features("contrib")
        KEPT.write_text(release_tree(example_flights(), by=BY, epsilon=1.0, delta=1e-6).to_json())
    release = TreeRelease.from_json(KEPT.read_text())
    for name, draw in PICTURES.items():
        write_image(draw(release), IMAGES / name)


if __name__ == "__main__":
    main("--anew" in sys.argv)
