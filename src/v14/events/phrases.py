"""Whether any of some phrases stands in a text: token runs, as `v14 upgrade` made them of a list of phrases."""

from collections.abc import Sequence

from v14.events.runs import contains, packed


class Phrases:
    """Finds runs of token ids; none where there are no runs."""

    def __init__(self, runs: Sequence[Sequence[int]]) -> None:
        self._runs = [packed(run) for run in runs]

    def __call__(self, token_ids: Sequence[int]) -> bool:
        """Whether one of the runs occurs."""
        sequence = packed(token_ids)
        return any(contains(sequence, run) for run in self._runs)
