"""The engine of recovery: a system that is made to go on from a snapshot, and the proof that it does."""
