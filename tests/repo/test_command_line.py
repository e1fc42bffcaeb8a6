"""The commands of docs/command_line.md do what the page says."""

import re
import shlex
import shutil
from pathlib import Path

from opendp_tree.cli import main
from opendp_tree.cli.options import build_parser
from opendp_tree.cli.terminal import Exit
from opendp_tree.data import FLIGHTS

PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()
COMMANDS = re.findall(r"^\$ opendp-tree (.*?)(?:   # exit code (\d+))?$", PAGE, re.MULTILINE)


def test_every_command_shown_runs_and_ends_as_said(tmp_path, monkeypatch):
    shutil.copy(FLIGHTS, tmp_path)
    (tmp_path / "nightly.json").write_text(re.search(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1])
    monkeypatch.chdir(tmp_path)
    for words, code in COMMANDS:
        arguments = shlex.split(words)
        assert main(arguments) == int(code or 0), words
        if "-o" in arguments:
            assert (tmp_path / arguments[arguments.index("-o") + 1]).exists() == (not code)
    assert {words.split()[0] for words, _ in COMMANDS} == {"plan", "release", "series", "bounds", "ledger"}


def test_every_exit_code_is_explained():
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert told == set(Exit)


def test_every_option_shown_exists():
    parsers = [build_parser("0"), *build_parser("0")._subparsers._group_actions[0].choices.values()]
    known = {option for parser in parsers for option in parser._option_string_actions}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) <= known
