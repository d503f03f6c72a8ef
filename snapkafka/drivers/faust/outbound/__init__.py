"""The way out: each record is coloured where it enters, and stamped where it is appended.

| module | what it does |
|---|---|
| `producer` | lead Faust's producer through here |
| `entry` | give a record the colour of the event that sends it |
| `fast_path` | append at once where nothing has to be waited for |
| `slow_path` | append under the lock of the partition |
| `partition` | the records and markers that wait in one partition |
| `carried_effect` | let colour and cause travel with a message that waits |
| `settle`, `outcomes` | learn the outcome of each send |
| `transactions` | sends that count when their transaction is committed |
| `unstamped` | records that leave without our header, for a size limit |
"""
