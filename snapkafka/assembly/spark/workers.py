"""Starts the Python workers of a local session, by the pyspark that is installed and compiled: Spark puts an archive of
its source before it."""

import runpy
import sys

if __name__ == "__main__":
    sys.path = [place for place in sys.path if not place.endswith(".zip")]
    runpy.run_module("pyspark.daemon", run_name="__main__")
