"""How to get into a cluster: addresses, TLS, SASL, and what a refusal means."""
