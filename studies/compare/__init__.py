"""Methods of taking a snapshot, compared on one workload in one simulated world.

Six methods, each fully implemented: stop-the-world; Chandy and Lamport's (1985); barrier alignment (Carbone et al.,
2015); colours and an observer (Lai and Yang, 1987; Mattern, 1993); a copy-on-write fork; and snapkafka's offsets,
which run the real protocol. Bytes that a method keeps are kept in real buffers and counted there; its messages go
through the simulated network and are counted there. And every snapshot is checked, from its bytes and the true
history.

Read in this order: `workload` (the common input), `process` and `world` (the environment), `methods`, `check` (is it a
consistent state?), `outcome` (the cost of one run), `fitting` and `reach` (sizes that cannot be run), `study` (the
list of runs), then `table`, `pictures` and `command`.
"""
