"""Airflow provider for snapkafka. Everything here translates: what is done is `snapkafka.ops`."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
