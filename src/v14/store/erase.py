"""Erasing committed events: their rows and links, and every byte of their traces. Runs on the writer's thread.

step                                           a crash behind it leaves
1. segments without them are written anew      files that no row names: go after the next opening, nothing forgotten
2. one transaction: rows and links deleted,    forgotten for good; old files and copies in the catalog's files: the
   other rows moved, an unfinished record      next opening removes them, because the record is unfinished
3. the catalog's log and pages are scrubbed
4. files that no row names are overwritten
   and deleted
5. the record is finished                      nothing
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from v14.errors import StoreError, TraceCorruptError
from v14.store.audit import Record, namespace_digest
from v14.store.foundation import CatalogContract
from v14.store.pending import Key
from v14.store.row import Row
from v14.store.segments import Segments
from v14.types import Event


class Eraser:
    """Erases from one store. `new_name` names a segment; `leftovers` says which files may go when those given do."""

    def __init__(
        self, catalog: CatalogContract, segments: Segments, *,
        new_name: Callable[[], str], leftovers: Callable[[set[str]], set[str]], clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._catalog, self._segments, self._clock = catalog, segments, clock
        self._new_name, self._leftovers = new_name, leftovers

    def erase(
        self, keys: Collection[Key], pending: Sequence[Event], *, action: str, selection: str, requested_by: str = ""
    ) -> int:
        """Erase the events `keys` and say how many there were; `pending` are those dropped from memory just before.

        Durable when it returns. Raises `StoreError`: either nothing is erased, or (the message says so) everything is
        and copies in files are still to be removed, which `finish` does.
        """
        with self._catalog.erasing():
            return self._erase(keys, pending, action, selection, requested_by)

    def _erase(
        self, keys: Collection[Key], pending: Sequence[Event], action: str, selection: str, requested_by: str
    ) -> int:
        rows = [row for key in keys if (row := self._catalog.row(key, corrupt=True)) is not None]
        num_tokens = {row.key: row.num_tokens for row in rows}
        num_tokens |= {(event.namespace, event.id): event.num_tokens for event in pending}
        if not num_tokens:
            return 0
        replaced = {row.segment for row in rows}
        try:
            moved = [row for name in sorted(replaced) for row in self._move(name, {row.key for row in rows})]
        except OSError as error:
            raise StoreError(
                f"nothing was forgotten: segments cannot be written anew ({error}); check the disk and forget again"
            ) from error
        at = self._clock()
        records = [
            Record(
                at=at,
                action=action,
                selection=selection,
                namespace_digest=namespace_digest(namespace),
                num_events=sum(key[0] == namespace for key in num_tokens),
                num_tokens=sum(tokens for key, tokens in num_tokens.items() if key[0] == namespace),
                requested_by=requested_by,
            )
            for namespace in sorted({namespace for namespace, _ in num_tokens})
        ]
        # Of what an earlier call had to leave, nobody knows any more where it may lie.
        was_finished = self._catalog.finished()
        self._catalog.forget(list(num_tokens), moved, records)
        if was_finished:
            self.finish(replaced, {row.token_ids for row in rows} | {event_id.encode() for _, event_id in num_tokens})
        else:
            self.finish()
        return len(num_tokens)

    def finish(self, replaced: set[str] | None = None, needles: Collection[bytes] | None = None) -> None:
        """Remove what erasing left in files; without arguments, all that any erasing may have left."""
        self._catalog.scrub(needles)
        names = self._leftovers(replaced or set())
        for name in names:
            self._segments.forget(name)
        try:
            self._segments.blobs.remove(names)
        except (OSError, StoreError) as error:
            raise StoreError(
                f"what was forgotten is deleted, but not yet from {', '.join(map(self._segments.blobs.where, names))} "
                f"({error}); it is tried again in the background"
            ) from error
        self._catalog.finish(self._clock())

    def _move(self, segment: str, gone: set[Key]) -> list[Row]:
        """Write a segment anew without the events `gone`; the rows of the others as they must become.

        What cannot be read any more is not moved, but set aside: the file goes.
        """
        others = {row.key: row for row in self._catalog.in_segment(segment) if row.key not in gone}
        if not others:
            return []
        name = self._new_name()
        try:
            moved = self._segments.rewrite(segment, name, others)
        except TraceCorruptError:
            moved = set()
        # A row whose trace is lost names a segment that will never hold it.
        return [replace(row, segment=name, corrupt=row.corrupt if key in moved else 1) for key, row in others.items()]
