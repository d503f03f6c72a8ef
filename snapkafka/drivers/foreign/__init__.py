"""Drive the machine for processes that do not speak Kafka: docs/explanation/foreign.md has the theory.

| module | what it does |
|---|---|
| `settings` | bounds, and what a process states about itself |
| `ledger_task` | read the ledger, and append to it in order |
| `driver` | one process in the protocol: its calls, its cut |
| `host` | the machine, and the hooks of its loop |
| `producer`, `state` | append what it sends, and its state |
| `assignment`, `progress`, `conductor`, `receiving` | where it starts, how far it is, what waits, its stream |
| `watching` | partitions that are added, topics that are recreated |

It knows no gRPC: the service translates calls into those of `Participant`.
"""
