"""Engines: releases of many rows against the engine's own group-bys, and their memory.

Every job runs in a process of its own; its peak is that of resident memory. `ROWS=2e7 python -m benchmarks engines`
measures fewer rows than the hundred million on disk.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.timing import print_table

ROWS, SMALL, SERVER, SPARK = int(float(os.environ.get("ROWS", "1e8"))), 20_000_000, 2_000_000, 10_000_000
ROUNDS = 3
BY, LEAVES, CHUNK = ["state", "county", "city"], 10_000, 2_000_000
PAGE = Path(__file__).parents[1] / "docs" / "data.md"
PLAIN_BYTES = 220
"""What Polars' group-by of leaves and people takes for a row here: it is left out where there is not so much."""


def run() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCRATCH")) as folder:
        rows = [line for size in dict.fromkeys((min(SMALL, ROWS), ROWS)) for line in polars_jobs(folder, size)]
        rows += duckdb_jobs(folder, min(SMALL, ROWS)) + postgres_jobs(min(SERVER, ROWS))
        rows += spark_jobs(folder, min(SPARK, ROWS))
        keys = [key_job(folder, number) for number in (1_000_000, 30_000_000)]
    header = ("engine", "rows", "job", "seconds", "CPU, s", "to leaf group-by", "to (leaf, user) group-by", "GiB")
    print_table(header, rows)
    print(
        "\nRatios are of CPU seconds, of one run, those of PostgreSQL's server and of Spark's JVM among them. Seconds "
        "begin once the libraries are imported, which is a line of its own. Spark's are medians of "
        f"{ROUNDS} rounds in one session, after one to warm up. GiB are those of Python.\n"
    )
    header_of_keys = (
        "distinct 128-bit keys",
        "plain group-by, s",
        "release, s",
        "seconds to plain",
        "CPU to plain",
        "bytes a key, plain",
        "bytes a key, release",
    )
    print_table(header_of_keys, keys)
    before, _, rest = PAGE.read_text().partition("<!-- measured -->\n")
    after = rest.partition("<!-- end -->")[2]
    tables = f"{_markdown(header, rows)}\n{_markdown(header_of_keys, keys)}"
    PAGE.write_text(f"{before}<!-- measured -->\n\n{tables}\n<!-- end -->{after}")


