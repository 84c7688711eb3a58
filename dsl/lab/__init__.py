"""`dsl tune`: which point of a schedule's `tune` sets is fastest for which shapes. See docs/tuning.md."""
