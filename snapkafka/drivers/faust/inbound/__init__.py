"""The incoming side: the assigned inputs, their records, and the running events.

| module | task |
|---|---|
| `assignment` | announce the inputs that were assigned |
| `resume` | let Faust resume them after it has sought |
| `conductor` | remove our header, take markers out, meet red records |
| `replies` | find the events that a red reply tears |
| `recorder` | record the state of channels |
| `streams`, `sensors` | learn from Faust which event starts and ends |
| `running_events` | know which event runs |
"""
