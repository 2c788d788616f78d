"""Progress bars for what takes long, on standard error."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from v14.check.suite import Phase, Step


def bars() -> Progress:
    """Bars with what is being done, how far it is and how long it took."""
    what = (SpinnerColumn(), TextColumn("{task.description}"))
    return Progress(*what, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=Console(stderr=True))


def phases(progress: Progress) -> Phase:
    """A bar for every phase of a check."""

    def phase(name: str, total: int) -> Step:
        task = progress.add_task(name, total=total)
        return lambda: progress.advance(task)

    return phase
