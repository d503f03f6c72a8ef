"""The Spark job: it turns a vector of offsets into tables, and proves that the cut is consistent.

| module | content |
|---|---|
| `entry` | the job as a process: its parent, its output; `interrupting`: its clean-up after a signal |
| `session` | the one place that creates a Spark session |
| `source` | exact offset ranges of topics as a DataFrame |
| `decode` | our header |
| `codecs` | keys and values as texts; `numbered`: by the schemas of a registry, which `registry` asks |
| `lookups` | the captured snapshot as small DataFrames, for joins |
| `tables` | state, channels, messages, processes, positions |
| `parents` | the base of an incremental snapshot; `deltas`: its state |
| `checks` | V1, V2, V4, V5 in Spark; `invariants`: V6 |
| `meter` | the progress and the work done: as data in `progress`, in a report in `report` |
| `quota` | the brokers throttle the reading |
| `manifests` | the manifest of an assembly |
| `remote` | tables in object storage |
| `job` | all of it in order, the manifest last |

Run it with `python -m snapkafka.assembly` or `spark-submit`; see docs/guide/assembly.md. Importing this package loads
no Spark.
"""
