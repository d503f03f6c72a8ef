"""The incoming side: the assigned inputs, their records, and the running events."""
