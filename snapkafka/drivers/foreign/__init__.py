"""Drive the machine for processes that do not speak Kafka: docs/explanation/foreign.md has the theory.

| module | what it does |
|---|---|
| `settings` | bounds, and what a process states about itself |
| `ledger_task` | read the ledger, and append to it in order |
| `participant` | one process in the protocol: its sends, its state, its cut |

It knows no gRPC: the service translates calls into those of `Participant`.
"""
