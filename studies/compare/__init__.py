"""Ways to take a snapshot, compared on one workload in one simulated world.

Six methods, each really carried out: stop-the-world; Chandy and Lamport's (1985); barrier alignment (Carbone et al.,
2015); colours and an observer (Lai and Yang, 1987; Mattern, 1993); a copy-on-write fork; and snapkafka's offsets, which
run the real protocol. Bytes that a method keeps are kept in real buffers and counted there; what it sends is sent
through the simulated network and counted there. And every snapshot is checked, from its bytes and the true history.

Read in this order: `workload` (what all of them meet), `process` and `world` (where), `methods`, `check` (is it a
consistent state?), `outcome` (what one run cost), `fitting` and `reach` (what cannot be run at size), `study` (what is
run), then `table`, `pictures` and `command`.
"""
