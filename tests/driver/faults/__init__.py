"""A fault in each function that a snapshot calls (R15): which ones, and what became of the worker."""
