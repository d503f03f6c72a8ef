"""Exact ranges of the log as DataFrames, and the session that reads them."""
