"""No module of the package imports itself by a detour, imports for type checkers included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import grimp

#: Each module, and those that it imports.
Imports = Mapping[str, frozenset[str]]


def circles(imports: Imports) -> Iterator[list[str]]:
    """Yield the modules of each circle: Tarjan's strongly connected components of more than one module."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        index[module] = lowest[module] = len(index)
        stack.append(module)
        for imported in sorted(imports[module]):
            if imported not in index:
                yield from visit(imported)
            if imported in stack:
                lowest[module] = min(lowest[module], lowest[imported])
        if lowest[module] == index[module]:
            at = stack.index(module)
            circle, stack[at:] = stack[at:], []
            if len(circle) > 1:
                yield sorted(circle)

    for module in sorted(imports):
        if module not in index:
            yield from visit(module)


def test_a_circle_is_found_and_named() -> None:
    """One of two modules, one of three beside a module that only leads there, and none without a way back."""
    imports = {
        "a": frozenset({"b"}),
        "b": frozenset({"c"}),
        "c": frozenset({"a", "leaf"}),
        "d": frozenset({"a", "e"}),
        "e": frozenset({"d"}),
        "leaf": frozenset[str](),
    }
    assert sorted(circles(imports)) == [["a", "b", "c"], ["d", "e"]]
    assert not list(circles({**imports, "c": frozenset({"leaf"}), "e": frozenset()}))


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = grimp.build_graph("snapkafka", exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: frozenset(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    assert imports["snapkafka.drivers.faust.host"], "nothing was read"
    assert not list(circles(imports))
