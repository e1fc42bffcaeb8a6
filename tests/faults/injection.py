"""Interrupts at the lines of OpenDP's own conversion, all in one process: prints what became of them.

A program of its own, because what it looks for ends the process.
"""

import json
import signal
import sys
from collections import Counter
from pathlib import Path

import opendp
from opendp.mod import enable_features

from opendp_tree import Tree, make_sparse_vector
from tests.faults.moments import by_parts, in_a_context, in_one_call
from tests.faults.processes import at_line

PLACES = tuple(str(Path(opendp.__file__).with_name(name)) for name in ("_convert.py", "_lib.py", "_data.py"))


def in_a_dialogue():
    """A queryable whose answers are callbacks."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.metrics import l1_distance

    space = vector_domain(atom_domain(T="i64"), size=4), l1_distance(T="i64")
    tree = Tree.balanced(branching=2, depth=3)
    queryable = make_sparse_vector(*space, 2.0, threshold=100, tree=tree)([40, 2, 1, 0])
    return queryable(0), queryable(3)


WAYS = {"release_tree": in_one_call, "Context": in_a_context, "parts": by_parts, "queryable": in_a_dialogue}


def lines_of(release):
    """How many lines of OpenDP's conversion a release takes."""
    seen = at_line(0, None, PLACES)
    release()
    sys.settrace(None)
    return seen[0]


def interrupted(release, number):
    """What an interrupt at this line leads to."""
    seen = at_line(number, lambda: signal.raise_signal(signal.SIGINT), PLACES)
    try:
        release()
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    finally:
        sys.settrace(None)
    return "nothing" if seen[0] >= number else "not reached"  # how many lines there are depends on the noise


def main(most):
    enable_features("contrib")
    ignored, outcomes = [], {}
    sys.unraisablehook = lambda told: ignored.append(told.exc_type)
    for name, release in WAYS.items():
        release()  # the first imports and caches
        lines, found = lines_of(release), Counter()
        for number in range(1, lines, max(1, lines // most)):
            ignored.clear()
            outcome = interrupted(release, number)
            found["told and ignored, in a finaliser" if ignored == [KeyboardInterrupt] else outcome] += 1
        outcomes[name] = found
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(int(sys.argv[1]))
