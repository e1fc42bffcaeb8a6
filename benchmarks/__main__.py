"""Run every benchmark and print its table."""

from benchmarks import multiplicative_estimator, noise, tree_sum


def main() -> None:
    for benchmark in (noise, tree_sum, multiplicative_estimator):
        print(f"\n{benchmark.__doc__.strip().splitlines()[0]}\n")
        benchmark.run()


main()
