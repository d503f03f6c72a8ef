"""The ports on a real Kafka: the ledger, topics and groups. One client library for everything: aiokafka, Faust's."""
