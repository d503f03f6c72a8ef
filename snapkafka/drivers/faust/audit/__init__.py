"""The audit: what the tables of a worker hold at its cut, sent for a comparison with their changelogs. Its parts are
imported when a snapshot first asks for one."""
