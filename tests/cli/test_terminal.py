import os

import pytest

from opendp_tree.cli.terminal import Progress, silenced, table


def test_numbers_line_up_to_the_right_and_texts_to_the_left():
    lines = table(
        ["node", "estimate", "note"], [["a", 1234.5, "x"], ["bb", 0.123456, ""], ["c", None, "z"]]
    ).splitlines()
    assert lines == ["node  estimate  note", "a        1,234  x", "bb       0.123", "c            -  z"]


def test_progress_is_silent_where_nobody_watches(capsys):
    progress = Progress(quiet=False)
    progress.step("counting")
    progress.end("done")
    assert capsys.readouterr() == ("", "")


def test_silence_holds_for_all_that_write_and_ends(capfd):
    with silenced():
        os.write(2, b"a thread of Polars")
    os.write(2, b"a user may know")
    assert capfd.readouterr().err == "a user may know"
    with pytest.raises(KeyError), silenced():
        raise KeyError
    os.write(2, b"still")
    assert capfd.readouterr().err == "still"
