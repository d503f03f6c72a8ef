"""The login to Kafka: one set of settings, by librdkafka's names, for every client of snapkafka.

They come from a file (`SNAPKAFKA_KAFKA_CONFIG=client.properties`) and from variables of the environment, which take
precedence: `sasl.username` is `SNAPKAFKA_KAFKA_SASL_USERNAME`. From here each client library gets them in its own form:
aiokafka (command, service, workers), the JVM (Spark job), librdkafka (restore).

An unknown setting of `security.*`, `sasl.*` or `ssl.*` is refused by name: to ignore it could mean a less secure login
than was asked for. Everything else in the file (`bootstrap.servers`, `group.id`, ...) is ignored.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from snapkafka.errors import BadInputError, CertificateError, DependencyMissingError, MechanismError

from .oauth import TokenProvider
from .properties import NAMES, given_settings, pem_blocks, text_of, variable

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
OAUTH_HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
#: What a name and a password log in by.
WITH_PASSWORD: Final = MECHANISMS[:3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The settings of a login; empty fields are not set. `where`: field -> the setting from which it was read."""

    protocol: str = ""
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password: str = field(default="", repr=False)
    host_check: str = "https"
    token_url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    kerberos_service: str = ""
    kerberos_principal: str = ""
    kerberos_keytab: str = ""
    where: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Security:
        """Read the settings of the properties file and of the environment.

        Raises:
            BadInputError: a setting is unknown or incomplete.
            MechanismError: snapkafka does not have the SASL mechanism.
            CertificateError: a file of certificates or keys is missing or cannot be read.
        """
        given = given_settings(environ)
        found = cls(
            **{NAMES[name]: value for name, (value, _) in given.items()},
            where={NAMES[name]: source for name, (_, source) in given.items()},
        )
        found._validate()
        return found

    def __bool__(self) -> bool:
        """Return whether any field is set."""
        return any(getattr(self, item.name) != item.default for item in fields(self) if item.name != "where")

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    # -- checked -------------------------------------------------------------------------------------------------

    def _validate(self) -> None:
        if not self:
            return
        if not self.protocol:
            given = ", ".join(sorted(self.where.values()))
            raise BadInputError(
                f"{given} needs security.protocol",
                hint=f"set {variable('security.protocol')} to {' or '.join(PROTOCOLS[1:])}",
            )
        if self.protocol not in PROTOCOLS:
            raise BadInputError(
                f"{self._source('protocol')} is {self.protocol}, which is not a security protocol of Kafka",
                hint=f"it can be {', '.join(PROTOCOLS)}",
            )
        if self.sasl:
            self._validate_mechanism()
        if self.tls:
            self._validate_files()

    def _validate_mechanism(self) -> None:
        if self.mechanism not in MECHANISMS:
            problem = f"is {self.mechanism}, which is not supported" if self.mechanism else "is not set"
            raise MechanismError(
                f"{self._source('mechanism')} {problem}", hint=f"it can be {', '.join(MECHANISMS)}"
            )
        needed = {"token_url"} if self.mechanism == "OAUTHBEARER" else set()
        if self.mechanism in WITH_PASSWORD:
            needed = {"username", "password"}
        elif self.token_url and not self.token_url.startswith("file:"):
            needed |= {"client_id", "client_secret"} if self.mechanism == "OAUTHBEARER" else set()
        if missing := sorted(self._source(name) for name in needed if not getattr(self, name)):
            raise BadInputError(
                f"sasl.mechanism {self.mechanism} needs {' and '.join(missing)}",
                hint="see docs/guide/security.md for what each mechanism takes",
            )

    def _validate_files(self) -> None:
        for name in ("ca_file", "certificate_file", "key_file"):
            if path := getattr(self, name):
                text_of(path, self._source(name))
        if self.key_file and not self.certificate_file:
            raise CertificateError(f"{self._source('key_file')} needs {self._source('certificate_file')}")
        self.ssl_context()

    def _source(self, name: str) -> str:
        """Return where a field was set, or by which name it can be set."""
        setting = next(setting for setting, taken in NAMES.items() if taken == name)
        return self.where.get(name, f"{setting} ({variable(setting)})")

    def ssl_context(self) -> ssl.SSLContext:
        """Create the TLS context for Python's clients.

        Raises:
            CertificateError: a file is not in PEM, or certificate and key do not belong together.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = bool(self.host_check)
        try:
            if self.ca_file:
                context.load_verify_locations(cafile=self.ca_file)
            else:
                context.load_default_certs()
        except OSError as error:  # ssl.SSLError is one
            raise CertificateError(
                f"{self._source('ca_file')} is {self.ca_file}, which holds no certificates in PEM"
            ) from error
        if self.certificate_file:
            try:
                context.load_cert_chain(
                    self.certificate_file, self.key_file or None, lambda: self.key_password
                )
            except OSError as error:
                keys = f" and {self.key_file}" if self.key_file else ""
                raise CertificateError(
                    f"{self.certificate_file}{keys} cannot be used as certificate and key: "
                    f"{getattr(error, 'reason', None) or error}",
                    hint="both in PEM, of one pair; ssl.key.password opens an encrypted key",
                ) from error
        return context

    # -- in the form of each client library -----------------------------------------------------------------------

    def for_aiokafka(self) -> dict[str, Any]:
        """Return the keyword arguments of aiokafka's clients.

        Raises:
            DependencyMissingError: the library for GSSAPI is not installed.
        """
        if not self:
            return {}
        found: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls:
            found["ssl_context"] = self.ssl_context()
        if not self.sasl:
            return found
        found["sasl_mechanism"] = self.mechanism
        if self.mechanism in WITH_PASSWORD:
            found |= {"sasl_plain_username": self.username, "sasl_plain_password": self.password}
        elif self.mechanism == "OAUTHBEARER":
            found["sasl_oauth_token_provider"] = self._tokens()
        else:
            _require_gssapi()
            found["sasl_kerberos_service_name"] = self.kerberos_service or "kafka"
        return found

    def for_java(self) -> dict[str, str]:
        """Return the settings of Kafka's Java clients. Certificates are in them, so that other machines need no
        files."""
        if not self:
            return {}
        found = {"security.protocol": self.protocol}
        if self.tls:
            found["ssl.endpoint.identification.algorithm"] = self.host_check
        if self.tls and self.ca_file:
            certificates = text_of(self.ca_file, self._source("ca_file"))
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}
        if self.tls and self.certificate_file:
            chain = text_of(self.certificate_file, self._source("certificate_file"))
            key = text_of(self.key_file, self._source("key_file")) if self.key_file else chain
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": pem_blocks(chain, "CERTIFICATE"),
                "ssl.keystore.key": self._pkcs8(key),
            }
            if self.key_password:
                found["ssl.key.password"] = self.key_password
        if self.sasl:
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas()}
        if self.sasl and self.mechanism == "OAUTHBEARER":
            found["sasl.oauthbearer.token.endpoint.url"] = self.token_url
            found["sasl.login.callback.handler.class"] = OAUTH_HANDLER
        if self.sasl and self.mechanism == "GSSAPI":
            found["sasl.kerberos.service.name"] = self.kerberos_service or "kafka"
        return found

    def for_librdkafka(self) -> dict[str, Any]:
        """Return the settings of librdkafka, as confluent-kafka takes them."""
        if not self:
            return {}
        found: dict[str, Any] = {"security.protocol": self.protocol}
        if self.tls:
            found["ssl.endpoint.identification.algorithm"] = self.host_check or "none"
            files = {
                "ssl.ca.location": self.ca_file,
                "ssl.certificate.location": self.certificate_file,
                "ssl.key.location": self.key_file or self.certificate_file,
                "ssl.key.password": self.key_password,
            }
            found |= {name: value for name, value in files.items() if value}
        if not self.sasl:
            return found
        found["sasl.mechanism"] = self.mechanism
        if self.mechanism in WITH_PASSWORD:
            found |= {"sasl.username": self.username, "sasl.password": self.password}
        elif self.mechanism == "OAUTHBEARER":
            provider = self._tokens()
            found["oauth_cb"] = lambda _config: provider.token_and_expiry()
        else:
            found["sasl.kerberos.service.name"] = self.kerberos_service or "kafka"
            kerberos = {
                "sasl.kerberos.principal": self.kerberos_principal,
                "sasl.kerberos.keytab": self.kerberos_keytab,
            }
            found |= {name: value for name, value in kerberos.items() if value}
        return found

    def _tokens(self) -> TokenProvider:
        return TokenProvider(self.token_url, (self.client_id, self.client_secret, self.scope))

    def _jaas(self) -> str:
        package = "org.apache.kafka.common.security"
        password = {"username": self.username, "password": self.password}
        client = {"clientId": self.client_id, "clientSecret": self.client_secret, "scope": self.scope}
        ticket = {"principal": self.kerberos_principal, "keyTab": self.kerberos_keytab}
        module, options = {
            "PLAIN": (f"{package}.plain.PlainLoginModule", password),
            "SCRAM-SHA-256": (f"{package}.scram.ScramLoginModule", password),
            "SCRAM-SHA-512": (f"{package}.scram.ScramLoginModule", password),
            "OAUTHBEARER": (f"{package}.oauthbearer.OAuthBearerLoginModule", client),
            "GSSAPI": ("com.sun.security.auth.module.Krb5LoginModule", ticket),
        }[self.mechanism]
        given = [f"{name}={_quoted(value)}" for name, value in options.items() if value]
        if self.mechanism == "GSSAPI":
            given += ["useKeyTab=true", "storeKey=true"] if self.kerberos_keytab else ["useTicketCache=true"]
        return " ".join([module, "required", *given]) + ";"

    def _pkcs8(self, text: str) -> str:
        found = pem_blocks(text, "PRIVATE KEY") or pem_blocks(text, "ENCRYPTED PRIVATE KEY")
        if not found:
            path = self.key_file or self.certificate_file
            raise CertificateError(
                f"{path} has no key in PKCS#8, the one form that the Spark job's client reads",
                hint=f"`openssl pkcs8 -topk8 -nocrypt -in {path} -out key.pem` converts it",
            )
        return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _require_gssapi() -> None:
    from importlib.util import find_spec

    if find_spec("gssapi") is None:
        raise DependencyMissingError(
            "sasl.mechanism GSSAPI needs the Python package gssapi",
            hint="pip install gssapi, and `kinit` or KRB5_CLIENT_KTNAME for a ticket",
        )
