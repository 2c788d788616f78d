"""The inspector in a real browser, in front of a memory without an engine: every view, every state, hostile text."""

import hashlib
import time

import pytest

from tests.e2e.browsing import fits, looking, settle, until, violations, visit
from tests.inspector.fake import Fake, serving
from v14.keys import Grant
from v14.namespaces import Namespaces
from v14.types import Link

pytestmark = pytest.mark.e2e

MARKUP = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'><b>bold</b> &amp; {{ 7 * 7 }}"
TURNED = "\u202egnirts desrever \u05e9\u05dc\u05d5\u05dd \x1b[31mred\x00 \u2066end"
FOREIGN = "\U0001f9d1\u200d\U0001f680 e\u0301 \u0645\u0631\u062d\u0628\u0627 \u4f60\u597d"
LONG = "x" * 10_000
HOSTILE_NAME = "<img src=x onerror='window.hit = 3'>/../?#%2e"
VIEWS = ("overview", "events", "chats", "requests", "event", "story")
NUM_MANY = 10_000


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    made = Fake(tmp_path_factory.mktemp("inspector") / "memory")
    now = time.time()
    made.ids = made.tell("ann", ("user", "The Ganymede server is loud."), said_at=now - 90_000)
    [made.newer] = made.tell("ann", ("user", "Ganymede was sold, says Ulla."), said_at=now - 400)
    made.tell("ann", ("user", "My violin was built in Cremona."), ("assistant", "Good."), said_at=now - 80_000)
    for age, text in ((200, MARKUP), (210, TURNED), (220, FOREIGN), (300, LONG)):
        made.tell("ann", ("user", text), said_at=now - age)
        made.tell(HOSTILE_NAME, ("user", text), said_at=now - age)
    for number in range(60):
        made.tell("ann", ("user", f"Note {number}: nothing new."), said_at=now - 7_000 - number)
    made.tell("default", ("user", "Hello."), said_at=now)
    made.memory.store.link("ann", [Link(source=made.newer, target=made.ids[0], kind="supersedes")])
    made.ask("ann", "chat/1 ?#", "Where is the Ganymede server?")
    made.num_events = len(made.memory.store.events("ann"))
    return made


@pytest.fixture(scope="module")
def address(fake):
    with serving(fake) as found:
        yield found


