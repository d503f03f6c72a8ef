"""Kafka's client properties, as files and variables spell them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from snapkafka.errors import BadInputError, CertificateError

PREFIX: Final = "SNAPKAFKA_KAFKA_"


#: Names the properties file.
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"


#: Kafka's name of a setting -> field of `Security`. The first name of a field is the one that messages use.
NAMES: Final[Mapping[str, str]] = {
    "security.protocol": "protocol",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",  # librdkafka's
    "sasl.username": "username",
    "sasl.password": "password",
    "ssl.ca.location": "ca_file",
    "ssl.truststore.location": "ca_file",
    "ssl.certificate.location": "certificate_file",
    "ssl.keystore.location": "certificate_file",
    "ssl.key.location": "key_file",
    "ssl.key.password": "key_password",
    "ssl.endpoint.identification.algorithm": "host_check",
    "sasl.oauthbearer.token.endpoint.url": "token_url",
    "sasl.oauthbearer.client.id": "client_id",
    "sasl.oauthbearer.client.secret": "client_secret",
    "sasl.oauthbearer.scope": "scope",
    "sasl.kerberos.service.name": "kerberos_service",
    "sasl.kerberos.principal": "kerberos_principal",
    "sasl.kerberos.keytab": "kerberos_keytab",
}


#: Settings that only describe the form of others: setting -> the values that can be read.
FORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "ssl.truststore.type": ("PEM",),
    "ssl.keystore.type": ("PEM",),
    "sasl.oauthbearer.method": ("oidc",),
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    ),
}


#: Options of a JAAS login module -> field.
JAAS: Final[Mapping[str, str]] = {
    "username": "username",
    "password": "password",
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "scope": "scope",
    "principal": "kerberos_principal",
    "keyTab": "kerberos_keytab",
    "serviceName": "kerberos_service",
}


_JAAS_OPTION: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))""")


_OAUTH_HANDLER: Final = FORMS["sasl.login.callback.handler.class"][0]


def variable(setting: str) -> str:
    """Return the variable of a setting: `sasl.username` -> `SNAPKAFKA_KAFKA_SASL_USERNAME`."""
    return PREFIX + setting.upper().replace(".", "_").replace("-", "_")


_BY_VARIABLE: Final = {variable(name): name for name in (*NAMES, *FORMS, "sasl.jaas.config")}


def read_properties(path: str) -> dict[str, str]:
    """Read the security settings of a properties file, by name."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(
            f"{CONFIG_VARIABLE} is {path}, which cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="it names a properties file, such as Kafka's command-line tools take by --command-config",
        ) from error
    found: dict[str, str] = {}
    for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        if not (line := line.strip()) or line[0] in "#!":
            continue
        name, _, value = (part.strip() for part in line.partition("="))
        if not name.startswith(("security.", "sasl.", "ssl.")):
            continue
        if name not in NAMES and name not in FORMS and name != "sasl.jaas.config":
            raise BadInputError(f"{path} has {name}, which snapkafka does not know", hint=_KNOWN)
        found[name] = value.replace("\\\\", "\\")
    return found


_KNOWN: Final = f"remove it there; known are {', '.join(sorted((*NAMES, *FORMS, 'sasl.jaas.config')))}"


def refuse_unknown(environ: Mapping[str, str]) -> None:
    for name in environ:
        if name.startswith(PREFIX) and name != CONFIG_VARIABLE and name not in _BY_VARIABLE:
            raise BadInputError(
                f"{name} is not a setting of snapkafka",
                hint=f"there are {CONFIG_VARIABLE}, {', '.join(sorted(_BY_VARIABLE))}",
            )


def conversion(name: str, forms: tuple[str, ...]) -> str:
    if name.endswith("store.type"):
        return (
            "convert the store to PEM: `keytool -importkeystore -deststoretype PKCS12`, then `openssl pkcs12`"
        )
    return f"it can be {' or '.join(forms)}"


def text_of(path: str, source: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise CertificateError(f"{source} is {path}, which is not in PEM", hint=_PEM) from error
    except OSError as error:
        raise CertificateError(
            f"{source} is {path}, which cannot be read: {error.strerror}",
            hint="check the path and the rights on the file, on this machine",
        ) from error


_PEM: Final = conversion("ssl.truststore.type", ())


def pem_blocks(text: str, kind: str) -> str:
    """Extract the PEM blocks of one kind."""
    return "\n".join(re.findall(f"-----BEGIN {kind}-----.*?-----END {kind}-----", text, re.DOTALL))


def quoted(text: str) -> str:
    escaped = "".join("\\" + letter if letter in '"\\' else letter for letter in text)
    return f'"{escaped}"'
