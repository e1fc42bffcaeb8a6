"""What one release walks through: `python -m benchmarks.walk [open|public]` prints modules and their functions.

A function counts once, however often it is called; what an import runs does not count.
"""

import inspect
import sys
from collections import defaultdict

import opendp.prelude as dp
import polars as pl

import opendp_tree
from opendp_tree import Key, Tree, release_tree

ROWS = pl.DataFrame({"country": ["be"] * 900 + ["lu"] * 400, "city": ["ghent"] * 800 + ["liege"] * 500})
TREE = Tree.from_paths([(country, city) for country in ("be", "lu") for city in ("ghent", "liege")])


def is_import(frame, package):
    """Whether a call is what the body of one of the package's modules runs, when that is imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__", "").startswith(package):
            return True
        frame = frame.f_back
    return False


def walk(action):
    """For each module of the package the names of its functions that an action calls, those of imports left out."""
    found = defaultdict(set)
    package = f"{opendp_tree.__name__}."

    def note(frame, event, _):
        name = frame.f_globals.get("__name__", "")
        # The body of a class is no function; it is not optimised.
        if event == "call" and name.startswith(package) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            called = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
            module = name.removeprefix(package)
            if called not in found.get(module, ()) and not is_import(frame, package):
                found[module].add(called)

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return dict(found)


def release(nodes):
    """One release, as a newcomer makes it: "open" or "public" nodes."""
    key = Key.columns("country", "city", tree=TREE if nodes == "public" else None)
    return release_tree(ROWS, by=key, epsilon=1.0, delta=1e-6)


def main(nodes):
    dp.enable_features("contrib")
    found = walk(lambda: release(nodes))
    for module, names in sorted(found.items()):
        print(f"{len(names):4}  {module}: {', '.join(sorted(names))}")
    print(f"{len(found)} modules, {sum(map(len, found.values()))} functions")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "open")
