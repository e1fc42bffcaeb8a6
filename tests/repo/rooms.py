"""The rooms of the package and the arrows between them: `python -m tests.repo.rooms [FOLDER]` prints the graph.

A room is a folder, or a module at the root. An arrow goes from a room to one that it imports from. A room's layer is
the longest way down from it; rooms that reach each other have none.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "opendp_tree"
TOOLS = (
    "_arguments",
    "_files",
    "_interrupts",
    "_opendp",
    "_progress",
    "_tables",
    "_types",
    "noise",
    "saturate",
    "theorems",
)
"""What any room may use; they have arrows among themselves like all others."""


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
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE)
