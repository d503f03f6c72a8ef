"""Assembly: from a vector of offsets to tables, with the proof that the cut is consistent.

This package holds what any engine needs; `spark` is the engine for snapshots of any size.

| module | content |
|---|---|
| `spec` | the options of the job, and its result, as values and as JSON |
| `command`, `pipeline` | the job: its command line, and its work in order |
| `ledger` | the ledger's side: captured snapshots, and their verdicts |
| `cluster`, `loss` | facts about the cluster: existing offsets, topics; since when records are gone |
| `base` | the base of an incremental snapshot |
| `settings`, `decoding` | how a log is read, and keys and values are decoded |
| `avro_schemas`, `schema_registry` | Avro schemas, from files or a registry |
| `avro_types`, `avro_decoder` | any of them, parsed; Avro to JSON |
| `manifest` | the manifest of an assembly |
| `progress` | the progress of the job |
| `spark.entry`, `spark.engine` | the job as a process; Spark as its engine |
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
