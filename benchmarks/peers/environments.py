"""An environment of its own for each peer, with pinned requirements: `make peers`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HOME = ROOT / ".peers"
NAMES = tuple(sorted(path.stem.removeprefix("requirements-") for path in HERE.glob("requirements-*.txt")))


def requirements(name: str) -> Path:
    """What an environment holds."""
    return HERE / f"requirements-{name}.txt"


def python(name: str | None) -> Path:
    """An environment's Python; the project's own for None."""
    return Path(sys.executable) if name is None else HOME / name / "bin" / "python"


def trouble(name: str | None) -> str | None:
    """Why an environment is not there as its requirements are now, or None."""
    if name is None:
        return None
    failed, ready = HOME / name / "failed", HOME / name / "ready"
    if failed.exists():
        return f"could not be installed: {failed.read_text()}"
    if not ready.exists() or ready.read_text() != requirements(name).read_text():
        return "not installed (`make peers`)"
    return None


def activated(name: str | None) -> dict[str, str]:
    """Environment variables as after activating it; the package's root is on the path for the project's own alone."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")}
    kept["PATH"] = f"{python(name).parent}{os.pathsep}{kept.get('PATH', '')}"
    kept["PYTHONWARNINGS"] = "ignore"
    return {**kept, "PYTHONPATH": str(ROOT)} if name is None else kept


def install(name: str) -> bool:
    """Makes an environment anew unless it is there already; False, and a note of why, if that fails."""
    if trouble(name) is None:
        return True
    place = HOME / name
    shutil.rmtree(place, ignore_errors=True)
    print(f"{name}: installing", flush=True)
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(place)], [*pip, "-r", str(requirements(name))]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            place.mkdir(parents=True, exist_ok=True)
            reason = last_line(done.stderr or done.stdout)
            (place / "failed").write_text(reason)
            print(f"{name}: {reason}", flush=True)
            return False
    (place / "ready").write_text(requirements(name).read_text())
    return True


def last_line(text: str) -> str:
    """The last line that says something; for a table, without bars."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].replace("|", "/")[:160] if lines else "no message"


def main() -> int:
    """Installs all; the exit code says whether all are there."""
    installed = [install(name) for name in NAMES]
    return 0 if all(installed) else 1


if __name__ == "__main__":
    sys.exit(main())
