"""One local Spark session for all tests, and what its JVM writes; without Java a test is skipped, and says so."""

import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

LOG = Path(tempfile.gettempdir()) / f"opendp_tree_spark_{os.getpid()}.log"


@cache
def spark_session():
    """Two threads, four attempts at a task, and the JVM's words in a file."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'opendp-tree[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java, which Spark runs on")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    builder = SparkSession.builder.master("local[2,4]").appName("opendp-tree tests")
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",  # or so few rows would be one part
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "Europe/Brussels",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(),
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    kept = os.dup(2)
    with LOG.open("wb") as log:
        os.dup2(log.fileno(), 2)
        try:
            session = builder.getOrCreate()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    return session
