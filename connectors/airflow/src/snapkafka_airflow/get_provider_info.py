"""What Airflow asks of a provider; equal to provider.yaml (tests hold them together)."""

from __future__ import annotations

from typing import Any

__all__ = ["get_provider_info"]


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, without its release."""
    text: dict[str, Any] = {"type": ["string", "null"]}
    return {
        "package-name": "snapkafka-airflow",
        "name": "snapkafka",
        "description": "Consistent global snapshots of Faust services on Kafka.",
        "integrations": [
            {
                "integration-name": "snapkafka",
                "external-doc-url": "https://pypi.org/project/snapkafka/",
                "tags": ["software"],
            }
        ],
        "hooks": [{"integration-name": "snapkafka", "python-modules": ["snapkafka_airflow.hooks.snapkafka"]}],
        "operators": [
            {
                "integration-name": "snapkafka",
                "python-modules": [
                    "snapkafka_airflow.operators.snapkafka",
                    "snapkafka_airflow.operators.drill",
                ],
            }
        ],
        "sensors": [
            {"integration-name": "snapkafka", "python-modules": ["snapkafka_airflow.sensors.snapkafka"]}
        ],
        "triggers": [
            {"integration-name": "snapkafka", "python-modules": ["snapkafka_airflow.triggers.snapkafka"]}
        ],
        "asset-uris": [
            {
                "schemes": ["snapkafka"],
                "handler": "snapkafka_airflow.assets.snapkafka.sanitize_uri",
                "factory": "snapkafka_airflow.assets.snapkafka.verified_asset",
            }
        ],
        "extra-links": ["snapkafka_airflow.operators.snapkafka.ManifestLink"],
        "connection-types": [
            {
                "connection-type": "snapkafka",
                "hook-class-name": "snapkafka_airflow.hooks.snapkafka.SnapkafkaHook",
                "hook-name": "snapkafka",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema"],
                    "relabeling": {
                        "host": "Bootstrap servers",
                        "login": "SASL user name",
                        "password": "SASL password",
                    },
                    "placeholders": {"host": "broker-1:9092,broker-2:9092"},
                },
                "conn-fields": {
                    "namespace": {
                        "label": "Namespace",
                        "description": "The systems that are snapshotted together",
                        "schema": text,
                    },
                    "storage": {
                        "label": "Storage",
                        "description": "Directory or URI of tables and manifests",
                        "schema": text,
                    },
                    "security_protocol": {
                        "label": "Security protocol",
                        "schema": text | {"enum": ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]},
                    },
                    "sasl_mechanism": {
                        "label": "SASL mechanism",
                        "schema": text
                        | {"enum": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]},
                    },
                    "ssl_ca_location": {"label": "CA file", "schema": text},
                    "ssl_certificate_location": {"label": "Client certificate file", "schema": text},
                    "ssl_key_location": {"label": "Client key file", "schema": text},
                    "kafka_config": {"label": "Properties file of Kafka's clients", "schema": text},
                    "python": {
                        "label": "Python of the Spark job",
                        "description": "Of an environment with snapkafka[spark]; empty means the one of Airflow",
                        "schema": text,
                    },
                },
            }
        ],
    }
