"""The login to Kafka: one set of settings, by librdkafka's names, for every client of snapkafka; and tokens for
SASL/OAUTHBEARER, from an identity provider by client credentials, or from a file.

They come from a file (`SNAPKAFKA_KAFKA_CONFIG=client.properties`) and from variables of the environment, which take
precedence: `sasl.username` is `SNAPKAFKA_KAFKA_SASL_USERNAME`. `TABLE` has what each client library calls them:
aiokafka (command, service, workers) and the JVM (Spark job); librdkafka (restore) takes them as they are.

An unknown setting of `security.*`, `sasl.*` or `ssl.*` is refused by name: to ignore it could mean a less secure login
than was asked for. Everything else in the file (`bootstrap.servers`, `group.id`, ...) is ignored.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from aiokafka.abc import AbstractTokenProvider

from snapkafka.errors import (
    AuthenticationError,
    BadInputError,
    CertificateError,
    DependencyMissingError,
    MechanismError,
)

#: The identity provider answers by then.
ANSWER_S: Final = 10.0
#: Where nothing shows how long a token holds.
ASSUMED_S: Final = 300.0
TOKEN_BYTES_MAX: Final = 1_000_000


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka is not looked into
    """A source of tokens: `sasl.oauthbearer.token.endpoint.url`, asked for each connection."""

    def __init__(self, url: str, client: str, secret: str, scope: str) -> None:
        super().__init__()
        self._url, self._client, self._secret, self._scope = url, client, secret, scope

    async def token(self) -> str:
        """Return a token, for aiokafka."""
        token, _ = await asyncio.to_thread(self.fetch)
        return token

    def fetch(self) -> tuple[str, float]:
        """Fetch a token; return it and its expiry, in seconds since 1970.

        Raises:
            AuthenticationError: the identity provider refuses the client or does not answer, or there is no such file.
        """
        from_file = self._url.startswith("file:")
        try:
            with urllib.request.urlopen(
                self._url if from_file else self._request(), timeout=ANSWER_S
            ) as response:
                text = response.read(TOKEN_BYTES_MAX).decode()
            if from_file:
                return text.strip(), _expiry(text, 0.0)
            answer = json.loads(text)
            return str(answer["access_token"]), _expiry(answer["access_token"], answer.get("expires_in") or 0)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AuthenticationError(
                f"{self._url} gave no token to client {self._client}: {error}",
                hint="check the settings sasl.oauthbearer.*",
            ) from error

    def _request(self) -> urllib.request.Request:
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        basic = base64.b64encode(f"{self._client}:{self._secret}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}", "Accept": "application/json"}
        return urllib.request.Request(
            self._url, urllib.parse.urlencode(form).encode(), headers, method="POST"
        )


def _expiry(token: str, holds_s: float) -> float:
    """Return the expiry of a JWT (`exp`); else what the identity provider says of it."""
    try:
        payload = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return time.time() + float(holds_s or ASSUMED_S)


PREFIX: Final = "SNAPKAFKA_KAFKA_"
#: Names the properties file.
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MODULES: Final = "org.apache.kafka.common.security"
#: The mechanisms of SASL, and Java's module for each.
MECHANISMS: Final = {
    "PLAIN": f"{_MODULES}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_MODULES}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_MODULES}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
_HANDLER: Final = f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"


class Setting(NamedTuple):
    """What a setting is for, and its name in other libraries.

    `use`: the part of a login that it belongs to. `aiokafka`: an argument of its clients. `jaas`: an option of Java's
    login module; `java`: Java's clients have it under the same name.
    """

    use: str = ""
    aiokafka: str = ""
    jaas: str = ""
    java: bool = False


CA, CERTIFICATE, KEY = "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"
HOST_CHECK: Final = "ssl.endpoint.identification.algorithm"
TABLE: Final[Mapping[str, Setting]] = {
    "security.protocol": Setting("", "security_protocol", java=True),
    "sasl.mechanism": Setting("SASL", "sasl_mechanism", java=True),
    "sasl.username": Setting("PASSWORD", "sasl_plain_username", "username"),
    "sasl.password": Setting("PASSWORD", "sasl_plain_password", "password"),
    CA: Setting("SSL"),
    CERTIFICATE: Setting("SSL"),
    KEY: Setting("SSL"),
    "ssl.key.password": Setting("SSL", java=True),
    HOST_CHECK: Setting("SSL", java=True),
    "sasl.oauthbearer.token.endpoint.url": Setting("OAUTHBEARER", java=True),
    "sasl.oauthbearer.client.id": Setting("OAUTHBEARER", "", "clientId"),
    "sasl.oauthbearer.client.secret": Setting("OAUTHBEARER", "", "clientSecret"),
    "sasl.oauthbearer.scope": Setting("OAUTHBEARER", "", "scope"),
    "sasl.kerberos.service.name": Setting("GSSAPI", "sasl_kerberos_service_name", java=True),
    "sasl.kerberos.principal": Setting("GSSAPI", "", "principal"),
    "sasl.kerberos.keytab": Setting("GSSAPI", "", "keyTab"),
}
#: librdkafka's other name.
ALIASES: Final = {"sasl.mechanisms": "sasl.mechanism"}


def variable(setting: str) -> str:
    """Return the variable of a setting: `sasl.username` -> `SNAPKAFKA_KAFKA_SASL_USERNAME`."""
    return PREFIX + setting.upper().replace(".", "_").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Security:
    """The settings of a login, by name: those that its protocol and its mechanism use."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Security:
        """Read the settings of the properties file and of the environment.

        Raises:
            BadInputError: the file cannot be read, or a setting is unknown; and what `of` raises.
        """
        found: dict[str, str] = {}
        for given, name, value in (*_in_file(environ.get(CONFIG_VARIABLE, "")), *_in_variables(environ)):
            if name not in TABLE:
                hint = f"known are {', '.join(sorted(TABLE))}"
                raise BadInputError(f"{given} is not a setting of snapkafka", hint=hint)
            found[name] = value
        return cls.of(found)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Security:
        """Take settings by their names.

        Raises:
            BadInputError: the protocol is missing or unknown. MechanismError: the mechanism is.
            CertificateError: a file of certificates or keys is missing or cannot be read.
        """
        given = {ALIASES.get(name, name): value for name, value in given.items()}
        if not given:
            return cls()
        if given.get(HOST_CHECK) == "":
            given[HOST_CHECK] = "none"  # librdkafka's word
        protocol, mechanism = given.get("security.protocol", ""), given.get("sasl.mechanism", "")
        if protocol not in PROTOCOLS:
            raise BadInputError(
                f"security.protocol is {protocol or 'not set'}",
                hint=f"set {variable('security.protocol')} to {' or '.join(PROTOCOLS)}",
            )
        uses = {"", "SSL"} if protocol.endswith("SSL") else {""}
        if protocol.startswith("SASL"):
            if mechanism not in MECHANISMS:
                raise MechanismError(
                    f"sasl.mechanism is {mechanism or 'not set'}",
                    hint=f"set {variable('sasl.mechanism')} to {' or '.join(MECHANISMS)}",
                )
            uses |= {"SASL", mechanism if mechanism in ("OAUTHBEARER", "GSSAPI") else "PASSWORD"}
        values = {
            name: given[name] for name, setting in TABLE.items() if name in given and setting.use in uses
        }
        if "GSSAPI" in uses:
            values.setdefault("sasl.kerberos.service.name", "kafka")
        if values.get(CERTIFICATE):
            values.setdefault(KEY, values[CERTIFICATE])
        elif values.get(KEY):
            raise CertificateError(f"{KEY} needs {CERTIFICATE}")
        found = cls(values)
        if "SSL" in uses:
            found.ssl_context()
        return found

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self.values)

    @property
    def mechanism(self) -> str:
        return self.values.get("sasl.mechanism", "")

    @property
    def tls(self) -> bool:
        return self.values.get("security.protocol", "").endswith("SSL")

    def ssl_context(self) -> ssl.SSLContext:
        """Create the TLS context for Python's clients.

        Raises:
            CertificateError: a file is not in PEM, or certificate and key do not belong together.
        """
        for name in (CA, CERTIFICATE, KEY):
            self._text(name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.values.get(HOST_CHECK) != "none"
        ca, certificate, key = (self.values.get(name) for name in (CA, CERTIFICATE, KEY))
        try:
            if ca:
                context.load_verify_locations(cafile=ca)
            else:
                context.load_default_certs()
            if certificate:
                context.load_cert_chain(certificate, key, lambda: self.values.get("ssl.key.password", ""))
        except OSError as error:  # ssl.SSLError is one
            raise CertificateError(
                f"{', '.join(filter(None, (ca, certificate, key)))}: cannot be used: "
                f"{getattr(error, 'reason', None) or error}",
                hint=f"{CA} holds certificates; {CERTIFICATE} and {KEY} are a pair; all in PEM",
            ) from error
        return context

    # -- in the form of each client library -----------------------------------------------------------------------

    def for_aiokafka(self) -> dict[str, Any]:
        """Return the keyword arguments of aiokafka's clients.

        Raises:
            DependencyMissingError: the library for GSSAPI is not installed.
        """
        found: dict[str, Any] = {
            argument: value for name, value in self.values.items() if (argument := TABLE[name].aiokafka)
        }
        if self.tls:
            found["ssl_context"] = self.ssl_context()
        if self.mechanism == "OAUTHBEARER":
            found["sasl_oauth_token_provider"] = self._tokens()
        if self.mechanism == "GSSAPI" and find_spec("gssapi") is None:
            raise DependencyMissingError(
                "sasl.mechanism GSSAPI needs the Python package gssapi",
                hint="pip install gssapi, and `kinit` or KRB5_CLIENT_KTNAME for a ticket",
            )
        return found

    def for_java(self) -> dict[str, str]:
        """Return the settings of Kafka's Java clients. Certificates are in them, so that other machines need no
        files."""
        found = {name: value for name, value in self.values.items() if TABLE[name].java}
        if self.values.get(HOST_CHECK) == "none":
            found[HOST_CHECK] = ""
        if self.values.get(CA):
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self._text(CA)}
        if self.values.get(CERTIFICATE):
            found["ssl.keystore.type"] = "PEM"
            found["ssl.keystore.certificate.chain"] = _pem_blocks(self._text(CERTIFICATE), "CERTIFICATE")
            found["ssl.keystore.key"] = _pem_blocks(self._text(KEY), "[A-Z ]*PRIVATE KEY")
        if self.mechanism:
            found["sasl.jaas.config"] = self._jaas()
        if self.mechanism == "OAUTHBEARER":
            found["sasl.login.callback.handler.class"] = _HANDLER
        return found

    def for_librdkafka(self) -> dict[str, Any]:
        """Return the settings of librdkafka, as confluent-kafka takes them."""
        if self.mechanism == "OAUTHBEARER":
            ours = {name: value for name, value in self.values.items() if "oauthbearer" not in name}
            return {**ours, "oauth_cb": lambda _config: self._tokens().fetch()}
        return dict(self.values)

    def _tokens(self) -> TokenProvider:
        names = ("token.endpoint.url", "client.id", "client.secret", "scope")
        return TokenProvider(*(self.values.get(f"sasl.oauthbearer.{name}", "") for name in names))

    def _jaas(self) -> str:
        options = {option: value for name, value in self.values.items() if (option := TABLE[name].jaas)}
        if self.mechanism == "GSSAPI":
            by_keytab = {"useKeyTab": "true", "storeKey": "true"}
            options |= by_keytab if "keyTab" in options else {"useTicketCache": "true"}
        quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in options.items()}
        given = (f'{name}="{value}"' for name, value in quoted.items())
        return " ".join([MECHANISMS[self.mechanism], "required", *given]) + ";"

    def _text(self, name: str) -> str:
        """Read the file in PEM that a setting names; empty where it names none."""
        if not (path := self.values.get(name)):
            return ""
        try:
            return Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CertificateError(
                f"{name} is {path}, which is no text in PEM: {getattr(error, 'strerror', None) or error}",
                hint="convert a store: `keytool -importkeystore -deststoretype PKCS12`, then `openssl pkcs12`",
            ) from error


def _in_file(path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the security settings of a properties file: as they are given, their names and values."""
    try:
        lines = Path(path).read_text("utf-8").splitlines() if path else []
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(
            f"{CONFIG_VARIABLE} is {path}, which cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="it names a file of lines NAME=VALUE, with librdkafka's names",
        ) from error
    for line in lines:
        name, _, value = (part.strip() for part in line.partition("="))
        if name.startswith(("security.", "sasl.", "ssl.")):
            yield f"{name} in {path}", ALIASES.get(name, name), value


def _in_variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    known = {variable(name): ALIASES.get(name, name) for name in (*TABLE, *ALIASES)}
    for given in sorted(name for name in environ if name.startswith(PREFIX) and name != CONFIG_VARIABLE):
        name = known.get(given, given)
        if environ[given] or name == HOST_CHECK:  # empty: no check
            yield given, name, environ[given]


def _pem_blocks(text: str, kind: str) -> str:
    """Extract the PEM blocks of one kind."""
    return "\n".join(re.findall(f"(?s)-----BEGIN {kind}-----.*?-----END {kind}-----", text))
