"""Restores and forks: what a snapshot holds goes on, in place, in another cluster, or as a second system.

One pipeline with three targets; see docs/guide/restore.md and docs/guide/fork.md.

| module | |
|---|---|
| `plan` | the request, the plan that is shown, confirmed and done, and the result |
| `session` | the snapshot, its tables and the cluster it goes to; consumer groups that are held |
| `target_in_place`, `target_cluster`, `target_fork` | what is planned and appended for each |
| `recovery` | from a plan to its result |
| `steps`, `finish` | the steps in their order; those past the commit point |
| `refusals`, `code_changes`, `selection`, `shortened` | every reason not to do it, by a stable code; pure |
| `positions`, `channels`, `state` | where agents start, and what is appended |
| `topics`, `new_topics` | the topics that are created, with settings that keep what is appended |
| `suppression`, `masks`, `masking`, `expressions`, `editing` | erased keys, and values that are replaced |
| `still_held` | older snapshots that hold what was erased |
| `appending` | records of the run's own process, stamped, and read back |
| `comparing`, `comparing_inputs` | tables, positions and messages beside those of a snapshot; pure |
| `attempt`, `checking` | both, before the commit point, and at any time |
| `forks` | which forks there are, and their removal |
"""
