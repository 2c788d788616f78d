"""What makes a site of files that also read well where they lie: MkDocs calls these functions.

The texts at the root of the repository, the results of benchmarks and whatever a page links to outside `docs/` are
carried into the site, Markdown as pages and anything else as files, and links follow them. Pictures are set into the
page, so that they take its colours.
"""

import html
import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
CARRIED = "carried/"
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)(?=[)#])")
PICTURE = re.compile(r'<img alt="([^"]*)" src="([^"]+\.svg)"\s*/?>')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside `docs/` and belongs to the site."""
    roots = (Path(config.docs_dir).rglob("*.md"), ROOT.glob("*.md"), (ROOT / "benchmarks/results").rglob("*.md"))
    queue = [path for root in roots for path in root]
    seen: set[Path] = set()
    while queue:
        source = queue.pop().resolve()
        if source in seen:
            continue
        seen.add(source)
        if not source.is_relative_to(config.docs_dir):
            files.append(File.generated(config, _uri(source, config), abs_src_path=str(source)))
        if source.suffix == ".md":
            targets = [(source.parent / link).resolve() for link in LINK.findall(source.read_text())]
            queue += [path for path in targets if path.is_file() and path.is_relative_to(ROOT)]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where their targets are in the site."""
    source = Path(page.file.abs_src_path or config.docs_dir)
    here = os.path.dirname(page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        target = (source.parent / match[1]).resolve()
        if not target.is_file() or not target.is_relative_to(ROOT):
            return match[1]
        return os.path.relpath(_uri(target, config), here or ".")

    return LINK.sub(moved, markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Set pictures into the page, under the name that the text gives them."""

    def inline(match: re.Match[str]) -> str:
        picture = Path(os.path.normpath(os.path.join(config.docs_dir, os.path.dirname(page.file.src_uri), match[2])))
        return re.sub(r'aria-label="[^"]*"', lambda _: f'aria-label="{html.escape(match[1])}"', picture.read_text())

    return PICTURE.sub(inline, content)


def _uri(source: Path, config: MkDocsConfig) -> str:
    docs = Path(config.docs_dir)
    if source.is_relative_to(docs):
        return source.relative_to(docs).as_posix()
    return CARRIED + source.relative_to(ROOT).as_posix()
