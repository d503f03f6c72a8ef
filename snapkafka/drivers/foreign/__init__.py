"""The driver for processes that do not speak Kafka; docs/explanation/foreign.md has the theory.

| module | what it does |
|---|---|
| `settings` | bounds, and the values of its calls |
| `ledger_task` | read the ledger, and append to it in order |
| `driver` | one process in the protocol: its calls, its cut |
| `hello`, `due` | what it states when it joins; the snapshot that waits for its state |
| `host` | the machine, and the hooks of its loop |
| `producer`, `state` | append what it sends, and its state |
| `assignment`, `progress`, `conductor`, `running_events` | starting offsets, progress, held records, the stream |
| `input_watch` | ends the session when an input changes |

The driver does not know gRPC: the service translates its calls into those of `Participant`.
"""
