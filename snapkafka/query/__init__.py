"""Assembled snapshots, read: where they lie, whether they are what was written, and SQL over their tables."""
