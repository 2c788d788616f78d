"""A real Chromium: where it is, what a page asked and said in it, and what axe finds."""

import os
import shutil
import time
from contextlib import contextmanager
from importlib.resources import files
from urllib.parse import quote, urlsplit

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

SERIOUS = ("serious", "critical")

WAIT_MS = 30_000
"""A machine that does other work as well is slow, not broken."""


def chromium():
    """The browser's executable; CHROMIUM in the environment says which."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "no Chromium here; `make e2e` installs Debian's package chromium, or set CHROMIUM to its executable"
    return found


@contextmanager
def looking(browser, address, *, scheme="light", width=1280, **options):
    """A page of its own; at its end it has asked nobody but `address`'s server, and no script of it failed."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    asked, failed, opened = [], [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.on("console", lambda message: failed.append(message.text) if _is_failure(message) else None)
    page.on("dialog", lambda dialog: (opened.append(dialog.message), dialog.dismiss()))
    try:
        yield page
        here = urlsplit(address).netloc
        assert {urlsplit(url).netloc for url in asked if not url.startswith("about:")} <= {here}
        assert not failed
        assert not opened
    finally:
        context.close()


def _is_failure(message):
    # That an answer was 401, 403, 404 or 503 is what some tests are about.
    return message.type == "error" and "Failed to load resource" not in message.text


def visit(page, address, *parts, **query):
    """Go to a view and wait until what it asked for is there."""
    search = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
    path = "/".join(quote(part, safe="") for part in parts)
    page.goto("about:blank")
    page.goto(f"{address}#/{path}{f'?{search}' if search else ''}")
    settle(page)


def settle(page):
    """Wait until nothing is loading any more."""
    page.locator("h1, .state").first.wait_for()
    page.locator(".waiting, .stale").first.wait_for(state="detached")


def until(page, expression):
    """Wait until an expression is true in the page, whose policy lets Playwright's own way of waiting not run there."""
    end = time.monotonic() + WAIT_MS / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"waited in vain for {expression}"
        time.sleep(0.05)


def violations(page):
    """Serious and critical violations that axe finds: rule and element."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    found = page.evaluate("axe.run()")
    assert found["passes"], "axe looked at nothing"
    return [
        (violation["id"], node["html"][:200], node.get("failureSummary", "")[:300])
        for violation in found["violations"]
        if violation["impact"] in SERIOUS
        for node in violation["nodes"]
    ]


def fits(page):
    """Whether nothing is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")
