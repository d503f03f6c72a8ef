"""The simulator: the protocol in worlds that one seed decides, without Kafka and without a clock."""
