"""The driver for loops with plain Kafka clients: consume, process, produce, by confluent-kafka or aiokafka.

| module | what it does |
|---|---|
| `make`, `participant` | choose the library; how a loop joins, gets its inputs and leaves |
| `driver`, `holding` | the machine under a lock, and the hooks of its loop; inputs that are held back |
| `hello`, `recovery`, `table` | what it states at the start; its table, and the changelog of that |
| `running_events` | which event runs where; what became of a transaction |
| `confluent_*`, `partitioner` | clients that block: threads, and a loop of asyncio beside them |
| `aio_*` | aiokafka: all in the loop of the app |

A record that `poll` hands out is an event until its `event` block ends. Where Kafka's clients are called on the way
(committed offsets, flush, seek), it is by the loop's own ones; the ledger has connections of its own.
"""
