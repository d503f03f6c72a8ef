"""The way in: inputs that are assigned, their records, and the events that run.

| module | what it does |
|---|---|
| `assignment` | announce the inputs that were assigned |
| `resume` | let Faust resume them after it has sought |
| `conductor` | take our header off, take markers out, meet red records |
| `replies` | know whose event a reply belongs to |
| `recorder` | record the state of channels |
| `streams`, `sensors` | learn from Faust which event starts and ends |
| `running_events` | know which event runs |
"""
