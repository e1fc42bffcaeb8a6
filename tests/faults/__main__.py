"""`python -m tests.faults --cases 1000`: prints what was tried, and fails if anything was lost."""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("POLARS_MAX_THREADS", "1")

from tests.faults.moments import run_moments
from tests.faults.nightly import run_nightly
from tests.faults.surroundings import SURROUNDINGS


def main():
    parser = argparse.ArgumentParser(prog="tests.faults", description=__doc__)
    parser.add_argument("--cases", type=int, default=200, help="kills, and as many interrupts (200)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which they come (1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # for the user who may not write
        for harm in ("kill", "interrupt"):
            tell(f"{options.cases} x {harm}", run_moments, folder, harm=harm, cases=options.cases, seed=options.seed)
        nightly = folder / "nightly"
        nightly.mkdir()
        tell(f"the nightly job, {options.cases} x", run_nightly, nightly, cases=options.cases, seed=options.seed)
        for words, trial in SURROUNDINGS.items():
            place = folder / trial.__name__
            place.mkdir()
            tell(words, trial, place, cases=options.cases, seed=options.seed)
    print("nothing was half-written, overspent, forgotten or silent")


def tell(words, trial, *args, **keywords):
    start = time.monotonic()
    counts = trial(*args, **keywords)
    found = ", ".join(f"{count} {name}" for name, count in counts.items())
    print(f"{words}: {found} ({time.monotonic() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
