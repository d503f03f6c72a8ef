"""The settings of a login, by librdkafka's names, as a file and variables of the environment have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from snapkafka.errors import BadInputError, CertificateError

PREFIX: Final = "SNAPKAFKA_KAFKA_"
#: Names the properties file.
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"

#: Name of a setting -> field of `Security`. The first name of a field is the one that messages use.
NAMES: Final[Mapping[str, str]] = {
    "security.protocol": "protocol",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "ssl.ca.location": "ca_file",
    "ssl.certificate.location": "certificate_file",
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
#: Names of others for the same, and what to write instead.
INSTEAD: Final[Mapping[str, str]] = {
    "sasl.jaas.config": "sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location, with certificates in PEM",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location, in PEM",
}


def variable(setting: str) -> str:
    """Return the variable of a setting: `sasl.username` -> `SNAPKAFKA_KAFKA_SASL_USERNAME`."""
    return PREFIX + setting.upper().replace(".", "_").replace("-", "_")


def given_settings(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the settings of the properties file and of the environment, which takes precedence: name -> value, source.

    Raises:
        BadInputError: the file cannot be read, or a setting is unknown.
    """
    found: dict[str, tuple[str, str]] = {}
    if path := environ.get(CONFIG_VARIABLE):
        found = {name: (value, f"{name} in {path}") for name, value in _read(path).items()}
    by_variable = {variable(name): name for name in NAMES}
    for given in sorted(name for name in environ if name.startswith(PREFIX) and name != CONFIG_VARIABLE):
        if given not in by_variable:
            old = next((name for name in INSTEAD if variable(name) == given), "")
            raise _unknown(given, old, map(variable, NAMES))
        name = by_variable[given]
        if environ[given] or name == "ssl.endpoint.identification.algorithm":  # empty: no check
            found[name] = environ[given], given
    return found


def _read(path: str) -> dict[str, str]:
    """Read the security settings of a properties file, by name."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(
            f"{CONFIG_VARIABLE} is {path}, which cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="it names a file of lines NAME=VALUE, with librdkafka's names",
        ) from error
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition("="))
        if not name.startswith(("security.", "sasl.", "ssl.")):
            continue
        if name not in NAMES:
            raise _unknown(f"{name} in {path}", name, NAMES)
        found[name] = value
    return found


def _unknown(given: str, name: str, known: Iterable[str]) -> BadInputError:
    hint = f"write {INSTEAD[name]}" if name in INSTEAD else f"known are {', '.join(sorted(known))}"
    return BadInputError(f"{given} is not a setting of snapkafka", hint=hint)


def text_of(path: str, source: str) -> str:
    """Read a file in PEM."""
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise CertificateError(
            f"{source} is {path}, which is not in PEM",
            hint="convert the store: `keytool -importkeystore -deststoretype PKCS12`, then `openssl pkcs12`",
        ) from error
    except OSError as error:
        raise CertificateError(
            f"{source} is {path}, which cannot be read: {error.strerror}",
            hint="check the path and the rights on the file, on this machine",
        ) from error


def pem_blocks(text: str, kind: str) -> str:
    """Extract the PEM blocks of one kind."""
    return "\n".join(re.findall(f"-----BEGIN {kind}-----.*?-----END {kind}-----", text, re.DOTALL))
