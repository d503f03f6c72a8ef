"""What differs between the releases of Airflow that are supported, in one place."""

from __future__ import annotations

from airflow.sdk import BaseHook, BaseOperator, BaseOperatorLink, BaseSensorOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.execution_time.xcom import XCom
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "BaseEventTrigger",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "BaseTrigger",
    "TriggerEvent",
    "XCom",
]
