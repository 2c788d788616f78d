"""The inspector in a real browser, in front of a real server: what a request was, seen and forgotten."""

import hashlib
import json
import urllib.request

import pytest

from tests.e2e.browsing import fits, looking, settle, violations, visit
from tests.e2e.conftest import serving

pytestmark = pytest.mark.e2e

FACTS = ("The harbour cat is called Bosun.", "My violin was built in Cremona.", "The gate code is 7302.")
QUESTION, ANSWER = "What is the harbour cat called?", FACTS[0]
VIEWS = ("overview", "events", "chats", "requests", "event", "story")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The page of a server with an operator's key, to which ann told three facts and asked for one of them."""
    room = tmp_path_factory.mktemp("inspector")
    digest = hashlib.sha256(b"key-of-op").hexdigest()
    (room / "keys.toml").write_text(f'[[keys]]\nsha256 = "{digest}"\noperator = true\n')
    (room / "keys.toml").chmod(0o600)
    with serving(room, SGLANG_V14_KEYS=str(room / "keys.toml")) as server:
        for fact in FACTS:
            chat(server.url, fact, "both")
        reply = chat(server.url, QUESTION, "read")
        assert any(FACTS[0] in event["text"] for event in reply["metadata"]["v14"]["recalled"])
        yield f"{server.url}/v14/"


def chat(url, text, mode):
    body = {
        "model": "default",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 12,
    }
    headers = {"Content-Type": "application/json", "X-V14-Namespace": "ann", "X-V14-Memory": mode}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.loads(reply.read())


def asked(address, path):
    with urllib.request.urlopen(f"{address}{path}", timeout=60) as reply:
        return json.loads(reply.read())


@pytest.fixture(scope="module")
def places(address):
    """The parts of each view's address."""
    events = asked(address, "events?namespace=ann")["events"]
    story = asked(address, "requests?namespace=ann")["requests"][0]
    assert story["asked"] == QUESTION
    return {
        "overview": (),
        **{view: ("ann", view) for view in ("events", "chats", "requests")},
        "event": ("ann", "event", next(event["id"] for event in events if event["words"] == FACTS[0])),
        "story": ("ann", "request", story["id"]),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(view, scheme, address, places, browser):
    with looking(browser, address, scheme=scheme, width=390) as page:
        visit(page, address, *places[view])
        assert violations(page) == []
        assert fits(page)


def test_the_story_of_a_request_as_it_was(address, places, browser):
    with looking(browser, address) as page:
        visit(page, address, "ann", "requests")
        page.get_by_role("link", name=QUESTION).first.click()
        settle(page)
        said = page.locator(".asked .token:not(.mark)").all_text_contents()
        assert "".join(said).strip() == QUESTION
        assert ANSWER in page.locator(".recalls").inner_text()
        row = page.locator(".votes tbody tr.yes").first
        assert float(row.locator("td.number").inner_text()) > 0
        story = asked(address, f"requests/{places['story'][2]}?namespace=ann")
        # The first token came behind the plan, the last one behind the first.
        assert story["ms"]["first_token"] > story["ms"]["probe"] > 0
        assert story["ms"]["decode"] > 0
        assert 1 < story["num_written"] <= 12
        assert sum(span["num_tokens"] for span in story["spans"]) > 0
        page.locator(".recalls a.cover").first.click()
        settle(page)
        assert page.locator(".quote .words").inner_text().strip() == ANSWER
        assert page.locator(".lately").get_by_text(QUESTION).count() == 1


def test_an_operator_sees_all_namespaces_and_forgets(address, browser):
    """Last: it takes what the others look at."""
    with looking(browser, address) as page:
        visit(page, address)
        page.get_by_role("button", name="Your key").click()
        page.get_by_label("Key of the memory").fill("key-of-op")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="ann", exact=True).click()
        settle(page)
        page.get_by_role("button", name="Forget…").click()
        page.get_by_label("Everything").check()
        page.get_by_label("Type the namespace's name to go on").fill("ann")
        page.get_by_role("button", name="Forget 3 events").click()
        page.get_by_text("3 events are gone").wait_for()
        page.get_by_role("button", name="Done").click()
        page.get_by_text("Nothing is remembered here").first.wait_for()
    assert asked(address, "namespaces?namespace=ann") == []
    assert asked(address, "requests?namespace=ann")["requests"] == []
    assert ANSWER not in json.dumps(chat(address.removesuffix("/v14/"), QUESTION, "read")["metadata"])
