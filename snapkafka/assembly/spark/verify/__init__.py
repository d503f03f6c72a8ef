"""The checks on DataFrames: the same findings as `snapkafka.checks` has on lists."""