def place(fake, view):
    """The parts of a view's address."""
    return {
        "overview": (),
        "event": ("ann", "event", fake.ids[0]),
        "story": ("ann", "request", "chat/1 ?#"),
    }.get(view, ("ann", view))


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(view, scheme, width, fake, address, browser):
    with looking(browser, address, scheme=scheme, width=width) as page:
        visit(page, address, *place(fake, view))
        assert page.locator("h1").count() == 1
        assert page.locator("main .state").count() == 0, page.locator("main").inner_text()
        assert violations(page) == []
        assert fits(page)
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 30)"
        assert dark == (scheme == "dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_dialogs_and_open_parts(scheme, fake, address, browser):
    with looking(browser, address, scheme=scheme, width=360) as page:
        visit(page, address, "ann", "events", since="2020-01-01")
        page.get_by_role("button", name="Forget…").click()
        page.get_by_label("Everything").check()
        page.get_by_text("Type the namespace's name").wait_for()
        assert violations(page) == []
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Your key").click()
        assert violations(page) == []
        visit(page, address, *place(fake, "story"))
        page.get_by_text("The words with their weights").click()
        assert violations(page) == []
        assert fits(page)


def test_the_overview_leads_to_a_namespace_and_on_to_an_event(fake, address, browser):
    with looking(browser, address) as page:
        visit(page, address)
        assert page.get_by_role("row").all_inner_texts()[1].split("\t")[:3] == ["default", "1", "1"]
        page.get_by_label("Name of a namespace").fill("ann")
        page.keyboard.press("Enter")
        page.wait_for_url("**/#/ann/events")
        settle(page)
        assert page.title() == "ann · Inspector"
        page.get_by_label("Words in the event").fill("GANYMEDE SERVER")
        page.keyboard.press("Enter")
        page.get_by_text(f"1 found, of {fake.num_events} events").wait_for()
        page.get_by_role("link", name="The Ganymede server is loud.").click()
        settle(page)
        assert page.locator(".quote .words").inner_text() == "The Ganymede server is loud."
        row = page.get_by_role("row", name="Ganymede was sold, says Ulla.")
        assert "corrected by it" in row.inner_text()
        assert page.locator("svg.graph .node.newer").count() == 1
        row.get_by_role("link").click()
        until(page, "document.querySelector('.quote .words').textContent.includes('sold')")
        assert "corrects it" in page.get_by_role("row", name="The Ganymede server is loud.").inner_text()


def test_the_story_says_what_the_record_says(fake, address, browser):
    record = fake.memory.records.find("chat/1 ?#", "ann").to_json()
    with looking(browser, address) as page:
        visit(page, address, "ann", "requests")
        page.get_by_role("link", name="Where is the Ganymede server?").click()
        settle(page)
        said = page.locator(".asked .token:not(.mark)").all_text_contents()
        assert "".join(said) == "Where is the Ganymede server?"
        votes = page.locator(".votes tbody tr")
        assert votes.count() == len(record["votes"])
        for row, vote in zip(votes.all(), record["votes"], strict=True):
            assert row.locator("td.number").inner_text() == f"{vote['value']:.2f}"
            assert ("recalled" in row.inner_text()) == vote["recalled"]
        assert page.locator(".recalls > li").count() == len(record["recalled"])
        assert page.locator(".tiles strong").first.inner_text() == f"{len(record['recalled'])} events"
        parts = page.locator(".parts th strong").all_inner_texts()
        assert set(parts) == set(record["ms"]) - {"probe", "first_token", "decode"}
        page.locator(".recalls a.cover").first.click()
        page.wait_for_url("**/#/ann/event/**")


def test_hostile_text_is_text(fake, address, browser):
    with looking(browser, address) as page:
        for namespace in ("ann", HOSTILE_NAME):
            visit(page, address, namespace, "events")
            words = page.locator(".row .words").all_text_contents()
            assert MARKUP in words
            assert FOREIGN in words
            assert any(text.startswith("⟨202E⟩gnirts") and "⟨1B⟩[31m" in text and "⟨00⟩" in text for text in words)
            assert page.locator("main img, main script, main b").count() == 0
        assert page.locator("h1").inner_text() == HOSTILE_NAME
        page.get_by_role("link", name="x" * 60).first.click()
        page.wait_for_selector(".quote")
        assert fits(page)
        visit(page, address, "ann", "chats")
        assert page.locator("main img, main script, main b").count() == 0
        assert page.evaluate("window.hit") is None


def test_everything_can_be_done_with_the_keyboard(fake, address, browser):
    with looking(browser, address) as page:
        visit(page, address, "ann", "events")
        page.keyboard.press("Tab")
        assert focused(page) == "Skip to the content"
        assert page.evaluate("document.activeElement.getBoundingClientRect().top >= 0")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        for _ in range(20):
            page.keyboard.press("Tab")
            assert page.evaluate(
                "(e => [e, e.querySelector('::after')].length && (getComputedStyle(e).outlineStyle !== 'none'"
                " || getComputedStyle(e, '::after').outlineStyle !== 'none'))(document.activeElement)"
            ), f"no focus to be seen on {focused(page)}"
            if "cover" in page.evaluate("document.activeElement.className"):
                break
        page.keyboard.press("Enter")
        page.wait_for_url("**/event/**")
        settle(page)
        until(page, "document.activeElement.tagName === 'H1' || document.activeElement === document.body")
        button = page.get_by_role("button", name="Forget…")
        button.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open]")
        for _ in range(12):  # the browser's own modal dialog keeps the focus in it, or in its own bar
            page.keyboard.press("Tab")
            assert page.evaluate(
                "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
            )
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="detached")
        assert page.evaluate("document.activeElement.textContent") == "Forget…"


def focused(page):
    return page.evaluate("document.activeElement.textContent")


