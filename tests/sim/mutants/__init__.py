"""The mutants of the simulator: every rule switched off, and the seed or small world that shows it."""
