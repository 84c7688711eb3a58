"""Experiments on launches: ablation, bisection, comparison, fuzzing, tuning, cost models. README.md lists the files."""
