"""The rooms of the package and the arrows between them: `python -m tests.repo.rooms [FOLDER]` prints the graph.

`python -m tests.repo.rooms --page` writes the map of the house, docs/house.md.

A room is a folder, or a module at the root. An arrow goes from a room to one that it imports from. A room's layer is
the longest way down from it; rooms that reach each other have none.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "opendp_tree"
MAP = PACKAGE.parent / "docs" / "house.md"


def imported(path):
    """The dotted names that a module imports, each with all its parts."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def arrows(package=PACKAGE):
    """For each room the rooms that it imports from."""
    rooms = {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/*.py")}
    found = {room: set() for room in sorted(rooms - {"__init__"})}
    for path in package.rglob("*.py"):
        here = path.relative_to(package).with_suffix("").parts[0]
        for name in imported(path):
            steps = name.split(".")
            if here in found and steps[0] == package.name and len(steps) > 1 and steps[1] in found:
                found[here] |= {steps[1]} - {here}
    return found


def components(graph):
    """Groups of rooms that reach each other, those without arrows to later groups first."""
    reach = {room: set() for room in graph}
    for room in graph:
        queue = [room]
        while queue:
            for below in graph[queue.pop()] - reach[room]:
                reach[room].add(below)
                queue.append(below)
    groups = {frozenset({room} | {other for other in reach[room] if room in reach[other]}) for room in graph}
    return sorted(groups, key=lambda group: (len(set.union(*(reach[room] for room in group)) | group), sorted(group)))


def layers(graph):
    """The rooms of each layer, from the lowest; a group that reaches itself shares one layer."""
    height = {}
    for group in components(graph):
        below = {other for room in group for other in graph[room]} - group
        height |= dict.fromkeys(group, 1 + max((height[other] for other in below), default=-1))
    found = defaultdict(list)
    for room, layer in sorted(height.items()):
        found[layer].append(room)
    return [found[layer] for layer in sorted(found)]


def purpose(room):
    """The first sentence of a room's own words."""
    path = PACKAGE / f"{room}.py"
    text = ast.get_docstring(ast.parse((path if path.is_file() else PACKAGE / room / "__init__.py").read_text()))
    return " ".join(text.split("\n\n")[0].split())


def page():
    """The map of the house, from the lowest layer up."""
    graph = arrows()
    lines = [
        "# The house",
        "",
        "Which room a line lives in. Data flows one way: rows, leaf counts, tree sums, mechanism, release,",
        "post-processing, frame. A room imports from rooms of lower layers only. This page is made by",
        "`python -m tests.repo.rooms --page`.",
        "",
        "| layer | room | what it is for | it uses |",
        "|---|---|---|---|",
    ]
    for layer, rooms in enumerate(layers(graph)):
        for room in rooms:
            used = ", ".join(f"`{each}`" for each in sorted(graph[room])) or "-"
            lines.append(f"| {layer} | `{room}` | {purpose(room)} | {used} |")
    return "\n".join(lines) + "\n"


def main(package):
    graph = arrows(package)
    for layer, rooms in enumerate(layers(graph)):
        for room in rooms:
            print(f"{layer:2}  {room:15} -> {', '.join(sorted(graph[room])) or '-'}")
    cycles = [group for group in components(graph) if len(group) > 1]
    print(f"{len(graph)} rooms, {len(layers(graph))} layers, rooms in cycles: {sorted(map(len, cycles)) or 'none'}")
    lines = sum(len(path.read_text().splitlines()) for path in package.rglob("*.py"))
    print(f"{len(list(package.rglob('*.py')))} modules, {lines} lines")


if __name__ == "__main__":
    if sys.argv[1:] == ["--page"]:
        MAP.write_text(page())
        sys.exit()
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE)
