"""Tables: their changelogs, the reads of events, and the stores on the disk."""
