"""Bytes <-> protocol types: the `_sk` header of every record (`headers`), the records of the ledger (`codec`)."""

from . import codec, headers
from .codec import decode, encode