def test_colours_can_be_chosen_and_are_kept(fake, address, browser):
    with looking(browser, address, scheme="light") as page:
        visit(page, address)
        for chosen, colour in (("light", "rgb(244, 246, 248)"), ("dark", "rgb(20, 24, 30)")):
            page.get_by_role("button", name="Colours").click()
            # What is chosen is set once the page has drawn it.
            until(page, f"document.documentElement.dataset.theme === '{chosen}'")
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colour
        page.reload()
        settle(page)
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.get_by_role("button", name="Colours").click()
        until(page, "document.documentElement.dataset.theme === undefined")


def test_nothing_moves_for_who_wants_that(fake, address, browser):
    for wish, duration in (("reduce", "0s"), ("no-preference", "0.12s")):
        with looking(browser, address, reduced_motion=wish) as page:
            visit(page, address)
            lasting = page.evaluate("getComputedStyle(document.querySelector('.button')).transitionDuration")
            assert set(lasting.split(", ")) == {duration}


def test_what_is_not_there_says_so(fake, address, browser):
    with looking(browser, address) as page:
        for parts, said in (
            (("ann", "event", "sha256:0"), "There is no such thing here"),
            (("ann", "request", "unknown"), "There is no such thing here"),
            (("nobody", "events"), "Nothing is remembered here"),
            (("nobody", "requests"), "No request is known"),
        ):
            visit(page, address, *parts)
            page.get_by_text(said).first.wait_for()
            assert violations(page) == []
        fake.is_off = True
        try:
            visit(page, address, "ann", "events")
            page.get_by_role("heading", name="The memory is off").wait_for()
            assert violations(page) == []
        finally:
            fake.is_off = False
        page.get_by_role("button", name="Try again").click()
        page.get_by_text(f"{fake.num_events} events").first.wait_for()


@pytest.fixture
def forgetful(tmp_path):
    made = Fake(tmp_path / "memory")
    made.tell("ann", ("user", "The first thing."), ("user", "The second thing."), said_at=time.time() - 90_000)
    made.tell("ann", ("user", "The third thing."), said_at=time.time())
    made.tell("ann", ("user", "The fourth thing."), said_at=time.time())
    with serving(made) as found:
        yield made, found


def test_forgetting_says_first_what_is_lost(forgetful, browser):
    fake, address = forgetful
    with looking(browser, address) as page:
        visit(page, address, "ann", "events", text="third")
        page.get_by_role("link", name="The third thing.").click()
        settle(page)
        page.get_by_role("button", name="Forget…").click()
        page.get_by_text("1 event of 1 chat").wait_for()
        page.get_by_role("button", name="Keep it").click()
        assert fake.memory.store.namespaces() == {"ann": 4}
        page.get_by_role("button", name="Forget…").click()
        page.get_by_role("button", name="Forget 1 event").click()
        page.get_by_text("1 event is gone").wait_for()
        page.get_by_role("button", name="Done").click()
        page.wait_for_url("**/#/ann/events")
        page.get_by_text("1 to 3 of 3 events").wait_for()

        page.get_by_role("button", name="Forget…").click()
        page.get_by_label("What was said between two times").check()
        page.get_by_text("Say from when").wait_for()
        assert page.get_by_role("button", name="Forget", exact=True).is_disabled()
        page.locator("dialog").get_by_label("Until").fill(
            time.strftime("%Y-%m-%dT%H:%M", time.localtime(time.time() - 80_000))
        )
        page.get_by_text("2 events of 1 chat").wait_for()
        page.get_by_role("button", name="Forget 2 events").click()
        page.get_by_role("button", name="Done").click()
        page.get_by_text("1 to 1 of 1 event").wait_for()

        page.get_by_role("button", name="Forget…").click()
        page.get_by_label("Everything").check()
        button = page.get_by_role("button", name="Forget 1 event")
        button.wait_for()
        assert button.is_disabled()
        page.get_by_label("Type the namespace's name to go on").fill("ann")
        button.click()
        page.get_by_role("button", name="Done").click()
        page.get_by_text("Nothing is remembered here").first.wait_for()
        assert fake.memory.store.events("ann") == []


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    def grant(key, **rights):
        digest = hashlib.sha256(key.encode()).hexdigest()
        return digest, Grant(sha256=digest, **rights)

    keys = dict(
        [
            grant("key-of-ann", namespace="ann", shared=("handbook",)),
            grant("key-of-bob", namespace="bob"),
            grant("key-of-op", operator=True),
        ]
    )
    made = Fake(tmp_path_factory.mktemp("keyed") / "memory", Namespaces("keyed", keys=keys))
    for namespace in ("ann", "bob", "handbook"):
        made.tell(namespace, ("user", f"A secret of {namespace}."))
    made.ask("bob", "r1", "What is the secret?")
    with serving(made) as found:
        yield found


