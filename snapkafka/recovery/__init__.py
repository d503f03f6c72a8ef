"""Restores and forks: what a snapshot holds goes on, in place, in another cluster, or as a second system.

One pipeline with three targets; see docs/guide/restore.md and docs/guide/fork.md.

| module | |
|---|---|
| `plan` | the request, the plan that is shown, confirmed and done, and the result |
| `session` | the snapshot, its tables and the cluster it goes to; consumer groups that are held |
| `target_in_place`, `target_cluster`, `target_fork` | what is planned and appended for each |
| `steps` | the steps in their order, and the commit point |
| `recovery` | from a plan to its result |
| `refusals`, `code_changes`, `selection` | every reason not to do it, by a stable code; pure |
| `positions`, `channels`, `state`, `editing`, `topics` | where agents start, what is appended, and to what |
| `suppression`, `masks` | the files of erased keys and of masks, which `editing` applies |
| `expressions`, `masking` | what it does that with |
| `still_held` | which snapshots of a storage hold an erased key |
| `appending` | records of the run's own process, stamped, and compared with the log afterwards |
| `forks` | which forks there are, and their removal |
"""
