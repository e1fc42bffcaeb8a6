"""A PostgreSQL server of the tests' own, by an unprivileged user, on a free port of the loopback."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path


def binaries():
    """The folder of PostgreSQL's server binaries; None where there is none."""
    given = os.environ.get("POSTGRES_BINARIES")
    folders = [Path(given)] if given else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    known = [folder for folder in folders if (folder / "initdb").is_file()]
    return known[-1] if known else None


@contextmanager
def postgres():
    """Settings of a connection to a server, which ends with the block."""
    # Where another user can reach it too.
    place = Path(tempfile.mkdtemp(prefix="opendp-tree-postgres-", dir="/tmp" if os.geteuid() == 0 else None))
    data = place / "data"
    user = _unprivileged(place)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(program, *arguments):
        subprocess.run(
            [str(binaries() / program), *arguments], check=True, capture_output=True, user=user, cwd=place, timeout=120
        )

    try:
        run("initdb", "-D", str(data), "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        options = f"-p {port} -h 127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        run("pg_ctl", "-D", str(data), "-w", "-o", options, "-l", str(place / "log"), "start")
        try:
            yield {"host": "127.0.0.1", "port": port, "user": "tester", "dbname": "postgres"}
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _unprivileged(place):
    """Whom to run the server as: PostgreSQL refuses to be run by root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    chosen = names.get("postgres") or names["nobody"]
    os.chown(place, chosen.pw_uid, chosen.pw_gid)
    return chosen.pw_uid
