"""Which test files notice which changes of the code: `make power` (a part: `make power ARGS="--sample 200"`).

On top of mutmut, as `make mutation` sets it up: it makes the mutants, and knows which tests reach each. Each gets
a process of its own, in which all these tests run, file by file; a file kills the mutant as soon as one of its tests
fails, or does not end. The table goes to build/power.json. Printed are the files that together kill all that is killed,
those of `FIRST` before any other, and the files that kill nothing that these do not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from mutmut import __main__ as mutmut
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.utils.format_utils import mangled_name_from_mutant_name

TABLE: Final = Path("build/power.json")
#: They stay whatever others notice: scenarios of the rules, and the simulator.
FIRST: Final = ("tests/scenarios/", "tests/sim/")
#: CPU seconds of a mutant: so many times what its tests take without one, and so many at least.
TIMES: Final = 5
AT_LEAST_S: Final = 20
#: Mutants by name -> the files that kill them.
Table = Mapping[str, Collection[str]]


def main(arguments: Sequence[str]) -> int:
    """Measure, write the table, print who has power and who has none; return 1 if no mutant was killed."""
    parser = argparse.ArgumentParser(prog="make power")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="so many mutants of each module; default: all"
    )
    parser.add_argument("--modules", default="", metavar="TEXT", help="mutants whose name has this in it")
    parser.add_argument("--skip", default="-", metavar="PREFIX", help="test files that begin so do not run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    reached = _reached(options.jobs, options.modules, options.skip)
    chosen = sorted(_sampled(reached, options.sample))
    table = _measured({name: reached[name] for name in chosen}, options.jobs)
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    report(table, {file for name in chosen for file in reached[name]})
    return 0 if any(table.values()) else 1


def report(table: Table, files: Collection[str]) -> None:
    """Print kills and kills of its own of each file, a set of files that suffices, and the files without power."""
    kills: dict[str, set[str]] = {file: set() for file in sorted(files)}
    for name, killers in table.items():
        for file in killers:
            kills[file].add(name)
    killed = {name for name, killers in table.items() if killers}
    print(f"{len(killed)} of {len(table)} mutants are killed, by {len(kills)} files")
    covered: set[str] = set()
    kept = [file for file in kills if file.startswith(FIRST)]
    for file in kept:
        covered |= kills[file]
    print(f"\n{len(covered):5} by {', '.join(FIRST)}\n\nthe rest:")
    while covered < killed:
        best = max(kills, key=lambda file: len(kills[file] - covered))
        alone = {name for name in kills[best] if list(table[name]) == [best]}
        print(
            f"{len(kills[best] - covered):5} more by {best} ({len(kills[best])} in all, {len(alone)} alone)"
        )
        kept.append(best)
        covered |= kills[best]
    print("\nwithout power, given these:")
    for file in sorted(kills.keys() - set(kept)):
        print(f"{len(kills[file]):5} {file}")


def _reached(jobs: int, modules: str, skip: str) -> dict[str, dict[str, list[str]]]:
    """Make the mutants; return their names, with the tests that reach each by file."""
    set_mutant_under_test("mutant_generation")
    Path("mutants").mkdir(exist_ok=True)
    with contextlib.redirect_stdout(None):  # a line for every file
        mutmut.copy_src_dir()
        mutmut.copy_also_copy_files()
        mutmut.setup_source_paths()
        mutmut.create_mutants(jobs)
    mutmut.collect_or_load_stats(mutmut.get_mutant_runner(jobs))
    found: dict[str, dict[str, list[str]]] = {}
    for _, raw, _ in mutmut.collect_source_file_mutation_data(mutant_names=())[0]:
        name = raw.replace("__init__.", "")
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in sorted(state().tests_by_mangled_function_name[mangled_name_from_mutant_name(name)]):
            if not test.startswith(skip):
                by_file[test.partition("::")[0]].append(test)
        if modules in name:
            found[name] = by_file
    return found


def _sampled(names: Collection[str], count: int | None) -> Iterator[str]:
    by_module: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        by_module[name.rpartition(".")[0]].append(name)
    chance = random.Random(1985)  # the same part each time
    for each in by_module.values():
        yield from each if count is None else chance.sample(each, min(count, len(each)))


def _measured(reached: Mapping[str, Mapping[str, list[str]]], jobs: int) -> dict[str, list[str]]:
    """Judge the mutants in so many processes at a time."""
    PytestRunner().warm_up()  # what is imported now, no child has to
    children, names = {}, list(reached)
    for job in range(jobs):
        out = tempfile.NamedTemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 -- read when the child has ended
        if (pid := os.fork()) == 0:
            for done, name in enumerate(names[job::jobs], 1):
                print(json.dumps([name, _killers(name, reached[name])]), file=out, flush=True)
                if job == 0:
                    print(f"\r{done * jobs} of {len(names)}", end="", file=sys.stderr, flush=True)
            os._exit(0)
        children[pid] = out
    table: dict[str, list[str]] = {}
    for pid, out in children.items():
        if os.waitpid(pid, 0)[1] != 0:
            raise SystemExit("a process ended before its mutants were judged")
        out.seek(0)
        table |= dict(json.loads(line) for line in out)
    print(file=sys.stderr)
    return dict(sorted(table.items()))


def _killers(name: str, tests: Mapping[str, list[str]]) -> list[str]:
    """Return the files that kill a mutant. One that does not end takes its process with it: the others get a new
    one."""
    killers, left = [], dict(tests)
    while left:
        reader, writer = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(reader)
            _run(name, [test for file in left.values() for test in file], writer)
        os.close(writer)
        with os.fdopen(reader) as lines:
            begun, failed = [], set()
            for line in lines:
                what, file = line.split()
                begun.append(file) if what == "begun" else failed.add(file)
        killers += sorted(failed)
        if os.waitpid(pid, 0)[1] == 0:
            break
        if not begun:  # it does not even collect: every file that reaches it notices
            return sorted({*killers, *left})
        if begun[-1] not in failed:
            killers.append(begun[-1])
        left = {file: each for file, each in left.items() if file not in begun}
    return sorted(set(killers))


def _run(name: str, tests: Sequence[str], writer: int) -> None:
    """Run the tests against a mutant, in this process, which ends; report each file that begins, and that fails."""
    takes_s = sum(state().duration_by_test.get(test, 1.0) for test in tests)
    limit = int(takes_s * TIMES) + AT_LEAST_S
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    set_mutant_under_test(name)
    os.chdir("mutants")
    arguments = ["--rootdir=.", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly"]
    with contextlib.suppress(BaseException):
        pytest.main([*arguments, *tests], plugins=[_Reporting(writer)])
        os._exit(0)
    os._exit(1)


class _Reporting:
    """A plugin that writes which files begin and fail, and skips the rest of a file that has failed."""

    def __init__(self, writer: int) -> None:
        self._writer, self._begun, self._failed = writer, "", set[str]()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> bool | None:
        file = item.nodeid.partition("::")[0]
        if file != self._begun:
            self._begun = file
            os.write(self._writer, f"begun {file}\n".encode())
        return True if file in self._failed else None

    def pytest_runtest_logreport(self, report: Any) -> None:
        file = report.nodeid.partition("::")[0]
        if report.failed and file not in self._failed:
            self._failed.add(file)
            os.write(self._writer, f"failed {file}\n".encode())

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
