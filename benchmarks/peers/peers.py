"""Who does the job: one script each, the environment that it runs in, and what it needs beyond that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"
BEGIN, END = "# user code", "# end"


@dataclass(frozen=True)
class Peer:
    """One way to do the job; `environment` is None for the project's own."""

    name: str
    script: str
    environment: str | None
    public: bool
    """Whether it is told the list of all places."""
    program: str | None = None
    """A program that must be installed."""

    @property
    def path(self) -> Path:
        """The script."""
        return SCRIPTS / f"{self.script}.py"

    @property
    def user_lines(self) -> int:
        """Lines of user code."""
        return count_user_lines(self.path.read_text())


PEERS = (
    Peer("opendp-tree, auto", "ours_public", None, public=True),
    Peer("opendp-tree, Gaussian", "ours_gaussian", None, public=True),
    Peer("OpenDP Polars, public keys", "opendp_public", "opendp", public=True),
    Peer("OpenDP b-ary tree, consistent", "opendp_b_ary", "opendp", public=True),
    Peer("OpenDP contingency table", "opendp_contingency", "opendp", public=True),
    Peer("diffprivlib, three histograms", "diffprivlib_histograms", "diffprivlib", public=True),
    Peer("Tumult Analytics, key sets", "tumult_public", "tumult", public=True, program="java"),
    Peer("PipelineDP, public partitions", "pipelinedp_public", "pipelinedp", public=True),
    Peer("opendp-tree, auto, unknown keys", "ours_unknown", None, public=False),
    Peer("opendp-tree, pruned descent", "ours_pruned", None, public=False),
    Peer("OpenDP Polars, unknown keys", "opendp_unknown", "opendp", public=False),
    Peer("Tumult Analytics, get_groups", "tumult_unknown", "tumult", public=False, program="java"),
    Peer("SmartNoise SQL", "smartnoise_unknown", "smartnoise", public=False),
    Peer("PipelineDP, private partitions", "pipelinedp_unknown", "pipelinedp", public=False),
)


def count_user_lines(text: str) -> int:
    """Lines between the marks, without those that are empty or only comment."""
    inside, lines = False, 0
    for line in map(str.strip, text.splitlines()):
        if line in (BEGIN, END):
            if inside == (line == BEGIN):
                raise ValueError(f"{line!r} does not pair up")
            inside = line == BEGIN
        elif inside and line and not line.startswith("#"):
            lines += 1
    if inside:
        raise ValueError(f"{BEGIN!r} has no {END!r}")
    return lines
