"""The options of the job: flags, a file, variables."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from snapkafka.assembly import OPTIONS, JobSpec, read_system
from snapkafka.assembly.command import parser, spec_of
from snapkafka.assembly.spec import SYSTEM
from snapkafka.errors import BadInputError

EVERYTHING = JobSpec(
    bootstrap="b:1",
    namespace="shop",
    snapshots=("one", "-x"),
    storage="/snaps",
    parameters=("n=1",),
    isolation="read_uncommitted",
    sinks=("a", "*"),
    sources=("orders",),
    strict=True,
    codecs=("shop.codecs",),
    unpickle=True,
    avro=("7=s.avsc",),
    schema_registry="http://me:secret@registry",
    around=7,
    with_inputs=True,
    tables=True,
    record=True,
    ui=True,
    engine="embedded",
    asked=("termination",),
)


def read(*arguments: str, **environ: str) -> JobSpec:
    return spec_of(parser().parse_args(arguments), environ)


def written(folder: Path, fields: Any) -> str:
    path = folder / "spec.json"
    path.write_text(json.dumps(fields))
    return f"--spec={path}"


def test_every_option_comes_back_from_a_file_and_no_password_is_printed(tmp_path: Path) -> None:
    assert "secret" not in repr(EVERYTHING)
    assert set(msgspec.to_builtins(EVERYTHING)) == OPTIONS.keys() - {"manifests", "invariants"}
    assert read(written(tmp_path, msgspec.to_builtins(EVERYTHING))) == EVERYTHING


def test_the_job_as_a_program_is_sparks_where_nothing_names_another(tmp_path: Path) -> None:
    """Under `spark-submit` and Airflow; what starts it as a child names the engine by the flag."""
    assert read().engine == read(written(tmp_path, {"around": 3})).engine == "spark"
    assert read(written(tmp_path, {"engine": "auto"})).engine == "auto"
    assert read(written(tmp_path, {"engine": "auto"}), "--engine=embedded").engine == "embedded"
    child = written(tmp_path, msgspec.to_builtins(JobSpec(around=3)))
    assert read(child, "--engine=auto") == JobSpec(around=3)


def test_a_flag_goes_before_the_file_and_the_file_before_the_environment(tmp_path: Path) -> None:
    file = written(tmp_path, {"namespace": "of-the-file", "around": 3})
    environ = {"SNAPKAFKA_NAMESPACE": "of-the-environment", "SNAPKAFKA_BOOTSTRAP": "b:1"}
    assert read(file, **environ) == JobSpec(
        bootstrap="b:1", namespace="of-the-file", around=3, engine="spark"
    )
    assert read(file, "--namespace=of-a-flag", **environ).namespace == "of-a-flag"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"namespaze": "shop"}, "unknown field `namespaze`"),
        ({"around": "many"}, r"Expected `int`, got `str` - at `\$\.around`"),
        ({"around": -1}, "around must be 0 to 10,000"),
        ({"around": 10_001}, "around must be 0 to 10,000"),
        ({"isolation": "committed"}, "isolation is invalid"),
        ({"engine": "flink"}, "'flink'"),
        ({"invariants": ["no_negative"], "asked": ["termination"]}, "not both"),
        ([], "Expected `object`"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, fields: Any, expected: str) -> None:
    with pytest.raises(BadInputError, match=expected):
        read(written(tmp_path, fields))


def test_a_file_describes_a_system(tmp_path: Path) -> None:
    """What is no option of a command comes back from the file; what is wrong in one is named."""
    file = tmp_path / "snapkafka.toml"
    unwritten = {name: getattr(EVERYTHING, name) for name in SYSTEM if not OPTIONS[name].flag}
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in unwritten.items()))
    assert read_system(str(file)) == unwritten
    assert read_system("") == {}
    file.write_text('storage = "/s"\nknows_markers = ["bi"]\n')
    assert read_system(str(file)) == {"storage": "/s", "knowing": ("bi",)}
    for text, named in (
        ('sink = "x"', "sink"),
        ("around = -1", "around"),
        ("strict = 1", "strict"),
        ("=", "line 1"),
    ):
        file.write_text(text)
        with pytest.raises(BadInputError, match=named):
            read_system(str(file))
    with pytest.raises(BadInputError, match="none"):
        read_system(str(tmp_path / "none"))
