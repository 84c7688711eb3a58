"""The examples of a file: known by shapes alone, run, launched, compared, reported."""
