"""Benches: `make bench`, `make bench ONLY=name`. Never part of the tests: a bar is a figure, not a pass."""
