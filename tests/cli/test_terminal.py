import os

import pytest

from opendp_tree.cli.terminal import Progress, silenced


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
