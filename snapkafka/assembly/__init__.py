"""From a vector of offsets to tables, and the proof that the cut is consistent.

This package holds what any engine needs; `spark` is the engine for snapshots of any size.

| module | what |
|---|---|
| `options` | the arguments of the job |
| `ledger` | the ledger's side: which snapshot is captured, and what became of it |
| `cluster` | which offsets are there, and whose topics they are |
| `base` | what an incremental snapshot builds on |
| `avro_schemas`, `schema_registry` | schemas of Avro, from files or asked for |
| `manifest` | what the manifest of an assembly states |
| `progress`, `report` | how far the job is, and its result |
| `spark.entry`, `spark.command` | the job as a process, and its command line |
| `spark.job` | the order of the work, the manifest last |
| `spark.frames` | the captured snapshot as small DataFrames, to be joined with |
| `spark.reading` | the session, exact offset ranges, our header |
| `spark.tables` | state, channels, messages, processes, positions |
| `spark.values` | keys and values as text |
| `spark.verify` | V1 to V6; files have the names of those in `snapkafka.checks` |
| `spark.write` | Parquet, object storage, digests |

Run it with `python -m snapkafka.assembly` or `spark-submit`; see docs/guide/assembly.md. Importing this package loads
no Spark.
"""
