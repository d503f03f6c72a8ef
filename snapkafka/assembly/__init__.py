"""Assembly: from a vector of offsets to tables, with the proof that the cut is consistent.

This package holds what any engine needs; `spark` is the engine for snapshots of any size.

| module | content |
|---|---|
| `options` | the arguments of the job |
| `ledger` | the ledger's side: captured snapshots, and their verdicts |
| `cluster` | facts about the cluster: existing offsets, topics |
| `base` | the base of an incremental snapshot |
| `avro_schemas`, `schema_registry` | Avro schemas, from files or a registry |
| `manifest` | the manifest of an assembly |
| `progress`, `report` | the progress of the job, and its result |
| `spark.entry`, `spark.command` | the job as a process, and its command line |
| `spark.job` | the order of the work, the manifest last |
| `spark.frames` | the captured snapshot as small DataFrames, for joins |
| `spark.reading` | the session, exact offset ranges, our header |
| `spark.tables` | state, channels, messages, processes, positions |
| `spark.values` | keys and values as text |
| `spark.verify` | V1 to V6; files have the names of those in `snapkafka.checks` |
| `spark.write` | Parquet, object storage, digests |

Run it with `python -m snapkafka.assembly` or `spark-submit`; see docs/guide/assembly.md. Importing this package loads
no Spark.
"""
