"""The tables of a snapshot, as transforms of what was read."""
