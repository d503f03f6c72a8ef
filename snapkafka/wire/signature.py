"""Signatures of ledger records: HMAC-SHA256 with a key that all who write to the ledger share (RFC 2104).

Anyone who may write to the ledger can close for others, declare them dead, pause them. With a key, only its holders
can. The signature is a header of the ledger record, so the Avro bytes do not change:

    version (1 B) | `seen` (8 B, big-endian): ledger end that the author had seen | HMAC-SHA256 (32 B)

It covers the version, the topic and Kafka's id of it, `seen`, and the value. So a record cannot be replayed:

* in another ledger, or in a recreated one: the topic id is another;
* later in the same one: a record counts only within `FRESH_WITHIN` offsets of `seen`. Every reader knows all
  duplicates of (process, n) at that distance (`protocol.deduplication`), so a copy there changes nothing. Beyond it
  the copy is stale.

Several keys are for rotation: the first one signs, all are accepted.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from snapkafka.errors import BadInputError
from snapkafka.protocol.deduplication import KEEP_NUMBERS

#: The header of a ledger record that holds its signature.
HEADER: Final = "_sk_signature"
#: Environment variables: the keys, separated by commas; a file with one a line; "accept" while keys are rolled out.
KEY: Final = "SNAPKAFKA_LEDGER_KEY"
KEY_FILE: Final = "SNAPKAFKA_LEDGER_KEY_FILE"
UNSIGNED: Final = "SNAPKAFKA_LEDGER_UNSIGNED"
#: Shorter keys can be guessed from a signature.
KEY_BYTES_MIN: Final = 16
#: As many records of authors that are no living process are recognised as duplicates.
FRESH_WITHIN: Final = KEEP_NUMBERS

VERSION: Final = b"\x01"
SEEN_BYTES: Final = 8
SIGNATURE_BYTES: Final = 1 + SEEN_BYTES + hashlib.sha256().digest_size


class Place(NamedTuple):
    """The ledger that a signature is for: its topic, and Kafka's id of it (32 hex digits)."""

    topic: str
    topic_id: str


class Keys:
    """The keys that sign and check records.

    Args:
        keys: the first one signs, all are accepted; none: nothing is signed, and everything accepted.
        unsigned: accept records without a signature, too: while keys are rolled out.
    """

    def __init__(self, keys: Sequence[bytes] = (), *, unsigned: bool = False) -> None:
        self._keys = tuple(keys)
        self.unsigned = unsigned or not self._keys

    def __bool__(self) -> bool:
        """Return whether there is a key."""
        return bool(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Keys:
        """Read the keys of `SNAPKAFKA_LEDGER_KEY` or of the file that `SNAPKAFKA_LEDGER_KEY_FILE` names.

        Raises:
            BadInputError: both are set, the file cannot be read or has no key, a key is too short.
        """
        text, path = environ.get(KEY, ""), environ.get(KEY_FILE, "")
        unsigned = environ.get(UNSIGNED, "")
        if unsigned not in ("", "accept"):
            raise BadInputError(f"{UNSIGNED} must be accept or not set, got {unsigned!r}")
        if text and path:
            raise BadInputError(f"{KEY} and {KEY_FILE} are both set", hint="set one of them")
        if path:
            where = f"{KEY_FILE} ({path})"
            try:
                lines = Path(path).read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise BadInputError(
                    f"{where} cannot be read: {error}", hint="one key a line; the first one signs"
                ) from error
            found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        else:
            where, found = KEY, [part.strip() for part in text.split(",") if part.strip()]
        if (text or path) and not found:
            raise BadInputError(f"{where} has no key", hint="`openssl rand -hex 32` makes one")
        if any(len(key.encode()) < KEY_BYTES_MIN for key in found):
            raise BadInputError(
                f"{where} has a key of less than {KEY_BYTES_MIN} bytes",
                hint="`openssl rand -hex 32` makes one",
            )
        return cls([key.encode() for key in found], unsigned=unsigned == "accept")

    def sign(self, place: Place, seen: int, value: bytes) -> bytes | None:
        """Return the signature of a record by the first key; None without a key.

        Args:
            seen: the ledger end that its author has seen.
        """
        if not self._keys:
            return None
        head = VERSION + seen.to_bytes(SEEN_BYTES, "big")
        return head + _mac(self._keys[0], place, head, value)

    def accepts(self, place: Place, offset: int, value: bytes, signature: bytes | None) -> bool:
        """Return whether the record at `offset` may count. Never raises, whatever the signature is."""
        if not self._keys:
            return True
        if signature is None:
            return self.unsigned
        if len(signature) != SIGNATURE_BYTES or signature[:1] != VERSION:
            return False
        head, mac = signature[: 1 + SEEN_BYTES], signature[1 + SEEN_BYTES :]
        seen = int.from_bytes(head[1:], "big")
        if not seen <= offset < seen + FRESH_WITHIN:
            return False
        return any(hmac.compare_digest(_mac(key, place, head, value), mac) for key in self._keys)


def _mac(key: bytes, place: Place, head: bytes, value: bytes) -> bytes:
    """Sign parts that cannot be confused with one another: the names hold no zero byte, the others have fixed
    lengths."""
    text = b"\0".join((b"snapkafka ledger", place.topic.encode(), place.topic_id.encode(), head + value))
    return hmac.new(key, text, hashlib.sha256).digest()
