"""Forgetting in a shared store: no object and no row of any table holds anything of it, and every server knows."""

import random
from contextlib import closing
from typing import Any

import pytest

from tests.counts import counted
from tests.shared_servers import Postgres
from tests.store.contract.places import Shared
from tests.store.contract.test_contract import wait_until
from tests.store.making import bits, made, same_trace
from v14.errors import StoreError

CASES = 100
CASES_PER_STORE = 10

pytestmark = pytest.mark.shared


def content(place: Shared) -> bytes:
    """Everything that the store holds: every object, every column of every table."""
    tables = place.sql("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    rows = [str(row).encode() for (table,) in tables for row in place.sql(f"SELECT t::text FROM {table} AS t")]
    return b"\n".join([*rows, *(name.encode() + data for name, data in place.segments().items())])


def needles(number: int, namespace: str) -> dict[str, bytes]:
    """What must not be found of an event: as bytes in objects, as hexadecimal in columns. Short parts say nothing."""
    event, trace = made(number, namespace)
    tokens = b"".join(token.to_bytes(8, "little") for token in event.token_ids)
    parts = {"tokens": tokens.hex().encode(), "id": event.id.encode(), "keys": bits(trace.keys[0])}
    parts["values"] = bits(trace.values[-1])
    return {name: part for name, part in parts.items() if len(part) >= 12}


def holds_all(seen: bytes, held: set[int]) -> bool:
    """Whether everything of these events is found where it has to be."""
    return all(part in seen for event in held for part in needles(event, "home").values())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_random_cases(servers: tuple[Postgres, int]) -> None:
    rng = random.Random(6)
    num_forgotten = num_kept = 0
    for first in range(0, CASES, CASES_PER_STORE):
        place = Shared(*(servers[0].port, servers[1]))
        with closing(place), closing(place.open(batch_bytes=3000)) as one, closing(place.open()) as other:
            held: set[int] = set()
            number = 0
            for case in range(first, first + CASES_PER_STORE):
                new = set(range(8 * case, 8 * case + 8))
                for event in sorted(new):
                    rng.choice((one, other)).put([made(event)])
                assert one.flush(60)
                assert other.flush(60)
                held |= new
                gone = set(rng.sample(sorted(held), rng.randint(1, min(6, len(held)))))
                forgetting, asking = rng.sample((one, other), 2)
                assert forgetting.forget("home", [made(event)[0].id for event in gone]) == len(gone)
                held -= gone
                stored = content(place)
                found = [(e, name) for e in gone for name, part in needles(e, "home").items() if part in stored]
                assert found == [], f"case {case}"
                ids = {made(event)[0].id for event in held}
                assert {event.id for event in asking.events("home")} == ids
                if asking is one:
                    changes = asking.changes("home", number)
                    assert changes.held in (ids, None)
                    number = changes.number
                num_forgotten += len(gone)
            kept = {event: made(event) for event in held}
            assert all(same_trace(other.trace("home", event.id), trace) for event, trace in kept.values())
            # An object may be written anew between being listed and being read.
            wait_until(lambda place=place, held=held: holds_all(content(place), held))
            num_kept += len(kept)
            assert one.verify() == []
    counted(f"{CASES} cases of forgetting: {num_forgotten} events, 0 traces of them left; {num_kept} others whole")


def test_two_servers_forget_at_once(shared: Shared) -> None:
    """One is about to write a segment anew when the other has just done so: it must not bring anything back."""
    with closing(shared.open()) as one, closing(shared.open()) as other:
        one.put([made(number) for number in range(6)])
        assert one.flush(30)
        rewrite, results = one._segments.rewrite, []

        def late(*args: Any) -> Any:
            if not results:
                results.append(_later(other, 2))
            return rewrite(*args)

        one._segments.rewrite = late
        assert one.forget("home", [made(1)[0].id]) == 1
        assert results[0].result(60) == 1
        expected = {made(number)[0].id for number in (0, 3, 4, 5)}
        assert {event.id for event in other.events("home")} == expected
        stored = content(shared)
        assert not [name for gone in (1, 2) for name, part in needles(gone, "home").items() if part in stored]
        assert other.verify() == []


def _later(store: Any, number: int) -> Any:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1).submit(store.forget, "home", [made(number)[0].id])


def test_a_connection_lost_while_erasing_forgets_nothing(shared: Shared) -> None:
    with closing(shared.open()) as store:
        store.put([made(0), made(1)])
        assert store.flush(30)
        rewrite = store._segments.rewrite

        def cutting(*args: Any) -> Any:
            moved = rewrite(*args)
            shared.postgres.cut()
            shared.postgres.mend()
            return moved

        store._segments.rewrite = cutting
        with pytest.raises(StoreError):
            store.forget("home", [made(1)[0].id])
        store._segments.rewrite = rewrite
        wait_until(lambda: not store._shared._latest.is_cut_off)
        assert len(store.events("home")) == 2
        assert store.forget("home", [made(1)[0].id]) == 1
        assert store.verify() == []
        assert store.audit()[0].finished_at > 0


def test_objects_that_cannot_be_deleted_are_deleted_later(shared: Shared) -> None:
    with closing(shared.open(tend_s=0.2)) as store:
        store.put([made(0)])
        assert store.flush(30)
        shared.objects.cut()
        with pytest.raises(StoreError, match="is deleted, but not yet from s3://"):
            store.forget("home", [made(0)[0].id])
        assert store.events("home") == []
        shared.objects.mend()
        wait_until(lambda: not shared.segments(), 30)
        wait_until(lambda: store.audit()[0].finished_at > 0)
