"""Nothing that is read can run code: no source reads pickles, and everything is read with pickle taken away."""

import ast
import pickle
from pathlib import Path

import pytest
import torch

from tests.fuzz.targets import TARGETS
from tests.store.making import WEIGHTS, made, same_trace
from v14.store import view
from v14.store.directory import DirectoryStore
from v14.store.master import parse_key

ROOT = Path(__file__).parent.parent
SOURCES = [
    path for room in ("src", "benchmarks", "experiments", "demo", "cpu") for path in ROOT.glob(f"{room}/**/*.py")
]

READERS = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "jsonpickle"}
"""Modules that make objects, and so code, out of bytes."""

CALLS = {("torch", "load"), ("torch.jit", "load"), ("torch.package", "PackageImporter"), ("pandas", "read_pickle")}
EXEMPT = {"experiments/tiny_hybrid/train.py": ["torch.load"]}
"""The state of an interrupted training, which the same script wrote, with `weights_only`: no part of the package."""
CODE = {"eval", "exec", "compile"}


def dotted(node):
    """`a.b.c` of an attribute of names, else None."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def offences(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in READERS)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] in READERS:
                yield node.module
            yield from (f"{node.module}.{a.name}" for a in node.names if (node.module, a.name) in CALLS)
        elif isinstance(node, ast.Call):
            name = dotted(node.func) or ""
            module, _, function = name.rpartition(".")
            if (module, function) in CALLS or (not module and function in CODE):
                yield name
            for keyword in node.keywords:
                allowed = isinstance(keyword.value, ast.Constant) and keyword.value.value is (
                    keyword.arg != "allow_pickle"
                )
                if keyword.arg in ("allow_pickle", "weights_only") and not allowed:
                    yield f"{name}({keyword.arg}=…)"


def test_no_source_reads_pickles():
    assert len(SOURCES) > 150
    found = {str(path.relative_to(ROOT)): list(offences(ast.parse(path.read_text()))) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == EXEMPT


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from dill import loads",
        "from torch import load",
        "torch.load(path)",
        "torch.load(path, weights_only=True)",
        "numpy.load(path, allow_pickle=True)",
        "pandas.read_pickle(path)",
        "eval(text)",
    ],
)
def test_the_scan_sees(line):
    assert list(offences(ast.parse(line)))


def _no(*args, **kwargs):
    raise AssertionError("a pickle is being read")


@pytest.fixture
def without_pickle(monkeypatch):
    for name in ("load", "loads", "Unpickler", "_load", "_loads", "_Unpickler"):
        monkeypatch.setattr(pickle, name, _no)
        monkeypatch.setattr("_pickle." + name, _no, raising=False)
    monkeypatch.setattr(torch, "load", _no)
    with pytest.raises(AssertionError, match="is being read"):
        pickle.loads(pickle.dumps(1))


@pytest.mark.parametrize("key", [None, "a1" * 32], ids=["readable", "encrypted"])
def test_a_store_is_written_and_read_without_pickle(without_pickle, tmp_path, key):
    master = key and parse_key(key, "the test")
    for _ in range(2):
        store = DirectoryStore.open(tmp_path, WEIGHTS, master=master)
        store.put([made(number) for number in range(4)])
        assert store.flush(10)
        for number in range(4):
            event, trace = made(number)
            assert same_trace(store.trace("home", event.id), trace)
            store.keys_of_layers("home", event.id, [0])
        assert store.verify() == []
        store.close()
    assert len(view.events(tmp_path, master=master)) == 4


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_is_read_is_read_without_pickle(without_pickle, name):
    """Every reader that is fuzzed reads its valid inputs."""
    target = TARGETS[name]
    for seed in target.seeds():
        try:
            target.run(seed)
        except target.allows:
            continue
