import os

import pytest

from opendp_tree._files import PendingFile


def failing(error):
    """A system call that fails."""

    def fail(*_):
        raise error

    return fail


def test_a_file_replaces_its_target_only_when_complete(tmp_path):
    target = tmp_path / "out"
    target.write_text("old")
    with pytest.raises(KeyError), PendingFile(target):
        raise KeyError
    with PendingFile(target) as pending:
        assert target.read_text() == "old"
        pending.commit(b"new")
        assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]


def test_a_failed_commit_leaves_the_target_and_nothing_beside_it(tmp_path, monkeypatch):
    target = tmp_path / "out"
    target.write_text("old")
    for step in ("write", "fsync", "replace"):
        with monkeypatch.context() as patch, PendingFile(target) as pending:
            patch.setattr(os, step, failing(OSError(28, "No space left on device")))
            with pytest.raises(OSError, match="No space"):
                pending.commit(b"new")
        assert os.listdir(tmp_path) == ["out"]
        assert target.read_text() == "old"


def test_what_the_system_takes_in_parts_is_written_whole(tmp_path, monkeypatch):
    write = os.write
    with PendingFile(tmp_path / "out") as pending:
        monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, bytes(content)[:3]))
        pending.commit(b"0123456789")
    assert (tmp_path / "out").read_bytes() == b"0123456789"


def test_a_target_that_cannot_be_written_fails_before_anything_else(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        PendingFile(tmp_path / "no" / "out")
    assert caught.value.filename == str(tmp_path / "no" / "out")
    for place in (tmp_path, "/dev/null"):
        with pytest.raises(OSError, match="not a regular file"):
            PendingFile(place)


def test_links_stay(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    with PendingFile(link) as pending:
        pending.commit(b"content")
    assert link.is_symlink()
    assert real.read_bytes() == b"content"


@pytest.mark.skipif(os.name != "posix", reason="has no such modes")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o604, 0o666, None])
def test_a_file_that_is_replaced_keeps_its_mode_and_a_new_one_follows_the_mask(tmp_path, mode):
    target, plain = tmp_path / "out", tmp_path / "plain"
    plain.touch()
    if mode is not None:
        target.touch()
        target.chmod(mode)
        plain.chmod(mode)
    with PendingFile(target) as pending:
        (beside,) = tmp_path.glob(".*.part")
        assert beside.stat().st_mode == plain.stat().st_mode  # at no time can others read it
        pending.commit(b"new")
    assert target.stat().st_mode == plain.stat().st_mode


@pytest.mark.skipif(os.name != "posix", reason="has no groups")
def test_a_group_that_cannot_be_given_gets_no_rights(tmp_path, monkeypatch):
    target = tmp_path / "out"
    target.touch()
    target.chmod(0o660)
    monkeypatch.setattr(os, "fchown", failing(PermissionError()))
    with PendingFile(target) as pending:
        pending.commit(b"new")
    assert target.stat().st_mode & 0o777 == 0o600
