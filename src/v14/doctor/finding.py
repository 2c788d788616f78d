"""One finding of the doctor."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was looked at (`subject`), what was found (`text`), and what to do about it (`remedy`, empty for `ok`)."""

    level: Level
    subject: str
    text: str
    remedy: str = ""

    def __post_init__(self) -> None:
        """A finding that is not ok says what to do."""
        assert bool(self.remedy) == (self.level != "ok"), self

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def ok(subject: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(level="ok", subject=subject, text=text)


def warn(subject: str, text: str, remedy: str) -> Finding:
    """Works, but not as it should."""
    return Finding(level="warn", subject=subject, text=text, remedy=remedy)


def fail(subject: str, text: str, remedy: str) -> Finding:
    """Does not work."""
    return Finding(level="fail", subject=subject, text=text, remedy=remedy)


def render(findings: Iterable[Finding]) -> str:
    """As lines for a terminal, remedies indented below what they mend."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<4}  {finding.subject}: {finding.text}")
        if finding.remedy:
            lines.append(f"      → {finding.remedy}")
    return "\n".join(lines)
