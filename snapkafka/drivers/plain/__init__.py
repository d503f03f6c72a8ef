"""The driver for loops with plain Kafka clients: consume, process, produce, by confluent-kafka or aiokafka.

| module | what it does |
|---|---|
| `make`, `participant` | choose the library; the parts, wired, and how a loop joins and leaves |
| `driver` | the machine under a lock, and the hooks of its loop |
| `hello`, `assignment`, `recovery` | what it states at the start; where inputs start; its table from the changelog |
| `conductor`, `running_events` | markers stay outside, red records wait; which event runs where |
| `settle`, `transactions` | what became of a send, and of a transaction |
| `table`, `partitioner` | the state of a loop; the partition of a record before it is stamped |
| `confluent_*`, `loop_thread` | clients that block: threads, and a loop of asyncio beside them |
| `aio_*` | aiokafka: all in the loop of the app |

A record that `poll` hands out is an event until its `event` block ends. Where Kafka's clients are called on the way
(committed offsets, flush, seek), it is by the loop's own ones; the ledger has connections of its own.
"""
