"""Restores and forks: a snapshot continues, in place, in another cluster, or as a second system.

One pipeline with three targets; see docs/guide/restore.md and docs/guide/fork.md.

| module | |
|---|---|
| `plan` | the request, the plan that is shown, confirmed and run, and the result |
| `session` | the snapshot, its tables and the target cluster; held consumer groups |
| `target_in_place`, `target_cluster`, `target_fork` | the plan and the appended records of each |
| `recovery` | from a plan to its result |
| `steps`, `finish` | the steps in their order; those past the commit point |
| `reasons`, `code_changes`, `shortened`, `lost_inputs` | every reason to refuse, by a stable code; pure |
| `positions`, `channels`, `state` | the starts of agents, and the appended records |
| `topics`, `new_topics` | the created topics, with settings that keep appended records |
| `suppression`, `masks`, `masking`, `expressions`, `editing` | erased keys, and replaced values |
| `appending` | records of the run's own process, stamped, and read back |
| `forks` | the list of forks, and their removal |
"""

from .appending import NewRecord
from .editing import Editing
from .lost_inputs import unexplained
from .masks import Mask
from .plan import Irrevocable, PartitionMove, Plan, Recovered, Request, TopicWork
from .state import Row, differences
from .stored_rows import rows_of_state
from .suppression import Suppression
from .target_facts import Carried, Refusal
from .topics import NewTopic
