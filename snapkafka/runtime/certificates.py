"""The certificate authorities that this machine trusts, wherever they are kept; for a fetched Java.

Behind a company's proxy they are more than Java's own list. The system's defaults, the variables of Python, curl and
pip, and pip's own settings name their places; each may name a file or a directory, be empty, or be unreadable, and
none has to exist.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import importlib.util
import os
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Files, or directories, or several of them with colons.
VARIABLES: Final = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
)
#: What larger file is there is no list of authorities; the largest known one has a quarter of a megabyte.
FILE_BYTES_MAX: Final = 16 << 20
PEM: Final = re.compile(
    rb"-----BEGIN (?:X509 )?CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END (?:X509 )?CERTIFICATE-----"
)


def trusted_certificates(environ: Mapping[str, str]) -> list[bytes]:
    """Collect the authorities (DER), each once; none if none can be found."""
    # Not create_default_context(): that opens the file which SSLKEYLOGFILE names, and fails where it cannot.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for place in dict.fromkeys(_places(environ)):
        for file in _files(place):
            for found in PEM.finditer(_content(file)):
                # One that cannot be read takes away no other.
                with contextlib.suppress(ssl.SSLError, binascii.Error, ValueError):
                    context.load_verify_locations(cadata=base64.b64decode(found[1]))
    return context.get_ca_certs(binary_form=True)


def _places(environ: Mapping[str, str]) -> Iterator[Path]:
    defaults = ssl.get_default_verify_paths()
    given = (environ.get(name, "") for name in VARIABLES)
    for value in (defaults.openssl_cafile, defaults.openssl_capath, *given, *_of_pip(environ)):
        yield from (Path(part) for part in value.split(os.pathsep) if part)


def _of_pip(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the authorities of pip's settings files, and the public ones that it ships."""
    spec = importlib.util.find_spec("pip")
    if spec is None:
        return
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        completed = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            env=dict(environ),
            timeout=60,
        )
        yield from re.findall(r"^\S+\.cert='(.+)'$", completed.stdout, re.MULTILINE)
    for folder in spec.submodule_search_locations or ():
        yield str(Path(folder, "_vendor", "certifi", "cacert.pem"))


def _files(place: Path) -> list[Path]:
    try:
        # Directories of authorities have every file twice, once under its hash.
        return (
            sorted({file.resolve() for file in place.iterdir() if file.is_file()})
            if place.is_dir()
            else [place]
        )
    except (OSError, RuntimeError):
        return []


def _content(file: Path) -> bytes:
    try:
        # No pipe and no device, which might never end.
        if not file.is_file() or file.stat().st_size > FILE_BYTES_MAX:
            return b""
        return file.read_bytes()
    except (OSError, RuntimeError):
        return b""
