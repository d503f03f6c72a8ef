"""The login to a cluster: addresses, TLS, SASL, and the meaning of a refusal."""
