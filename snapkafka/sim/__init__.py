"""The protocol without Kafka: the same machines as in a service, over logs in memory, one step at a time."""
