"""Tables: their changelogs, the reads of events, and the stores on the disk.

| module | what it does |
|---|---|
| `changelogs` | take in records of changelogs |
| `reads`, `views`, `table_class`, `thread_reads` | learn what events read |
| `recovery` | recover tables of exactly-once apps to the end |
"""
