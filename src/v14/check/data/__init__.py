"""Word lists of the check: one text file each, `#` begins a comment line."""

from importlib.resources import files


def lines(name: str) -> list[str]:
    """The lines of a list that are neither empty nor comments."""
    text = files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
