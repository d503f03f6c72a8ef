"""Queries on assembled snapshots: their places, their integrity, and SQL over their tables."""
