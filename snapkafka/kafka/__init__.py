"""The ports on a real Kafka: the ledger, topics and groups. The client library is aiokafka, as in Faust."""
