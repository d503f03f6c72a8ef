"""The headers of many records at once, as columns of numbers: what `headers.read` says of each."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from snapkafka.wire import headers

_FIELDS: Final = "u1,>u2,>u2,>u4,>u4,u1,>u4"
#: What a header of so many bytes is.
_FORMS: Final = {
    headers.PLAIN_BYTES: (headers.VERSION << 4, np.dtype(_FIELDS)),
    headers.CAUSED_BYTES: (headers.VERSION << 4 | headers.CAUSE, np.dtype(f"{_FIELDS},>u2,>u2,u1,>u4")),
    headers.MARKER_BYTES: (headers.VERSION << 4 | headers.MARKER, np.dtype(f"{_FIELDS},>u4")),
}


class Stamps(NamedTuple):
    """Columns, a row for each record; of what is not there -1, of an epoch 0. `mark`: the input of a cause, topic check
    * 65,536 + partition."""

    process: Any
    epoch: Any
    seq: Any
    marker: Any
    mark: Any
    cause: Any


def read_all(ledger: int, check: int, given: Any) -> Stamps:
    """Decode the headers of records of one partition.

    Args:
        ledger, check: as for `headers.read`.
        given: the headers, a column of Arrow; nulls where there are none.
    """
    given = given.fill_null(b"")
    ends = np.frombuffer(given.buffers()[1], np.int32)[given.offset :][: len(given) + 1]
    content, sizes = np.frombuffer(given.buffers()[2] or b"", np.uint8), np.diff(ends)
    process, seq, mark, cause = (np.full(len(given), -1, np.int64) for _ in range(4))
    epoch, marker = np.zeros(len(given), np.int64), np.zeros(len(given), bool)
    for size, (kind, form) in _FORMS.items():
        at = np.flatnonzero(sizes == size)
        found = content[ends[at][:, None] + np.arange(size)].ravel().view(form)
        of = [found[name] for name in form.names or ()]
        ours = (of[0] == kind) & (of[1] == ledger) & (of[2] == check)
        at, of = at[ours], [column[ours].astype(np.int64) for column in of]
        epoch[at], process[at], seq[at], marker[at] = of[3], of[4], of[5] << 32 | of[6], kind & headers.MARKER
        if kind & headers.CAUSE:
            mark[at], cause[at] = of[7] << 16 | of[8], of[9] << 32 | of[10]
    return Stamps(process, epoch, seq, marker, mark, cause)
