"""Schemas of the small DataFrames that a captured snapshot becomes."""

from __future__ import annotations

from typing import Final

#: `position` is the least of the agents', `reach` the highest; `above` has the offsets past them that some agent has
#: started, `done` those of them that every agent has. Codecs are those that say more than what JSON or text would show
#: by themselves: others than ours write to an input, as they like.
INPUTS: Final = (
    "app string, topic string, partition int, position bigint, reach bigint, above array<bigint>, "
    "done array<bigint>, log_end bigint, receiver bigint, key_codec string, value_codec string"
)


PROCESSES: Final = "process bigint, sender_app string, left boolean"
WORKERS: Final = "process bigint, worker bigint"


#: Below `sent_end` lies what a process sent of the events that were running at its cut. `failed`: ranges of seqs that
#: were not acknowledged. Up to `earlier_seq` all was appended below `earlier_end`.
SENDERS: Final = (
    "process bigint, topic string, partition int, white_end bigint, last_seq bigint, sent_end bigint, "
    "failed array<struct<first:bigint,last:bigint>>, earlier_seq bigint, earlier_end bigint"
)


#: Inputs by what a cause in a header says of them: `reader` cut this one, and if it is `steady` runs nothing below it
#: again; `earlier` read it before, and up to `until` effects of theirs may be replays. The others are as in `INPUTS`.
CAUSES: Final = (
    "sender_app string, cause_topic string, cause_check bigint, cause_partition bigint, cause_position bigint, "
    "cause_reach bigint, cause_above array<bigint>, cause_done array<bigint>, reader bigint, steady boolean, "
    "earlier array<bigint>, until bigint"
)


#: What of these it takes to say whether an event counts as started, by one number (`cause_of`): to look something up by
#: a number takes a fraction of the time.
STARTED: Final = (
    "cause bigint, cause_position bigint, cause_done array<bigint>, reader bigint, steady boolean"
)


#: Causes of torn events, by who ran them.
TORN: Final = "process bigint, cause_check bigint, cause_partition bigint, cause_offset bigint"


#: Causes that name a topic as it was before it was recreated, by who ran them.
STRAY: Final = "process bigint, cause_check bigint"


CHANGELOGS: Final = (
    "app string, table_name string, topic string, partition int, place int, end bigint, key_codec string, "
    "value_codec string, sets boolean, windowed boolean"
)


#: A range that a receiver recorded, and the one that follows from its position and the sender's white end.
RECORDED: Final = (
    "process bigint, topic string, partition int, app string, start bigint, end bigint, position bigint, "
    "white_end bigint"
)


#: Per partition: below which offset everything white lies, and what of it a process that left before the trigger can
#: have sent; up to where it is a changelog and no input (`CutView.only_state_below`). Some input's reader has started
#: what lies below `reach` or is in `above`, and all readers what lies below `first_position`; what was received from
#: `received_since` on may be red; past `log_end` what was sent by a process that left counts as red. Of a changelog
#: what lies in `[state_start, state_end)` is its state, and the parent's state ends with the record at `seam`. `place`
#: is a number for it.
PLACES: Final = (
    "topic string, partition int, place bigint, closed_end bigint, left_end bigint, only_state_below bigint, "
    "reach bigint, above array<bigint>, received_since bigint, first_position bigint, log_end bigint, "
    "state_start bigint, state_end bigint, seam bigint"
)


#: Last white records that have to be there.
LAST: Final = (
    "topic string, partition int, offset bigint, process bigint, seq bigint, app string, old_topic boolean"
)
