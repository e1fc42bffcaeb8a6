"""The page of benchmarks holds what the modules write."""

from benchmarks.__main__ import BENCHMARKS, heading, kept_sections


def test_the_page_has_every_benchmark_in_order():
    assert list(kept_sections()) == [heading(benchmark) for benchmark in BENCHMARKS]
    assert all(text.strip() for text in kept_sections().values())
