"""The command as it is installed, and what it does when something goes wrong."""

import signal
import subprocess
import sys

import opendp_tree
from opendp_tree.cli import main, plan
from tests.cli.helpers import BUDGET, ENVIRONMENT, ROOT, ROWS, spawn, write_rows


def test_the_command_has_a_version_and_help():
    done = spawn("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"opendp-tree {opendp_tree.__version__}")
    done = spawn("release", "--help")
    assert done.returncode == 0
    assert "--ledger" in done.stdout


def test_installing_the_package_brings_the_command():
    assert '\n[project.scripts]\nopendp-tree = "opendp_tree.cli:main"\n' in (ROOT / "pyproject.toml").read_text()


def test_errors_are_one_line_on_standard_error():
    done = spawn("release", "missing.csv", "--by", "a", *BUDGET, "-o", "out.csv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "opendp-tree: there is no file missing.csv. Hint: check the name\n"


def test_unforeseen_errors_keep_their_messages_to_themselves(monkeypatch, capsys):
    def broken(options):
        raise RuntimeError("secret")

    monkeypatch.setattr(plan, "run_plan", broken)
    assert main(["plan", "--depth", "3", *BUDGET]) == 1
    assert capsys.readouterr().err == "opendp-tree: an unforeseen error (RuntimeError). Hint: please report it\n"


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    source = write_rows(tmp_path, "csv", ROWS)
    slow = (
        "import sys, time, opendp_tree.cli.release as release\n"
        "from opendp_tree.cli import main\n"
        "release._encode = lambda *_: (print('now', flush=True), time.sleep(60))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = ["release", source, "--by", "region", *BUDGET, "-o", str(tmp_path / "out.csv")]
    process = subprocess.Popen(
        [sys.executable, "-c", slow, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    assert process.stdout.readline() == "now\n"
    assert (tmp_path / f".out.csv.{process.pid}-0.part").exists()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "opendp-tree: interrupted\n")
    assert process.returncode == 130
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
