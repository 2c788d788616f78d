"""Behind SGLang's own router a client's API key says whose memory it has: it drops everything else that could."""

import hashlib
import json
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from tests.e2e.conftest import CLIENTS, serving
from v14.check.server import free_port

pytestmark = pytest.mark.e2e

STATEMENT, QUESTION, VALUE = "My dog is called Bosun.", "What is my dog called?", "Bosun"
KEYS = {"gwen": "the-key-of-gwen", "hal": "the-key-of-hal"}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A router in front of a server that takes namespaces from keys, as in `deploy/compose.shared.yaml`."""
    room = tmp_path_factory.mktemp("router")
    entries = [
        f'[[keys]]\nsha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\nnamespace = "{name}"\n'
        for name, key in KEYS.items()
    ]
    (room / "keys.toml").write_text("\n".join(entries))
    (room / "keys.toml").chmod(0o600)
    environment = {"SGLANG_V14_NAMESPACES": "keyed", "SGLANG_V14_KEYS": str(room / "keys.toml")}
    with serving(room, **environment) as server, (room / "router.log").open("w") as log:
        port = free_port()
        address = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port())]
        command = [CLIENTS, "-m", "sglang_router.launch_router", "--worker-urls", server.url, *address]
        router = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield ready(f"http://127.0.0.1:{port}", router)
        finally:
            router.terminate()
            router.wait(30)


def ready(url, router):
    """The router's address, once it has a healthy worker."""
    for _ in range(120):
        assert router.poll() is None
        try:
            with urllib.request.urlopen(url + "/readiness", timeout=5):
                return url
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the router did not become ready")


def ask(url, text, **headers):
    """One reply of the chat API."""
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 24,
        "user": "gwen",
    }
    request = urllib.request.Request(
        url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json", **headers}
    )
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.loads(reply.read())


def test_a_key_is_a_memory(url):
    gwen, hal = ({"Authorization": f"Bearer {key}"} for key in KEYS.values())
    told = ask(url, STATEMENT, **gwen)
    assert told["metadata"]["v14"]["namespace"] == "gwen"
    asked = ask(url, QUESTION, **gwen)
    assert [event for event in asked["metadata"]["v14"]["recalled"] if STATEMENT in event["text"]]
    assert VALUE in asked["choices"][0]["message"]["content"]
    other = ask(url, QUESTION, **hal, **{"X-V14-Namespace": "gwen"})  # a header that the router drops
    assert other["metadata"]["v14"]["namespace"] == "hal"
    assert other["metadata"]["v14"]["recalled"] == []
    assert VALUE not in other["choices"][0]["message"]["content"]


def test_without_a_key_there_is_no_answer(url):
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(url, QUESTION)
    assert error.value.code == 401
