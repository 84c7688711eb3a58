"""`dsl tune`: the fastest point of a schedule's `tune` sets, for given shapes. See docs/tuning.md."""
