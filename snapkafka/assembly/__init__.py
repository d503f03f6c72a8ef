"""From a vector of offsets to tables, and the proof that the cut is consistent: the Spark job.

| module | what |
|---|---|
| `entry` | the job as a process: whose end ends it, where its result goes; `interrupting`: what it puts away before |
| `session` | the one place where a Spark session is made |
| `source` | exact offset ranges of topics as a DataFrame |
| `decode` | our header |
| `codecs` | keys and values as texts; `numbered`: by the schemas of a registry, which `registry` asks |
| `lookups` | the captured snapshot as small DataFrames, to be joined with |
| `tables` | state, channels, messages, processes, positions |
| `parents` | what an incremental snapshot builds on, and whether it can; `deltas`: its state |
| `checks` | V1, V2, V4, V5 in Spark; `invariants`: V6 |
| `meter` | how far it is, and what it came to: as data in `progress`, in a report in `report` |
| `manifests` | what the manifest of an assembly states |
| `remote` | tables in object storage |
| `job` | all of it in order, the manifest last |

Run it with `python -m snapkafka.assembly` or `spark-submit`; see docs/guide/assembly.md. Importing this package loads
no Spark.
"""
