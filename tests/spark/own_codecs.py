"""A module of an app that registers codecs of its own; to be imported where the data is."""

import json
import sys
import zlib
from typing import Any

from faust.serializers import codecs


class Zipped(codecs.Codec):
    """Compressed bytes."""

    def _loads(self, s: bytes) -> bytes:
        return zlib.decompress(s)

    def _dumps(self, s: bytes) -> bytes:
        return zlib.compress(s)


class Reversed(codecs.Codec):
    """JSON, with its bytes in reverse."""

    def _loads(self, s: bytes) -> Any:
        return json.loads(s[::-1])

    def _dumps(self, obj: Any) -> bytes:
        return json.dumps(obj).encode()[::-1]


class Leaving(codecs.Codec):
    """Ends the process where it can."""

    def _loads(self, s: bytes) -> Any:
        sys.exit(3)


codecs.register("zipped", Zipped())
codecs.register("reversed", Reversed())
codecs.register("leaving", Leaving())
codecs.register("hidden_pickle", codecs.raw_pickle() | Zipped())
