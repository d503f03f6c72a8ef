"""Checkpoints of Flink beside snapshots of snapkafka: the same two stages, the same broker, the same load."""
