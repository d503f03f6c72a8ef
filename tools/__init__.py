"""Tools that only developers of snapkafka run; none is in the package."""
