"""Writes `docs/api.md` and `docs/openapi.json` from the routes: `python docs/_site/api.py`.

`tests/docs/test_api.py` fails when the page is not what this writes.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from v14.engines.sglang.importing import Importer, import_router
from v14.engines.sglang.routes import router
from v14.engines.sglang.schema import schema

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "api.md"
DOCUMENT = ROOT / "docs" / "openapi.json"

OPENING = """\
# HTTP routes

This page is written by `python docs/_site/api.py` from FastAPI's own description of the routes, which lies beside it as
[openapi.json](openapi.json) and which a server gives at `/v14/openapi.json`.

Who may ask what is said in [Who can read what](security.md#routes); the [Python client](clients.md#from-python)
and `v14 event` ask the same. A refusal is JSON with `detail`, which says what to do.
"""


def document() -> dict[str, Any]:
    """The OpenAPI document of all routes under `/v14/`."""
    nobody = cast(Any, SimpleNamespace(namespaces=None))
    return schema(router(nobody, nobody, nobody), import_router(nobody, cast(Importer, nobody)))


def page(described: dict[str, Any]) -> str:
    """The page."""
    parts = [OPENING]
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            parts.append(f"## {method.upper()} {path}\n\n{route.get('description', '').strip()}\n")
            if route.get("parameters"):
                rows = [(f"`{p['name']}`", p["in"], kind(p["schema"]), said(p)) for p in route["parameters"]]
                parts.append(table(("parameter", "in", "type", "meaning"), rows))
            sent = route.get("requestBody", {}).get("content", {})
            parts += [body("Body", media_type, content, described) for media_type, content in sent.items()]
            answer = route["responses"]["200"].get("content", {})
            parts += [body("Answer", media_type, content, described) for media_type, content in answer.items()]
    return "\n".join(parts)


def body(what: str, media_type: str, content: dict[str, Any], described: dict[str, Any]) -> str:
    """A body: its media type, and its fields if it is an object that has a name."""
    given = content.get("schema", {})
    many = given.get("type") == "array"
    name = (given.get("items", {}) if many else given).get("$ref", "").rpartition("/")[2]
    if not name:
        return f"{what}: `{media_type}`.\n"
    model = described["components"]["schemas"][name]
    rows = [(f"`{field}`", kind(value), said(value)) for field, value in model["properties"].items()]
    about = " ".join(model.get("description", "").split())
    head = f"{what}, `{media_type}`{', a list' if many else ''}: {about}\n\n"
    return head + table(("field", "type", "meaning"), rows)


def kind(given: dict[str, Any]) -> str:
    """A type in words."""
    if "$ref" in given:
        return f"`{given['$ref'].rpartition('/')[2]}`"
    if "anyOf" in given:
        return " or ".join(dict.fromkeys(kind(one) for one in given["anyOf"]))
    if "enum" in given:
        return ", ".join(f"`{value}`" for value in given["enum"])
    if given.get("type") == "array":
        return f"list of {kind(given.get('items', {}))}"
    return str(given.get("type", "any"))


def said(given: dict[str, Any]) -> str:
    """What is said about a field or parameter: its description and default."""
    inner = given.get("schema", {}) if "in" in given else given
    default = inner.get("default")
    words = str(given.get("description", inner.get("description", "")))
    return words + (f" (default `{json.dumps(default)}`)" if default not in (None, "", []) else "")


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


if __name__ == "__main__":
    described = document()
    DOCUMENT.write_text(json.dumps(described, indent=1) + "\n")
    PAGE.write_text(page(described))
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} {DOCUMENT.relative_to(ROOT)}\n")
