"""`make fuzz`: every subject, and a table of how many cases each tried.

A subject is a function of a seed and a number of cases, which raises on the first violation and gives the number tried.
"""

import argparse
import sys
import time
import warnings

import opendp.prelude as dp

from tests.fuzz import constructors, frames, ledgers, limits, releases, steps

MODULES = (constructors, frames, ledgers, releases, steps)
SUBJECTS = {module.__name__.rpartition(".")[2]: module.fuzz for module in MODULES}


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="for each subject (1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the generators (0)")
    parser.add_argument("subject", nargs="*", help="one or more of: " + ", ".join(SUBJECTS))
    options = parser.parse_args()
    dp.enable_features("contrib")
    warnings.simplefilter("error")
    limits.enforced = True
    failed = False
    print(f"{'subject':<14}{'cases':>10}{'seconds':>10}   seed {options.seed}", flush=True)
    for name, fuzz in SUBJECTS.items():
        if options.subject and name not in options.subject:
            continue
        started = time.monotonic()
        try:
            outcome = f"{fuzz(options.seed, options.cases):>10}"
        except Exception as error:
            failed, outcome = True, f"{'FAILED':>10}"
            print(f"{name}: {error}", file=sys.stderr)
            for note in getattr(error, "__notes__", ()):
                print(note, file=sys.stderr)
        print(f"{name:<14}{outcome}{time.monotonic() - started:>10.1f}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