def _markdown(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def write_visits(path: Path, rows: int) -> None:
    """Visits of a tenth as many people to ten thousand cities: half of each person's are to one city."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(7)  # data
    ends = np.cumsum(rng.lognormal(0, 1.5, LEAVES))
    text = pa.schema([("user", pa.int64()), *((name, pa.string()) for name in BY)])
    with parquet.ParquetWriter(path, text, compression="zstd") as writer:
        for start in range(0, rows, CHUNK):
            size = min(CHUNK, rows - start)
            user = (rows // 10 * rng.random(size) ** 1.5).astype(np.int64)
            home = (user * 2654435761 % 2**32) / 2**32
            draw = np.where(rng.random(size) < 0.5, home, rng.random(size))
            leaf = pl.Series("leaf", np.searchsorted(ends, draw * ends[-1]).clip(0, LEAVES - 1))
            names = {"state": leaf // 200, "county": leaf // 10, "city": leaf}
            columns = [pl.select(pl.format(name + " {}", number)).to_series() for name, number in names.items()]
            named = [column.alias(name) for column, name in zip(columns, BY, strict=True)]
            frame = pl.DataFrame([pl.Series("user", user * 7919 + 13), *named])
            writer.write_table(frame.to_arrow().cast(text), row_group_size=500_000)


def measured(job: str, *given: Any) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak GiB of a job in a new process."""
    seconds, cpu, memory = in_process(job, *given)
    return seconds, cpu, memory


def in_process(job: str, *given: Any) -> Any:
    """What a job in a new process finds."""
    command = [sys.executable, "-m", "benchmarks.engines", job, *map(str, given)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def lines(engine: str, rows: int, found: dict[str, tuple[float, float, float]]) -> list[tuple[str, ...]]:
    """A line for each job, against the two plain ones, by CPU seconds."""

    def ratio(job: str, plain: str) -> str:
        known = plain in found and not job.startswith(("plain", "imports"))
        return f"{found[job][1] / found[plain][1]:.2f}" if known else ""

    return [
        (
            engine,
            f"{rows:,}",
            job,
            f"{seconds:.1f}",
            f"{cpu:.1f}",
            ratio(job, "plain leaves"),
            ratio(job, "plain (leaf, user)") if "person" in job else "",
            f"{memory:.1f}",
        )
        for job, (seconds, cpu, memory) in found.items()
    ]


def polars_jobs(folder: str, rows: int) -> list[tuple[str, ...]]:
    path = Path(folder) / f"{rows}.parquet"
    write_visits(path, rows)
    found = {"imports, before any release": measured("imports"), "plain leaves": measured("polars_leaves", path)}
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if rows * PLAIN_BYTES < available:
        found["plain (leaf, user)"] = measured("polars_pairs", path)
    found["release of rows"] = measured("polars_release", path, 0, "")
    found["release, 5 rows a person"] = measured("polars_release", path, 5, "")
    found["release, 5 rows a person, memory='512MiB'"] = measured("polars_release", path, 5, "512MiB")
    return lines("Polars, Parquet", rows, found)


def duckdb_jobs(folder: str, rows: int) -> list[tuple[str, ...]]:
    path = Path(folder) / f"{rows}.parquet"
    found = {
        "plain leaves": measured("duckdb_query", path, "count(*)", ", ".join(BY)),
        "plain (leaf, user)": measured("duckdb_query", path, "count(*)", ", ".join([*BY, '"user"'])),
        "release of rows": measured("duckdb_release", path, 0),
        "release, 5 rows a person": measured("duckdb_release", path, 5),
    }
    return lines("DuckDB, Parquet", rows, found)


def postgres_jobs(rows: int) -> list[tuple[str, ...]]:
    if find_spec("psycopg") is None:
        print("PostgreSQL is left out: psycopg is not installed. Hint: pip install '.[postgres]'")
        return []
    from tests.engines import servers

    if servers.binaries() is None:
        print("(There are no server binaries of PostgreSQL here.)\n")
        return []
    with servers.postgres() as settings, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.parquet"
        write_visits(path, rows)
        given = json.dumps(settings)
        measured("postgres_fill", given, path)
        found = {
            "plain leaves": with_server("postgres_query", given, ", ".join(BY)),
            "plain (leaf, user)": with_server("postgres_query", given, ", ".join([*BY, '"user"'])),
            "release of rows": with_server("postgres_release", given, 0),
            "release, 5 rows a person": with_server("postgres_release", given, 5),
        }
    return lines("PostgreSQL", rows, found)


def with_server(job: str, settings: str, *given: Any) -> tuple[float, float, float]:
    """As `measured`, with the CPU seconds of the server, whose processes for a connection are gone after the job."""
    import psycopg

    with psycopg.connect(**json.loads(settings)) as connection:
        (told,) = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone() or ("",)
    server = int(told.split()[0])
    before = cpu_of(server)
    seconds, cpu, memory = measured(job, settings, *given)
    time.sleep(0.5)
    return seconds, cpu + cpu_of(server) - before, memory


def spark_jobs(folder: str, rows: int) -> list[tuple[str, ...]]:
    missing = "PySpark" if find_spec("pyspark") is None else "Java"
    if missing == "PySpark" or (shutil.which("java") is None and "JAVA_HOME" not in os.environ):
        print(f"(There is no {missing} here, and so nothing of Spark.)\n")
        return []
    path = Path(folder) / f"{rows}.parquet"
    if not path.exists():
        write_visits(path, rows)
    found = {job: tuple(figures) for job, figures in in_process("spark_rounds", path).items()}
    return lines("Spark, Parquet", rows, found)


def key_job(folder: str, number: int) -> tuple[str, ...]:
    path = Path(folder) / f"{number}.arrow"
    measured("write_keys", number, path)
    plain, release = measured("keys_plain", path), measured("keys_release", path)
    empty = measured("keys_release_of_none", path)
    each = [f"{(memory - empty[2]) * 2**30 / number:.0f}" for _, _, memory in (plain, release)]
    ratios = [f"{ours / theirs:.2f}" for ours, theirs in zip(release[:2], plain[:2], strict=True)]
    return f"{number:,}", f"{plain[0]:.1f}", f"{release[0]:.1f}", *ratios, *each


def polars_leaves(path: str) -> None:
    pl.scan_parquet(path).group_by(BY).len().collect(engine="streaming")


def polars_pairs(path: str) -> None:
    pl.scan_parquet(path).group_by([*BY, "user"]).len().collect(engine="streaming")


def imports() -> None:
    """What a release needs beside Polars."""
    import opendp.prelude as dp

    from opendp_tree import release_tree

    assert callable(release_tree)
    dp.enable_features("contrib")


def released(source: Any, rows: str, **options: Any) -> None:
    from opendp_tree import Unit, release_tree

    unit = Unit("user", rows=int(rows)) if int(rows) else None
    release_tree(source, by=BY, epsilon=1.0, delta=1e-6, unit=unit, **options)


def polars_release(path: str, rows: str, memory: str) -> None:
    released(path, rows, memory=memory or None)


def duckdb_connection(path: str) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW visits AS FROM '{path}'")
    return connection


def duckdb_query(path: str, what: str, by: str) -> None:
    connection = duckdb_connection(path)
    connection.execute(f"CREATE TABLE counted AS SELECT {by}, {what} AS n FROM visits GROUP BY {by}").fetchall()


def duckdb_release(path: str, rows: str) -> None:
    from opendp_tree.engines import DuckDBTable

    released(DuckDBTable(duckdb_connection(path), "visits"), rows)


def postgres_fill(settings: str, path: str) -> None:
    import psycopg

    with psycopg.connect(**json.loads(settings)) as connection, connection.cursor() as cursor:
        cursor.execute('CREATE TABLE visits ("user" bigint, state text, county text, city text)')
        with cursor.copy("COPY visits FROM STDIN (FORMAT csv)") as copy:
            copy.write(pl.read_parquet(path).write_csv(include_header=False))


def postgres_query(settings: str, by: str) -> None:
    import psycopg

    with psycopg.connect(**json.loads(settings)) as connection:
        connection.execute(f"CREATE TEMP TABLE counted AS SELECT {by}, count(*) AS n FROM visits GROUP BY {by}")


def postgres_release(settings: str, rows: str) -> None:
    import psycopg

    from opendp_tree.engines import PostgresTable

    with psycopg.connect(**json.loads(settings)) as connection:
        released(PostgresTable(connection, "visits"), rows)


def spark_rounds(path: str) -> dict[str, list[float]]:
    """Each job in turn, round after round in one session of all cores: medians, but for the first, which warms up."""
    from pyspark.sql import SparkSession

    from opendp_tree.engines import SparkTable

    imports()
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    session = builder.config("spark.driver.memory", "4g").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    frame, java = session.read.parquet(path), session.sparkContext._gateway.proc.pid  # type: ignore[union-attr]

    def grouped(*by: str) -> None:
        """Groups are all found, and left where they are."""
        frame.groupBy(*by).count().write.format("noop").mode("overwrite").save()

    jobs: dict[str, Callable[[], None]] = {
        "plain leaves": lambda: grouped(*BY),
        "plain (leaf, user)": lambda: grouped(*BY, "user"),
        "release of rows": lambda: released(SparkTable(frame), "0"),
        "release, 5 rows a person": lambda: released(SparkTable(frame), "5"),
    }
    found: dict[str, list[tuple[float, float]]] = {job: [] for job in jobs}
    for _ in range(1 + ROUNDS):
        for job, run_job in jobs.items():
            seconds, cpu = time.perf_counter(), time.process_time() + cpu_of(java)
            run_job()
            used = time.process_time() + cpu_of(java) - cpu
            found[job].append((time.perf_counter() - seconds, used))
    return {job: [*np.median(rounds[1:], axis=0).tolist(), peak()] for job, rounds in found.items()}


def cpu_of(process: int) -> float:
    """The CPU seconds of another process and of its children that have ended, as Linux tells them."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def peak() -> float:
    """Peak GiB. Not getrusage: on Linux its peak is that of the parent too, from before the new program was begun."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 2**20


def write_keys(number: str, path: str) -> None:
    """Distinct keys of 128 bits."""
    rng = np.random.default_rng(3)  # data
    words = rng.integers(0, 2**63, (2, int(number)))
    high, low = (pl.Series(name, column).cast(pl.Int128) for name, column in zip("hl", words, strict=True))
    pl.DataFrame([high, low]).select(key=pl.col("h") * 2**63 + pl.col("l")).write_ipc(path)


def keys_plain(path: str) -> None:
    pl.scan_ipc(path, memory_map=False).group_by("key").len().collect(engine="streaming")


def keys_release(path: str) -> None:
    released_keys(pl.scan_ipc(path, memory_map=False))


def keys_release_of_none(path: str) -> None:
    released_keys(pl.scan_ipc(path, memory_map=False).head(1000))


def released_keys(frame: pl.LazyFrame) -> None:
    from opendp_tree import Key, release_tree

    release_tree(frame, by=Key.bits("key", width=128, stride=8), epsilon=1.0, delta=1e-6)


if __name__ == "__main__":
    if "release" in sys.argv[1]:  # no library is imported on the clock, as Polars is not for plain jobs
        imports()
    begun, used = time.perf_counter(), time.process_time()
    found = globals()[sys.argv[1]](*sys.argv[2:])
    print(json.dumps(found or [time.perf_counter() - begun, time.process_time() - used, peak()]))
