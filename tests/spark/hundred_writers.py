"""A table, written to S3 by a hundred tasks at once: `python -m tests.spark.hundred_writers URI`."""

from __future__ import annotations

import json
import sys
from typing import Final

from snapkafka.assembly import session
from snapkafka.assembly.spark.write import file_hashes, parquet, s3_commit
from snapkafka.store import RemoteFolder, open_store

WRITERS: Final = 100
ROW: Final = (
    "'shop' app", "'agent' agent", "'orders' topic", "0 partition", "id position",
    "array(id) started_above", "0 replay_until", "id process",
)  # fmt: skip


def main(uri: str) -> None:
    """As assembly does it, with a core for each task."""
    store = open_store(uri)
    folder = RemoteFolder(path="all/run", uri=store.spark_uri("all/run"))
    with (
        session(s3=True, settings={"spark.master": f"local[{WRITERS}]"}) as spark,
        s3_commit.reached(spark, store),
    ):
        rows = spark.range(0, 10 * WRITERS, 1, WRITERS).selectExpr(*ROW)
        parquet.write(rows, "positions", folder, rows_max=WRITERS * parquet.ROWS_PER_FILE)
        files = file_hashes.files(spark, {"positions": f"{folder.uri}/positions"}, store.sha256)
    print(json.dumps({"files": len(files), "different": len({file.sha256 for file in files})}))


if __name__ == "__main__":
    main(sys.argv[1])
