"""Run every benchmark and print its table."""

from benchmarks import consistent, noise, tree_sum


def main() -> None:
    for benchmark in (noise, tree_sum, consistent):
        print(f"\n{benchmark.__doc__.strip().splitlines()[0]}\n")
        benchmark.run()


main()
