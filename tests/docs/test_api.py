"""The page about the HTTP routes is what the routes say."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def generator():
    spec = importlib.util.spec_from_file_location("api", ROOT / "docs/_site/api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_that_of_the_routes():
    api = generator()
    described = api.document()
    how = "run `python docs/_site/api.py`"
    assert json.loads(api.DOCUMENT.read_text()) == described, how
    assert api.PAGE.read_text() == api.page(described), how


def test_it_has_every_route_and_none_of_sglangs():
    paths = generator().document()["paths"]
    assert set(paths) >= {
        *("/v14/namespaces", "/v14/stats", "/v14/events", "/v14/events/{event_id}", "/v14/export", "/v14/import"),
        *("/v14/requests/{request_id}", "/v14/forget"),
    }
    assert all(path.startswith("/v14/") for path in paths)
    for methods in paths.values():
        assert all(route["description"] for route in methods.values())
