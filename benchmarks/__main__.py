"""Run every benchmark and print its table."""

from benchmarks import multiplicative_estimator, noise, partition_error, partition_speed, tree_sum


def main() -> None:
    for benchmark in (noise, tree_sum, multiplicative_estimator, partition_error, partition_speed):
        print(f"\n{benchmark.__doc__.strip().splitlines()[0]}\n")
        benchmark.run()


main()
