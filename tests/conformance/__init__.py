"""The same scenarios on every driver: money is conserved, row by row."""
