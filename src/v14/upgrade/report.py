"""What an upgrade shows: a progress bar, and how well the voters separate."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from v14.upgrade.sureness import Sureness


class Report:
    """Tells a person on the terminal. Tests pass a `Silent` one, which keeps the lines."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._progress: Progress | None = None
        self._task: Any = None

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[None]:
        """A piece of work of `total` steps, each ended by `advance`."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console) as self._progress:
            self._task = self._progress.add_task(name, total=total)
            yield
        self._progress = None

    def advance(self) -> None:
        """One step of the stage under way is done."""
        if self._progress is not None:
            self._progress.advance(self._task)

    def say(self, line: str) -> None:
        """One line for the reader."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


class Silent(Report):
    """Shows nothing and keeps what was said."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        """Keep the line."""
        self.lines.append(line)


def separation_lines(measured: Mapping[str, Any], floor: float, sureness: Sureness) -> list[str]:
    """What a profile's `measured` says, in words."""
    lines = [
        f"voters: {measured['num_voters']} heads in layers {measured['first_layer']} to {measured['last_layer']} "
        f"({measured['num_layers']} of the model's layers have attention), calibration {measured['calibration']}",
        f"held-out questions ({measured['num_facts']} about facts, {measured['num_unrelated']} about nothing stored, "
        f"{measured['num_events']} events): top-1 {measured['top1']:.0%}, top-5 {measured['top5']:.0%}, "
        f"AUC {measured['auc']:.3f}",
        f"floor {floor:.2f}: {measured['kept']:.0%} of the right events pass it, {measured['recalling']:.0%} of the "
        "unrelated questions",
        f"ratio {sureness.ratio:g}, linked {sureness.linked:g}: of a second set, {measured['right_in_plan']:.0%} of "
        f"the right events are recalled with {measured['wrong_in_plan']:.1f} others beside them, and "
        f"{measured['strangers_recalling']:.0%} of {measured['num_strangers']} questions about what was never told of "
        f"recall something ({measured['named_recalling']:.0%} where names tell it from look-alikes, "
        f"{measured['lonely_recalling']:.0%} where nothing does)",
    ]
    if not measured["separates"]:
        lines.append(
            "WARNING: this model's voters do not separate right from wrong well. The floor is set where no held-out "
            "unrelated question recalls anything; expect few recalls."
        )
    return lines
