"""Settings of a topic, changed as an operator changes them."""

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from snapkafka.until import blocking_until


def alter_settings(bootstrap: str, topic: str, changes: Mapping[str, str | None]) -> None:
    """Change these settings and no others, and wait until the broker shows just these texts; None removes one."""
    admin, place = AdminClient({"bootstrap.servers": bootstrap}), ConfigResource(ResourceType.TOPIC, topic)
    for name, value in changes.items():
        kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        place.add_incremental_config(ConfigEntry(name, value, incremental_operation=kind))
    admin.incremental_alter_configs([place])[place].result(30)

    def visible() -> bool:
        (asked,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        holding = asked.result(30)
        return all(
            holding[name].is_default if value is None else holding[name].value == value
            for name, value in changes.items()
        )

    blocking_until(visible, 30, f"the settings of {topic} to be changed")
