"""`compare`: the methods side by side, as tables, pictures and JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from snapkafka.errors import (
    EXIT_NOT_GOOD,
    EXIT_OK,
    BadInputError,
    SnapkafkaError,
    StorageError,
)

from .study import Asked, Study, make_study
from .table import lines
from .workload import MESSAGE_BYTES_MIN

TABLE_FILE = "compare.json"
WHAT = "The methods side by side, as tables, pictures and JSON."


def main(arguments: list[str]) -> int:
    """Run `compare`; return 0 if everything holds, 1 if something does not, else the exit status of the error."""
    as_json = "--json" in arguments
    try:
        options = _parser().parse_args(arguments)
        asked = _asked(options)
        from .pictures import draw, require_matplotlib  # before anything is run

        require_matplotlib()
        out = _folder(options.out)
        study = make_study(asked, _say if sys.stderr.isatty() else lambda _: None)
        data = study.as_json()
        files = [out / TABLE_FILE, *draw(study, out)]
        (out / TABLE_FILE).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    except SnapkafkaError as error:
        return _failed(error, as_json=as_json)
    except OSError as error:
        what = StorageError(
            f"{options.out}: {error.strerror or error}", hint="check --out and the rights on it"
        )
        return _failed(what, as_json=as_json)
    if as_json:
        print(json.dumps(data | {"files": [str(file) for file in files]}))
    else:
        _print(study, files)
    return EXIT_NOT_GOOD if study.violations else EXIT_OK


class _Parser(argparse.ArgumentParser):
    """A parser that prints an error on one line, as every command here does."""

    def error(self, message: str) -> NoReturn:
        raise BadInputError(message, hint=f"see {self.prog} --help")


def _parser() -> argparse.ArgumentParser:
    asked = Asked()
    parser = _Parser(prog="python -m studies.compare", description=WHAT)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where pictures and JSON go")
    parser.add_argument("--nodes", type=int, default=asked.nodes, help="processes of the mesh (%(default)s)")
    parser.add_argument(
        "--rate", type=float, default=asked.rate, help="messages per second on each channel (%(default)s)"
    )
    parser.add_argument("--bytes", type=int, default=asked.bytes, help="size of a message (%(default)s)")
    parser.add_argument(
        "--late",
        type=float,
        default=asked.late_s,
        metavar="SECONDS",
        help="how late markers are (%(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=asked.seed, help="decides all that is random (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _asked(options: argparse.Namespace) -> Asked:
    wrong = [
        what
        for what, right in (
            (f"--nodes {options.nodes}: 3 to 1000", 3 <= options.nodes <= 1000),
            (f"--rate {options.rate:g}: 10 to 100 million msg/s", 10 <= options.rate <= 1e8),
            (
                f"--bytes {options.bytes}: {MESSAGE_BYTES_MIN} to 1,000,000",
                MESSAGE_BYTES_MIN <= options.bytes <= 10**6,
            ),
            (f"--late {options.late:g}: 0.1 to 60 s", 0.1 <= options.late <= 60),
        )
        if not right
    ]
    if wrong:
        raise BadInputError(f"out of range: {'; '.join(wrong)}", hint="see compare --help")
    return Asked(
        nodes=options.nodes,
        rate=options.rate,
        bytes=options.bytes,
        late_s=options.late,
        seed=options.seed,
    )


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _say(what: str) -> None:
    print(f"... {what}", file=sys.stderr, flush=True)


def _print(study: Study, files: Sequence[Path]) -> None:
    for line in lines(study):
        print(line)
    for file in files:
        print(f"wrote {file}")


def _failed(error: SnapkafkaError, *, as_json: bool) -> int:
    print(f"error: {error}\n  hint: {error.hint}", file=sys.stderr)
    if as_json:
        said = {
            "code": error.code,
            "message": str(error),
            "hint": error.hint,
            "exit_status": error.exit_status,
        }
        print(json.dumps({"error": said}))
    return error.exit_status
