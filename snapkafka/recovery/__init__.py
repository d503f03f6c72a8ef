"""Restores and forks: a snapshot continues, in place, in another cluster, or as a second system.

One pipeline: in place, or as a copy; see docs/guide/restore.md and docs/guide/fork.md.

| module | |
|---|---|
| `plan` | the request, the plan that is shown, confirmed and run, and the result |
| `session` | the snapshot, its tables and the target cluster; held consumer groups |
| `planning` | the plan of each kind, and its run |
| `target` | the created topics and the appended records |
| `steps` | the steps of a run, in their order |
| `refusals`, `lost_inputs` | every reason to refuse, by a stable code |
| `positions`, `channels`, `state` | the starts of agents, and the appended records |
| `topics` | the topics of a snapshot, and the settings that keep appended records |
| `suppression`, `masking`, `editing` | erased keys, and replaced values |
| `forks` | the list of forks, and their removal |
"""

from .channels import NewRecord
from .editing import Editing
from .lost_inputs import unexplained
from .masking import Mask
from .plan import Irrevocable, PartitionMove, Plan, Recovered, Refusal, Request, TopicWork
from .state import Row, differences
from .stored_rows import Carried, rows_of_state
from .suppression import Suppression
from .topics import NewTopic
