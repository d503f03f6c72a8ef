"""What a session says when it ends: nothing that the user has to read past to find the error."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

#: Two jobs look at rows of which one cannot be made, while others take long: when both have failed, tasks are at work.
FAILING: Final = """
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import functions as fn
from snapkafka.assembly.session import kept, session

def look(number):
    try:
        rows.groupBy(fn.col("id") + number).agg(fn.sum("long"), fn.max("bad")).collect()
    except Exception as error:
        return "boom" in str(error)

with session() as spark:
    rows = spark.range(0, 4, 1, 4).select(
        "id",
        fn.expr("if(id = 1, raise_error('boom'), 1)").alias("bad"),
        fn.expr("aggregate(sequence(1, 3000000), 0L, (sum, n) -> sum + n) + id").alias("long"),
    )
    with kept(rows) as rows, ThreadPoolExecutor(2) as pool:
        print(list(pool.map(look, range(2))))
"""


def test_a_job_that_fails_leaves_no_complaint_of_the_session_that_stops() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILING], capture_output=True, text=True, timeout=240, env=os.environ
    )
    assert done.stdout == "[True, True]\n", done.stderr
    assert "RejectedExecutionException" not in done.stderr, done.stderr
