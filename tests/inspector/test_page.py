"""The page's files: what the sources build to, served with a policy that runs nothing else."""

import asyncio
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fastapi import FastAPI

from v14.inspector.serve import HEADERS, TYPES, content, page

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "inspector"
STATIC = ROOT / "src" / "v14" / "inspector" / "static"


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def get(path, **headers):
    """Status, headers and body of a request for a part of the page."""
    app, sent = FastAPI(), []
    app.include_router(page())
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        "asgi": {"version": "3.0"},
    }

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    found = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:])


def test_the_files_are_what_was_built_of_these_sources():
    """Without Node: the build notes the digests of what it read and of what it wrote."""
    built = json.loads((STATIC / "built.json").read_text())
    sources = [SOURCES / "package-lock.json", SOURCES / "build.mjs", *(SOURCES / "src").rglob("*")]
    found = {path.relative_to(SOURCES).as_posix(): digest(path) for path in sources if path.is_file()}
    assert built["sources"] == found, "run `make inspector`"
    assert built["files"] == {path.name: digest(path) for path in STATIC.iterdir() if path.name != "built.json"}
    assert set(TYPES) == set(built["files"])


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not here; the digests in built.json are compared")
@pytest.mark.skipif(not (SOURCES / "node_modules").is_dir(), reason="`make inspector` fetches what the build needs")
def test_the_sources_build_to_the_files():
    run = subprocess.run(["node", "build.mjs", "--check"], cwd=SOURCES, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", TYPES)
def test_every_file_comes_with_the_policy(name):
    status, headers, body = get("/v14/" if name == "index.html" else f"/v14/{name}")
    assert status == 200
    assert body == content(name)
    assert headers["content-type"] == TYPES[name]
    assert {name.lower(): value for name, value in HEADERS.items()}.items() <= headers.items()
    status, _, body = get("/v14/" if name == "index.html" else f"/v14/{name}", if_none_match=headers["etag"])
    assert (status, body) == (304, b"")


def test_the_policy_allows_no_other_source_and_no_script_in_the_page():
    policy = dict(part.split(" ", 1) for part in HEADERS["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert {value for name, value in policy.items() if name.endswith("-src")} == {"'none'", "'self'"}
    html = content("index.html").decode()
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", html)


def test_nothing_is_fetched_from_elsewhere():
    for name in TYPES:
        addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`)]*", content(name).decode()))
        allowed = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"}
        assert {address for address in addresses if address.startswith("http")} <= allowed, name


def test_one_library_with_its_licence():
    packages = json.loads((SOURCES / "package.json").read_text())["dependencies"]
    assert set(packages) == {"preact"}
    assert b"MIT License" in content("licenses.txt")
