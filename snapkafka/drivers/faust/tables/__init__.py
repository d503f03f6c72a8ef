"""Tables: their changelogs, the reads of events, and the stores on the disk.

| module | what it does |
|---|---|
| `changelogs` | take in records of changelogs, and recover to their ends |
| `reads`, `views`, `table_class` | learn what events read |
"""
