"""The embedded engine, for small snapshots: records in memory, the checks on lists, Parquet by pyarrow, SQL by DuckDB.

Whatever it does not do exactly as Spark does, it hands over (`HandOverError`): there is never a silent difference.
"""
