"""The import law: who may import whom, read from the source with `ast`, deferred imports included."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

# A room imports rooms of a lower level, or of its own; rooms of one level must not import each other in a circle.
LEVELS = (
    {"client", "errors", "types", "geometry", "config", "clock", "explain", "home", "keys", "namespaces", "v14"},
    {"codecs", "events", "store", "recall", "reinstate", "models", "engram", "kernels"},
    {"profile"},
    {"memory"},
    {"forgetting"},
    {"inspector"},
    {"engines.sglang", "engines.transformers", "engines", "upgrade"},
    {"check", "doctor"},
    {"cli"},
    {"__main__"},
)
ENGINES = {"engines.sglang", "engines.transformers"}
ONLY_IN = {
    "sglang": {"engines.sglang"},
    "transformers": {"engines.transformers", "upgrade"},
    "typer": {"cli"},
}


def room_of(module):
    """`v14.engines.sglang.hooks.start` stands in the room `engines.sglang`, `v14` itself in the room `v14`."""
    parts = module.split(".")[1:]
    return "v14" if not parts else ".".join(parts[:2]) if parts[0] == "engines" else parts[0]


def modules():
    for path in sorted(SOURCE.glob("v14/**/*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(modules())


def imported(module, path):
    """Names of all modules that the file imports; `from package import module` is resolved to the module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module


EDGES = {module: sorted(set(imported(module, path))) for module, path in MODULES.items()}


def level_of(room):
    found = [level for level, rooms in enumerate(LEVELS) if room in rooms]
    assert len(found) == 1, f"room {room!r} has no place in the import law; give it one"
    return found[0]


@pytest.mark.parametrize("module", MODULES)
def test_rooms_import_downwards(module):
    room = room_of(module)
    for other in filter(lambda name: name.split(".")[0] == "v14", EDGES[module]):
        target = room_of(other)
        assert level_of(target) <= level_of(room), f"{module} imports {other}"
        assert {room, target} != ENGINES, f"{module} imports the other engine, {other}"


@pytest.mark.parametrize("module", MODULES)
def test_outside_packages_stay_in_their_rooms(module):
    for name in EDGES[module]:
        package = name.split(".")[0]
        assert room_of(module) in ONLY_IN.get(package, {room_of(module)}), f"{module} imports {name}"


@pytest.mark.parametrize("module", [module for module in MODULES if "templates" not in module])
def test_nothing_reads_pickles(module):
    assert not {"pickle", "cPickle", "dill", "shelve", "marshal"} & {name.split(".")[0] for name in EDGES[module]}


def test_rooms_have_no_circles():
    graph = defaultdict(set)
    for module, names in EDGES.items():
        for name in names:
            if name.split(".")[0] == "v14" and room_of(name) not in (room_of(module), "v14"):
                graph[room_of(module)].add(room_of(name))
    done = set()

    def visit(room, path):
        assert room not in path, " imports ".join([*path[path.index(room) :], room])
        if room not in done:
            for other in sorted(graph[room]):
                visit(other, [*path, room])
            done.add(room)

    for room in sorted(graph):
        visit(room, [])


def test_the_law_sees_deferred_imports(tmp_path):
    source = tmp_path / "late.py"
    source.write_text("def later():\n    import sglang.srt.utils\n    from v14 import memory\n")
    assert list(imported("late", source)) == ["sglang.srt.utils", "v14.memory"]
