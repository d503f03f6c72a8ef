"""Restores and forks: a snapshot continues, in place, in another cluster, or as a second system.

One pipeline: in place, or as a copy; see docs/guide/restore.md and docs/guide/fork.md.

| module | |
|---|---|
| `plan` | the request, the plan that is shown, confirmed and run, and the result |
| `session` | the snapshot, its tables and the target cluster; held consumer groups |
| `target`, `planning` | the created topics and the appended records of each kind; its plan |
| `recovery`, `steps` | from a plan to its result; the steps in their order |
| `refusals`, `code_changes`, `shortened`, `lost_inputs` | every reason to refuse, by a stable code; pure |
| `positions`, `channels`, `state` | the starts of agents, and the appended records |
| `topics` | the topics of a snapshot, and the settings that keep appended records |
| `suppression`, `masks`, `masking`, `expressions`, `editing` | erased keys, and replaced values |
| `appending` | records of the run's own process, stamped, and read back |
| `forks` | the list of forks, and their removal |
"""

from .appending import NewRecord
from .editing import Editing
from .lost_inputs import unexplained
from .masks import Mask
from .plan import Irrevocable, PartitionMove, Plan, Recovered, Refusal, Request, TopicWork
from .state import Row, differences
from .stored_rows import Carried, rows_of_state
from .suppression import Suppression
from .topics import NewTopic
