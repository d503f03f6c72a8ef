"""Read how to log in to Kafka: one set of settings, by Kafka's own names, for every client of snapkafka.

They come from a properties file (`SNAPKAFKA_KAFKA_CONFIG=client.properties`) and from variables of the environment,
which take precedence: `sasl.username` is `SNAPKAFKA_KAFKA_SASL_USERNAME`. The file may be one of Kafka's Java clients
or one of librdkafka's: both spellings are read. From here each client library gets the same settings in its own form:
aiokafka (command, service, workers), the JVM (Spark job), librdkafka (restore).

A setting of `security.*`, `sasl.*` or `ssl.*` that is not known is refused by name: to ignore it could mean to log in
with less than was asked for. Everything else in the file (`bootstrap.servers`, `group.id`, ...) is ignored.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from snapkafka.errors import BadInputError, CertificateError, DependencyMissingError, MechanismError

__all__ = ["CONFIG_VARIABLE", "MECHANISMS", "PREFIX", "PROTOCOLS", "Security", "variable"]

PREFIX: Final = "SNAPKAFKA_KAFKA_"
#: Names the properties file.
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
#: What a name and a password log in by.
WITH_PASSWORD: Final = MECHANISMS[:3]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a client of ours logs in; empty fields are not set. `where`: field -> the setting that it was read from."""

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
            BadInputError: a setting is unknown, incomplete or has a form that cannot be read.
            MechanismError: snapkafka does not have the SASL mechanism.
            CertificateError: a file of certificates or keys is missing or cannot be read.
        """
        values: dict[str, str] = {}
        where: dict[str, str] = {}

        def take(name: str, value: str, source: str) -> None:
            if name == "sasl.jaas.config":
                for option, quoted, bare in _JAAS_OPTION.findall(value):
                    if option in JAAS:
                        values[JAAS[option]] = re.sub(r"\\(.)", r"\1", quoted) or bare
                        where[JAAS[option]] = f"{option} in {source}"
            elif name in FORMS:
                if value not in FORMS[name]:
                    raise BadInputError(
                        f"{source} is {value}, which cannot be read", hint=_conversion(name, FORMS[name])
                    )
            else:
                values[NAMES[name]], where[NAMES[name]] = value, source

        if path := environ.get(CONFIG_VARIABLE):
            for name, value in _properties(path).items():
                take(name, value, f"{name} in {path}")
        for given, name in sorted(_BY_VARIABLE.items()):
            if environ.get(given) or (given in environ and name == "ssl.endpoint.identification.algorithm"):
                take(name, environ[given], given)
        _refuse_unknown(environ)
        found = cls(**values, where=where)
        found._validate()
        return found

    def __bool__(self) -> bool:
        """Is anything set?"""
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
            told = f"is {self.mechanism}, which is not supported" if self.mechanism else "is not set"
            raise MechanismError(
                f"{self._source('mechanism')} {told}", hint=f"it can be {', '.join(MECHANISMS)}"
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
                _text(path, self._source(name))
        if self.key_file and not self.certificate_file:
            raise CertificateError(f"{self._source('key_file')} needs {self._source('certificate_file')}")
        self.ssl_context()

    def _source(self, name: str) -> str:
        """Where a field was set, or by which name it can be set."""
        setting = next(setting for setting, taken in NAMES.items() if taken == name)
        return self.where.get(name, f"{setting} ({variable(setting)})")

    def ssl_context(self) -> ssl.SSLContext:
        """Certificates for Python's clients.

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
        """Keyword arguments of aiokafka's clients.

        Raises:
            DependencyMissingError: GSSAPI, and its library is not installed.
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
            from .oauth import TokenProvider

            found["sasl_oauth_token_provider"] = TokenProvider(self)
        else:
            _require_gssapi()
            found["sasl_kerberos_service_name"] = self.kerberos_service or "kafka"
        return found

    def for_java(self) -> dict[str, str]:
        """Settings of Kafka's Java clients. Certificates are in them, so that other machines need no files."""
        if not self:
            return {}
        found = {"security.protocol": self.protocol}
        if self.tls:
            found["ssl.endpoint.identification.algorithm"] = self.host_check
        if self.tls and self.ca_file:
            certificates = _text(self.ca_file, self._source("ca_file"))
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}
        if self.tls and self.certificate_file:
            chain = _text(self.certificate_file, self._source("certificate_file"))
            key = _text(self.key_file, self._source("key_file")) if self.key_file else chain
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _blocks(chain, "CERTIFICATE"),
                "ssl.keystore.key": self._pkcs8(key),
            }
            if self.key_password:
                found["ssl.key.password"] = self.key_password
        if self.sasl:
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self._jaas()}
        if self.sasl and self.mechanism == "OAUTHBEARER":
            found["sasl.oauthbearer.token.endpoint.url"] = self.token_url
            found["sasl.login.callback.handler.class"] = _OAUTH_HANDLER
        if self.sasl and self.mechanism == "GSSAPI":
            found["sasl.kerberos.service.name"] = self.kerberos_service or "kafka"
        return found

    def for_librdkafka(self) -> dict[str, Any]:
        """Settings of librdkafka, as confluent-kafka takes them."""
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
            from .oauth import TokenProvider

            provider = TokenProvider(self)
            found["oauth_cb"] = lambda _config: provider.token_and_expiry()
        else:
            found["sasl.kerberos.service.name"] = self.kerberos_service or "kafka"
            kerberos = {
                "sasl.kerberos.principal": self.kerberos_principal,
                "sasl.kerberos.keytab": self.kerberos_keytab,
            }
            found |= {name: value for name, value in kerberos.items() if value}
        return found

    def _jaas(self) -> str:
        package = "org.apache.kafka.common.security"
        modules = {
            "PLAIN": (f"{package}.plain.PlainLoginModule", ("username", "password")),
            "SCRAM-SHA-256": (f"{package}.scram.ScramLoginModule", ("username", "password")),
            "SCRAM-SHA-512": (f"{package}.scram.ScramLoginModule", ("username", "password")),
            "OAUTHBEARER": (
                f"{package}.oauthbearer.OAuthBearerLoginModule",
                ("clientId", "clientSecret", "scope"),
            ),
            "GSSAPI": ("com.sun.security.auth.module.Krb5LoginModule", ("principal", "keyTab")),
        }
        module, options = modules[self.mechanism]
        given = [
            f"{name}={_quoted(getattr(self, JAAS[name]))}" for name in options if getattr(self, JAAS[name])
        ]
        if self.mechanism == "GSSAPI":
            given += ["useKeyTab=true", "storeKey=true"] if self.kerberos_keytab else ["useTicketCache=true"]
        return " ".join([module, "required", *given]) + ";"

    def _pkcs8(self, text: str) -> str:
        found = _blocks(text, "PRIVATE KEY") or _blocks(text, "ENCRYPTED PRIVATE KEY")
        if not found:
            path = self.key_file or self.certificate_file
            raise CertificateError(
                f"{path} has no key in PKCS#8, the one form that the Spark job's client reads",
                hint=f"`openssl pkcs8 -topk8 -nocrypt -in {path} -out key.pem` converts it",
            )
        return found


