"""The engine for snapshots of any size: PySpark reads the ranges, builds the tables and checks them."""