def test_a_key_shows_its_own_namespace_and_no_other(keyed, browser):
    with looking(browser, keyed) as page:
        visit(page, keyed)
        page.get_by_role("heading", name="This memory asks who you are").wait_for()
        page.get_by_label("Key of the memory").fill("not a key")
        page.keyboard.press("Enter")
        page.get_by_text("an API key is needed", exact=False).or_(page.get_by_text("An API key is needed")).wait_for()
        page.get_by_label("Key of the memory").fill("key-of-ann")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="ann", exact=True).wait_for()
        assert page.locator("tbody th a").all_inner_texts() == ["ann", "handbook"]
        assert "key-of-ann" not in page.url + page.evaluate("JSON.stringify(localStorage) + document.cookie")
        assert page.evaluate("sessionStorage['v14-key']") == "key-of-ann"
        for parts in (("bob", "events"), ("bob", "chats"), ("bob", "request", "r1")):
            visit(page, keyed, *parts)
            page.get_by_role("heading", name="This is not yours to see").wait_for()
            assert "secret of bob" not in page.locator("main").inner_text()
        visit(page, keyed, "handbook", "events")
        page.get_by_text("A secret of handbook.").wait_for()
        assert page.get_by_role("button", name="Forget…").count() == 0
        assert page.get_by_role("link", name="Requests").count() == 0
    with looking(browser, keyed) as page:  # another tab knows nothing of the key
        visit(page, keyed, "ann", "events")
        page.get_by_role("heading", name="This memory asks who you are").wait_for()


def test_an_operators_key_shows_and_forgets_all(keyed, browser):
    with looking(browser, keyed) as page:
        visit(page, keyed)
        page.get_by_label("Key of the memory").fill("key-of-op")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="bob", exact=True).wait_for()
        assert page.locator("tbody th a").all_inner_texts() == ["ann", "bob", "handbook"]
        visit(page, keyed, "bob", "request", "r1")
        assert page.get_by_role("button", name="Forget…").count() == 1
        page.get_by_role("button", name="Your key: Operator").click()
        page.get_by_role("button", name="Put away").click()
        page.get_by_role("heading", name="This memory asks who you are").wait_for()
        assert page.evaluate("sessionStorage.length") == 0


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    made = Fake(tmp_path_factory.mktemp("many") / "memory")
    now = time.time()
    for number in range(NUM_MANY):
        made.tell("many", ("user", f"Entry {number}."), said_at=now - NUM_MANY + number, chat_id=f"c{number % 500}")
    made.memory.store.flush(60)
    with serving(made) as found:
        yield found


def test_ten_thousand_events_stay_a_page(many, browser):
    with looking(browser, many) as page:
        began = time.monotonic()
        visit(page, many, "many", "events")
        page.get_by_text("1 to 50 of 10,000 events").wait_for()
        print(f"first page of 10,000 events: {time.monotonic() - began:.2f} s")
        assert page.locator(".row .words").first.inner_text() == "Entry 9999."
        assert page.locator(".row").count() == 50
        page.get_by_role("link", name="Next").click()
        page.get_by_text("51 to 100 of 10,000 events").wait_for()
        settle(page)
        assert page.locator(".row .words").first.inner_text() == "Entry 9949."
        page.get_by_label("Words in the event").fill("Entry 777")
        began = time.monotonic()
        page.keyboard.press("Enter")
        page.get_by_text("11 found, of 10,000 events").wait_for()
        print(f"search through 10,000 events: {time.monotonic() - began:.2f} s")
        assert page.evaluate("document.querySelectorAll('*').length") < 3_000
        visit(page, many, "many", "chats")
        page.get_by_text("1 to 50 of 500 chats").wait_for()
        assert page.evaluate("document.querySelectorAll('*').length") < 3_000
