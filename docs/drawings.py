"""The drawings of the concepts page, as SVG: `python docs/drawings.py` writes docs/images, and a test compares them.

All numbers are computed from a small tree and from fixed noise, so readers can follow them.
"""

from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent / "images"
INK, SOFT, LINE, PAPER = "#1f2933", "#52606d", "#9aa5b1", "#ffffff"
BLUE, ORANGE, GREEN = "#1f5fa8", "#c2570c", "#2f7d4f"


@dataclass
class Drawing:
    """A list of shapes."""

    width: int
    height: int
    says: str
    parts: list = field(default_factory=list)

    def text(self, x, y, words, *, size=14, colour=INK, anchor="middle", weight="normal"):
        """Text at a point."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(str(words))}</text>'
        )

    def line(self, start, end, *, colour=LINE, width=1.5, dash=""):
        """A line between two points."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        (x1, y1), (x2, y2) = start, end
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="{width}"{dashes}/>'
        )

    def box(self, x, y, width, height, *, fill=PAPER, edge=LINE, rounded=6, thick=1.5):
        """A rectangle with its upper left corner at a point."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{rounded}" fill="{fill}" '
            f'stroke="{edge}" stroke-width="{thick}"/>'
        )

    def path(self, points, *, colour=BLUE, width=2.5):
        """A line through points."""
        steps = " ".join(f"{'L' if index else 'M'}{x:g} {y:g}" for index, (x, y) in enumerate(points))
        self.parts.append(f'<path d="{steps}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def dot(self, x, y, *, colour=BLUE, radius=4):
        """A filled circle."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{colour}"/>')

    def svg(self):
        """The file's text."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'font-family="system-ui, sans-serif">\n<title>{escape(self.says)}</title>\n'
            f'<rect width="{self.width}" height="{self.height}" rx="8" fill="{PAPER}"/>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


PLACES = {
    "world": (360, 50, None),
    "be": (190, 130, "world"),
    "lu": (530, 130, "world"),
    "ghent": (80, 210, "be"),
    "liege": (190, 210, "be"),
    "spa": (300, 210, "be"),
    "lux": (470, 210, "lu"),
    "wiltz": (590, 210, "lu"),
}
"""A small tree: the position of each node, and its parent."""
PEOPLE = {"ghent": 9, "liege": 4, "spa": 2, "lux": 6, "wiltz": 1}


def counts_of(people):
    """The count of every node, from those of leaves."""
    counts = dict.fromkeys(PLACES, 0)
    for leaf, count in people.items():
        node = leaf
        while node is not None:
            counts[node] += count
            node = PLACES[node][2]
    return counts


def put_tree(drawing, labels, *, marked=(), colour=ORANGE, dy=0):
    """The small tree, with a label below each name."""
    for name, (x, y, parent) in PLACES.items():
        if parent is not None:
            px, py, _ = PLACES[parent]
            both = name in marked and parent in marked
            look = {"colour": colour, "width": 3} if both else {}
            drawing.line((px, py + 22 + dy), (x, y - 22 + dy), **look)
    for name, (x, y, _) in PLACES.items():
        edge = colour if name in marked else LINE
        drawing.box(x - 46, y - 22 + dy, 92, 44, edge=edge, thick=2.5 if name in marked else 1.5)
        drawing.text(x, y - 5 + dy, name, size=13, colour=SOFT)
        drawing.text(x, y + 14 + dy, labels[name], size=14, weight="600", colour=edge if name in marked else INK)


def tree():
    """Counts of leaves, summed up."""
    drawing = Drawing(680, 290, "A tree of places: each node's count is the sum of its leaves' counts")
    put_tree(drawing, counts_of(PEOPLE))
    drawing.text(340, 270, "rows are counted at leaves; every other count is a sum of leaves below it", colour=SOFT)
    return drawing


def neighbours():
    """One more row changes one count per level."""
    drawing = Drawing(680, 290, "One more row, in Liège, changes one count on each level: the root, be and liege")
    before, after = counts_of(PEOPLE), counts_of({**PEOPLE, "liege": PEOPLE["liege"] + 1})
    moved = [name for name in PLACES if before[name] != after[name]]
    put_tree(drawing, before | {name: f"{before[name]} → {after[name]}" for name in moved}, marked=moved)
    drawing.text(340, 270, "one more row changes one count on each level by one, three in total", colour=SOFT)
    return drawing


@dataclass(frozen=True)
class Walk:
    """The partition of the small tree with fixed noise."""

    threshold: int = 6
    level: int = 4
    noise: tuple = tuple(zip(PLACES, (3, 1, 0, 1, 0, 2, 2, 0), strict=True))
    tokens: tuple = (("ghent", 1), ("liege", 0), ("lux", 0), ("be", 1))

    def steps(self):
        """For each node, from the leaves up: x, y, noise, and its gap if it is a cell."""
        noise, tokens = dict(self.noise), dict(self.tokens)
        passed, results = {}, {}
        for name in sorted(PLACES, key=lambda node: -PLACES[node][1]):
            children = [child for child in PLACES if PLACES[child][2] == name]
            x = PEOPLE.get(name, 0) + sum(passed[child] for child in children)
            most = max((passed[child] for child in children), default=0)
            y = x if x < self.level else max(x - tokens[name], self.level - 1, most)
            is_cell = y + noise[name] >= self.threshold
            passed[name] = 0 if is_cell else y
            results[name] = (x, y, noise[name], y + noise[name] if is_cell else None)
        return results


def walk():
    """The walk from the leaves to the root, with one panel per level."""
    drawing = Drawing(700, 860, "The walk that finds cells: level by level from the leaves to the root")
    results = Walk().steps()
    captions = [
        "1. Leaves: subtract a token if x ≥ 4, then add noise. A sum of 6 or more is a cell.",
        "2. Each node that is not a cell passes its y up; a cell passes up 0.",
        "3. The root. Only cells and their gaps are released.",
    ]
    for panel, caption in enumerate(captions):
        dy = panel * 282 + 20
        drawing.text(20, 20 + dy - 8, caption, anchor="start", weight="600")
        depth = 3 - panel
        labels, marked = {}, []
        for name, (_, y, _parent) in PLACES.items():
            level = (50, 130, 210).index(y) + 1
            if level < depth:
                labels[name] = "·"
                continue
            _, kept, noise, gap = results[name]
            if gap is not None:
                marked.append(name)
            new = level == depth
            end = f"gap {gap}" if gap is not None else f"passes {kept}"
            labels[name] = f"{kept} + {noise}" if new else end
        put_walk(drawing, labels, results, marked, depth=depth, dy=dy + 20)
    return drawing


def put_walk(drawing, labels, results, marked, *, depth, dy):
    """One panel: boxes with y + noise on the level at hand, and what is passed up or released below it."""
    for name, (x, y, parent) in PLACES.items():
        if parent is not None:
            px, py, _ = PLACES[parent]
            drawing.line((px, py + 24 + dy), (x, y - 24 + dy))
        level = (50, 130, 210).index(y) + 1
        edge = GREEN if name in marked else LINE
        drawing.box(x - 52, y - 24 + dy, 104, 48, edge=edge, thick=3 if name in marked else 1.5)
        head = f"{name}: x = {results[name][0]}" if level == depth else name
        drawing.text(x, y - 6 + dy, head, size=12, colour=SOFT)
        drawing.text(x, y + 14 + dy, labels[name], size=14, weight="600", colour=edge if name in marked else INK)


def layers():
    """In a layer no node is below another, so a row lies under at most one of its nodes."""
    drawing = Drawing(680, 330, "Two layers: the root, and the countries; a row lies under one node of each")
    for y, name, colour in ((50, "layer 0: the root", BLUE), (130, "layer 1: countries", ORANGE)):
        drawing.box(8, y - 34, 664, 68, fill="none", edge=colour, rounded=10, thick=2)
        drawing.text(20, y - 16, name, anchor="start", size=12, colour=colour)
    results = Walk().steps()
    labels = {name: "" if value[3] is None else f"gap {value[3]}" for name, value in results.items()}
    labels["world"], labels["be"], labels["lu"] = "measured", "measured", "measured"
    put_tree(drawing, labels, marked=[name for name in PEOPLE if results[name][3] is not None], colour=GREEN)
    drawing.text(340, 280, "First cells and gaps are found; then each layer is counted with fresh noise.", colour=SOFT)
    last = "A row is in one count of each layer, so a layer costs the same however wide it is."
    drawing.text(340, 302, last, colour=SOFT)
    return drawing


def alpha_error():
    """The errors that alpha ignores."""
    drawing = Drawing(680, 300, "With alpha = 0.1, an error of up to a tenth of a node's own count is ignored")
    left, bottom, width, height, most, largest = 70, 240, 560, 200, 1000, 160
    drawing.line((left, bottom), (left + width, bottom), colour=INK)
    drawing.line((left, bottom), (left, bottom - height), colour=INK)
    place = lambda count, error: (left + width * count / most, bottom - height * error / largest)  # noqa: E731
    drawing.path([place(0, 0), place(1000, 100)], colour=ORANGE)
    corner = [place(0, 0), place(1000, 100), place(1000, 0)]
    points = " ".join(f"{x:g},{y:g}" for x, y in corner)
    drawing.parts.insert(0, f'<polygon points="{points}" fill="#fbe6d6"/>')
    drawing.text(*place(760, 30), "ignored", colour=ORANGE)
    drawing.text(*place(330, 110), "counted: |error| − alpha · count", colour=BLUE)
    for count, error in ((400, 90), (900, 120), (800, 60)):
        x, y = place(count, error)
        excess = error - count / 10
        drawing.dot(x, y, colour=BLUE if excess > 0 else ORANGE)
        if excess > 0:
            drawing.line((x, y), place(count, count / 10), colour=BLUE, dash="4 3")
            drawing.text(x + 8, y + 4, f"{excess:g}", anchor="start", size=12, colour=BLUE)
    drawing.text(left + width / 2, 275, "a node's own count", colour=SOFT)
    for count in (0, 500, 1000):
        drawing.text(place(count, 0)[0], bottom + 18, count, size=12, colour=SOFT)
    drawing.text(left - 8, 30, "error", colour=SOFT, anchor="start")
    for error in (50, 100, 150):
        drawing.text(left - 8, place(0, error)[1] + 4, error, size=12, colour=SOFT, anchor="end")
    return drawing


def intervals():
    """The meaning of 95 %: repeated releases of one node."""
    drawing = Drawing(680, 300, "Twenty releases of one node: nineteen intervals contain its true count, one does not")
    offsets = [3, -5, 1, 8, -2, 0, -7, 4, 6, -1, 15, -3, 2, -4, 5, -6, 1, 7, -8, 0]
    truth, half, left, unit = 155, 12, 40, 4
    drawing.line((left, truth), (640, truth), colour=INK, dash="6 4")
    drawing.text(340, 20, "dashed: the true count", size=12, colour=SOFT)
    for index, offset in enumerate(offsets):
        x, y = left + 20 + 29 * index, truth - unit * offset
        missed = abs(offset) > half
        colour = ORANGE if missed else BLUE
        drawing.line((x, y - unit * half), (x, y + unit * half), colour=colour, width=3)
        drawing.dot(x, y, colour=colour)
    drawing.text(340, 282, "one node, released twenty times: about one interval in twenty may miss", colour=SOFT)
    return drawing


DRAWINGS = {each.__name__: each for each in (tree, neighbours, walk, layers, alpha_error, intervals)}


def main():
    """Write all drawings."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    main()
