"""The peers of the benchmarks."""
