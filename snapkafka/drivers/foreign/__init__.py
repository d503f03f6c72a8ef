"""The driver for processes that do not speak Kafka; docs/explanation/foreign.md has the theory.

| module | what it does |
|---|---|
| `settings` | bounds, and the values of its calls |
| `driver` | one process in the protocol: its calls, its state, its cut |
| `producer`, `state` | append what it sends, and its state |
| `assignment` | its inputs: starting offsets, what it states of them, the watch over them |
| `running_events` | the stream of records, and how far it is |

The driver does not know gRPC: the service translates its calls into those of `Participant`.
"""
