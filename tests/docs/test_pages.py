"""Links between the texts of the repository lead somewhere, and every page of the site can be reached."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)]*))?\)")


def headings(path):
    """The anchors that GitHub and MkDocs give to a page's headings, as far as both agree."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link, anchor in LINK.findall(page.read_text()):
        target = (page.parent / link).resolve() if link else page
        assert target.is_file(), link
        assert not anchor or anchor in headings(target), f"{link}#{anchor}"


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r": ([\w/.]+\.md)$", text.split("\nnav:")[1], re.MULTILINE))
    assert {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} <= named


def test_nothing_of_the_site_comes_from_the_network():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert config["theme"]["font"] is False
    assert "offline" in config["plugins"]
    assert not re.search(r"https?://", (ROOT / "docs/_site/extra.css").read_text())
    for picture in (ROOT / "docs/pictures").iterdir():
        assert not re.search(r"(href|src)=|url\(|@import", picture.read_text()), picture
