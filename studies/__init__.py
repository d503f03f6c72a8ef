"""Studies of snapkafka that are run from a checkout and are not in the package."""
