"""The README's table against alternatives, from the benchmark's page: `python -m docs.readme_table` writes it."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
README, PEERS = ROOT / "README.md", ROOT / "docs" / "benchmarks" / "peers.md"
BEGIN, END = "<!-- peers: python -m docs.readme_table -->\n", "<!-- end of peers -->\n"
COLUMNS = ("system", "releases", "seconds", "RMSE state / county / city", "adds up")


def table():
    """For public and for unknown keys: what each system needs and errs by."""
    parts = []
    for part in PEERS.read_text().split("\n## ")[1:]:
        title, *lines = part.strip().splitlines()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
        kept = [place for place, name in enumerate(rows[0]) if name in COLUMNS or name.startswith("kept of")]
        shown = [[row[place] for place in kept] for number, row in enumerate(rows) if number != 1]
        shown[0][0] = title
        parts += [
            f"| {' | '.join(shown[0])} |",
            f"|{'---|' * len(kept)}",
            *(f"| {' | '.join(r)} |" for r in shown[1:]),
            "",
        ]
    return "\n".join(parts)


def text():
    """The README with its table."""
    before, rest = README.read_text().split(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.split(END)[1]


if __name__ == "__main__":
    README.write_text(text())
