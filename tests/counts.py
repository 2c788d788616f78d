"""What long tests counted: a line for each promise, all of them printed together at the end of a run."""

LINES: list[str] = []


def counted(line: str) -> None:
    """Print a line now and once more at the end (`tests/conftest.py`)."""
    print(line, flush=True)
    LINES.append(line)
