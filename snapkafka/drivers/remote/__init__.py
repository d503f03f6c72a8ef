"""The driver for processes that do not speak Kafka; docs/explanation/remote.md has the theory.

| module | what it does |
|---|---|
| `inputs` | bounds and notices, starting offsets, and what it states of its inputs |
| `participant` | one process in the protocol: its calls, its state, its cut |
| `receiving` | the stream of records, and how far it is |

The driver does not know gRPC: the service translates its calls into those of `Participant`.
"""
