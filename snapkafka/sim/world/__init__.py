"""The world that a seed decides: its plan, log, workers, groups and faults."""
