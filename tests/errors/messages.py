"""The messages of the package's errors and refusals, read from the source."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "v14"

OUTSIDE = ("SystemExit", "HTTPException")
"""Errors that are not the package's own and still are its answer."""

REFUSING = (
    *("refused_engine", "refused_ranks", "refused_states", "refused_while_decoding"),
    *("_problem", "missing_hooks"),
)
"""Functions whose strings become lines of the message that stops a server."""

HTTP = "engines/sglang/front.py"
"""Where a plain `ValueError` is an answer to the client: SGLang makes a 400 of it."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """`file` is relative to the package, `first` and `last` are its lines; `text` has … for what is filled in."""

    file: str
    first: int
    last: int
    error: str
    text: str

    @property
    def key(self) -> str:
        """What names it, wherever its lines are."""
        return f"{self.file} | {self.error} | {self.text}"


def error_classes() -> set[str]:
    """Names of `V14Error` and all classes below it."""
    names = {"V14Error"}
    for node in ast.parse((SOURCE / "errors.py").read_text()).body:
        if isinstance(node, ast.ClassDef) and any(
            isinstance(base, ast.Name) and base.id in names for base in node.bases
        ):
            names.add(node.name)
    return names


def messages() -> list[Message]:
    """Every message, in order of file and line."""
    classes = error_classes()
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        named = {*classes, *OUTSIDE, *(["ValueError"] if file == HTTP else [])}
        found += _of_file(file, ast.parse(path.read_text()), named)
    return found


def _of_file(file: str, tree: ast.Module, named: set[str]) -> Iterator[Message]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in named:
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            yield _message(file, node, node.func.id, " ".join(filter(None, map(template, arguments))))
        elif isinstance(node, ast.FunctionDef) and node.name in REFUSING:
            for text in _strings(node):
                yield _message(file, text, "refused at start", template(text))


def _message(file: str, node: ast.expr, error: str, text: str) -> Message:
    return Message(file=file, first=node.lineno, last=node.end_lineno or node.lineno, error=error, text=text or "…")


def _strings(function: ast.FunctionDef) -> Iterator[ast.JoinedStr]:
    """The formatted strings of a function, outermost only."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.JoinedStr):
            yield node
        else:
            waiting += ast.iter_child_nodes(node)


def template(node: ast.expr) -> str:
    """A string expression with … for what is filled in, but for constants; empty for what is no string."""
    return " ".join(re.sub(r"…(\s*…)+", "…", _text(node)).split())


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _text(part.value if isinstance(part, ast.FormattedValue) else part) or "…" for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (_text(node.left) or "…") + (_text(node.right) or "…")
    if isinstance(node, ast.Name):
        return constants().get(node.id, "")
    return ""


@cache
def constants() -> dict[str, str]:
    """Strings of the package's modules by the names of their constants, where that says which one is meant."""
    _texts: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
                value = node.value
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    _texts.setdefault(f"{node.targets[0].id}", set()).add(value.value)
    found = {name: texts.pop() for name, texts in _texts.items() if len(texts) == 1}
    return found | {"HOME_VARIABLE": f"{found['ENV_PREFIX']}MEMORY_HOME"}
