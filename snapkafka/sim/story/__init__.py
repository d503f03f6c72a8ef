"""Scenarios from a file: processes, channels and steps, and the snapshots that come of them."""