def _properties(path: str) -> dict[str, str]:
    """Those settings of a properties file that are about security, by name."""
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


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    for name in environ:
        if name.startswith(PREFIX) and name != CONFIG_VARIABLE and name not in _BY_VARIABLE:
            raise BadInputError(
                f"{name} is not a setting of snapkafka",
                hint=f"there are {CONFIG_VARIABLE}, {', '.join(sorted(_BY_VARIABLE))}",
            )


def _conversion(name: str, forms: tuple[str, ...]) -> str:
    if name.endswith("store.type"):
        return (
            "convert the store to PEM: `keytool -importkeystore -deststoretype PKCS12`, then `openssl pkcs12`"
        )
    return f"it can be {' or '.join(forms)}"


def _text(path: str, source: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise CertificateError(f"{source} is {path}, which is not in PEM", hint=_PEM) from error
    except OSError as error:
        raise CertificateError(
            f"{source} is {path}, which cannot be read: {error.strerror}",
            hint="check the path and the rights on the file, on this machine",
        ) from error


_PEM: Final = _conversion("ssl.truststore.type", ())


def _blocks(text: str, kind: str) -> str:
    """The PEM blocks of one kind."""
    return "\n".join(re.findall(f"-----BEGIN {kind}-----.*?-----END {kind}-----", text, re.DOTALL))


def _quoted(text: str) -> str:
    escaped = "".join("\\" + letter if letter in '"\\' else letter for letter in text)
    return f'"{escaped}"'


def _require_gssapi() -> None:
    from importlib.util import find_spec

    if find_spec("gssapi") is None:
        raise DependencyMissingError(
            "sasl.mechanism GSSAPI needs the Python package gssapi",
            hint="pip install gssapi, and `kinit` or KRB5_CLIENT_KTNAME for a ticket",
        )
