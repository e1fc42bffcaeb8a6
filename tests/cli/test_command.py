"""The command as it is installed, and what it does when something goes wrong."""

import signal
import subprocess
import sys

import pytest

import opendp_tree
from opendp_tree import Ledger
from opendp_tree.cli import main
from tests.cli.helpers import BUDGET, ENVIRONMENT, PATIENCE, ROWS, spawn, write_rows


def test_the_command_has_a_version_and_help(capsys):
    done = spawn("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"opendp-tree {opendp_tree.__version__}")
    with pytest.raises(SystemExit, match="0"):
        main(["release", "--help"])
    assert "--ledger" in capsys.readouterr().out


def test_errors_are_one_line_on_standard_error():
    done = spawn("release", "missing.csv", "--by", "a", *BUDGET, "-o", "out.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "opendp-tree: there is no file missing.csv. Hint: check the name\n"


def test_unforeseen_errors_keep_their_messages_to_themselves(monkeypatch, capsys):
    def broken(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr("opendp_tree.prepare.Question.plan", broken)
    assert main(["plan", "--by", "a", *BUDGET]) == 1
    assert capsys.readouterr().err == "opendp-tree: unexpected error (RuntimeError). Hint: please report it\n"


STOPS = {signal.SIGINT: (130, "opendp-tree: interrupted\n"), signal.SIGTERM: (-signal.SIGTERM, "")}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("step", ["_encode", "PendingFile.commit"])
def test_an_interrupt_or_a_termination_leaves_no_part_and_costs_nothing_before_the_commit(tmp_path, stop, step):
    source, book = write_rows(tmp_path, "csv", ROWS), tmp_path / "ledger"
    wait = "lambda *args, plain={0}: (print('now', flush=True), sys.stdin.readline(), plain(*args))[2]"
    replaced = f"commands.{step}" if step == "_encode" else step
    slow = (
        "import sys, opendp_tree.cli.commands as commands\n"
        "from opendp_tree.cli import main\n"
        "from opendp_tree._files import PendingFile\n"
        f"{replaced} = {wait.format(replaced)}\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = ["release", source, "--by", "region", *BUDGET, "-o", str(tmp_path / "out.csv"), "--ledger", str(book)]
    words += ["--total-epsilon", "2", "--total-delta", "1e-5"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen([sys.executable, "-c", slow, *words], text=True, env=ENVIRONMENT, **pipes)
    assert process.stdout.readline() == "now\n"
    process.send_signal(stop)
    code, errors = STOPS[stop]
    assert process.communicate("go on\n", timeout=PATIENCE) == ("", errors)
    assert process.returncode == code
    paid = step != "_encode"  # then it is written, too
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", *["out.csv"] * paid, "rows.csv"]
    assert len(Ledger.open(book).entries()) == paid
