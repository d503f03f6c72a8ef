"""Restores and forks: a snapshot continues, in place, or as a copy: in another cluster, or as a second system.

| module | |
|---|---|
| `plan` | the request, the plan that is shown, confirmed and run, and the result |
| `planning` | the plan of each kind, and its run; held consumer groups |
| `target` | the snapshot and the target cluster: the created topics, and the appended records |
| `steps` | the steps of a run, in their order |
| `refusals` | every reason to refuse, by a stable code |
| `state`, `channels` | the starts of agents, the appended records, and those that are gone |
| `topics` | the tables and topics of a snapshot, and the settings that keep appended records |
| `rules`, `editing` | erased keys, and replaced values |
| `forks` | the list of forks, and their removal |
"""

from .editing import Editing
from .plan import Irrevocable, PartitionMove, Plan, Recovered, Refusal, Request
from .rules import Mask, Suppression
from .state import differences
from .topics import Carried, NewTopic, rows_of_state
