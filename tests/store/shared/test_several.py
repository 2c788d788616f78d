"""Several servers on one store: they hear of each other, and neither undoes what the other did."""

import json
import random
import signal
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from tests.recall.test_space import GEOMETRY, VOTERS
from tests.recall.test_space import event as event_of
from tests.shared_servers import Postgres
from tests.store.contract.places import Shared
from tests.store.contract.test_contract import readable, wait_until
from tests.store.making import WEIGHTS, made, noise, same_bits, same_trace
from v14.cli import app
from v14.errors import StoreError, StoreUnavailableError, StoreVersionError
from v14.recall.space import Spaces
from v14.store.opening import open_store
from v14.types import Link, Trace

pytestmark = pytest.mark.shared


@pytest.fixture
def two(shared: Shared) -> Iterator[tuple[Any, Any]]:
    """Two servers' stores."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(closing(shared.open())) for _ in range(2))


def test_what_one_commits_the_other_reads(two: tuple[Any, Any]) -> None:
    one, other = two
    for number in range(4):
        one.put([made(number)])
        assert one.flush(30)
        assert readable(other, range(number + 1)), "the catalog is asked, whatever was heard of"


def test_changes_are_heard_of_without_asking(two: tuple[Any, Any]) -> None:
    one, other = two
    one.put([made(0)])
    assert one.flush(30)
    number = other.changes("home", 0).number
    asked: Counter[str] = Counter()
    run = other._shared._reader.run

    def counted(work: Any, **options: Any) -> Any:
        asked["catalog"] += 1
        return run(work, **options)

    other._shared._reader.run = counted
    wait_until(lambda: other.changes("home", number).number == number and not asked.clear())
    for _ in range(50):
        assert other.changes("home", number).events == []
    assert not asked, "nothing changed, nothing is asked"
    one.put([made(1, "work")])
    assert one.flush(30)
    time.sleep(0.2)
    assert other.changes("home", number).events == []
    assert not asked, "another namespace changed"
    one.put([made(2)])
    assert one.flush(30)
    wait_until(lambda: [event.said_at for event in other.changes("home", number).events] == [2.0])
    assert asked["catalog"] == 1


def test_a_lost_connection_catches_up(shared: Shared, two: tuple[Any, Any]) -> None:
    one, other = two
    one.put([made(0)])
    assert one.flush(30)
    number = other.changes("home", 0).number
    shared.postgres.cut()
    wait_until(lambda: other._shared._latest.is_cut_off)
    with pytest.raises(StoreUnavailableError):
        other.changes("home", number)
    one.put([made(1)])
    assert one.flush(30), "a catalog that does not answer keeps nobody waiting"
    assert one.has("home", [made(1)[0].id]) == {made(1)[0].id}
    shared.postgres.mend()
    wait_until(lambda: not other._shared._latest.is_cut_off and one.flush(1) and not one._writer._failing)
    wait_until(lambda: _said(other, number) == [1.0])


def _said(store: Any, number: int) -> list[float]:
    return [event.said_at for event in store.changes("home", number).events]


def test_writers_at_once(shared: Shared) -> None:
    """Four servers write the same and other events; each event is there once, whole, and every number is in order."""
    stores = [shared.open(batch_bytes=4000) for _ in range(4)]
    try:
        threads = [threading.Thread(target=_write, args=(store, place)) for place, store in enumerate(stores)]
        seen: list[int] = []
        for thread in threads:
            thread.start()
        number = 0
        while any(thread.is_alive() for thread in threads):
            changes = stores[0].changes("home", number)
            number = changes.number
            seen += [event.token_ids[0] for event in changes.events]
        for thread in threads:
            thread.join()
        assert all(store.flush(30) and store.stats().num_pending == 0 for store in stores)
        seen += [event.token_ids[0] for event in stores[0].changes("home", number).events]
        expected = [*range(10), *(100 * place + step for place in range(1, 5) for step in range(10))]
        assert set(seen) == set(expected), "following by number misses nothing"
        assert stores[1].stats().num_events == len(expected)
        assert stores[2].verify() == []
    finally:
        for store in stores:
            store.close()


def _write(store: Any, place: int) -> None:
    for step in range(10):
        store.put([made(step), made(100 * (place + 1) + step)])
        store.flush(30)


def test_the_first_trace_stays_and_the_other_segment_is_collected(shared: Shared, two: tuple[Any, Any]) -> None:
    one, other = two
    event, trace = made(1)
    known = other._known
    other._known = lambda *asked: set()  # as if both had looked before either committed
    one.put([(event, trace)])
    assert one.flush(30)
    other.put([(replace(event, said_at=5.0), trace)])
    assert other.flush(30)
    other._known = known
    assert [found.said_at for found in one.events("home")] == [5.0]
    assert len(shared.segments()) == 2
    assert other.collect() == 1
    assert len(shared.segments()) == 1
    assert same_trace(one.trace("home", event.id), trace)


def test_segments_of_commits_that_never_came_are_collected(shared: Shared, two: tuple[Any, Any]) -> None:
    one, other = two
    one.put([made(0)])
    assert one.flush(30)
    one._segments.write("left.safetensors", {("home", made(1)[0].id): made(1)[1]})
    shared.replace("unknown.safetensors", b"written behind the catalog's back")
    assert other.collect() == 0, "too young: their rows may still come"
    assert other.collect(grace_s=-5) == 2
    assert list(shared.segments()) == [name for name in shared.segments() if "left" not in name]
    assert len(shared.segments()) == 1
    assert readable(one, range(1))


def test_a_writer_that_was_stopped_for_long_commits_nothing_torn(shared: Shared, two: tuple[Any, Any]) -> None:
    """Its segment was written, then it stood still; another server collected it; then it goes on."""
    one, other = two
    write, collected = one._segments.write, []

    def slow(*args: Any, **options: Any) -> Any:
        done = write(*args, **options)
        if not collected:
            collected.append(other.collect(grace_s=-5))
        return done

    one._segments.write = slow
    one.put([made(1)])
    wait_until(lambda: one.stats().num_pending == 0)
    assert collected == [1]
    assert readable(other, range(1, 2)), "its next try wrote another segment"
    assert len(shared.segments()) == 1


def test_other_formats_weights_and_segments_are_refused(shared: Shared) -> None:
    shared.open().close()
    home = shared.home
    shared.home = replace(home, prefix="elsewhere")
    with pytest.raises(StoreVersionError, match=r"has its segments in .*some/where, expected .*elsewhere"):
        shared.open()
    shared.home = home
    shared.sql("UPDATE store SET version = 9")
    with pytest.raises(StoreVersionError, match="has format 9, this package knows 1 to 1"):
        shared.open()
    shared.sql("UPDATE store SET version = 1, weights_id = 'sha256:other'")
    with pytest.raises(StoreVersionError, match="sha256:other"):
        shared.open()


def test_the_objects_of_another_store_are_refused(shared: Shared) -> None:
    """As if another database had the same prefix: each would collect what the other wrote."""
    shared.open().close()
    shared.sql("UPDATE store SET identity = 'another'")
    with pytest.raises(StoreVersionError, match=r"holds the segments of another store .*prefix of its own"):
        shared.open()


def test_what_cannot_be_reached_is_refused_at_start(shared: Shared) -> None:
    home = shared.home
    for change in (
        {"conninfo": "postgresql://v14:secret@127.0.0.1:1/postgres"},
        {"conninfo": f"{home.conninfo}?nonsense=1"},
        {"endpoint": "http://127.0.0.1:1"},
        {"bucket": "nobodys-bucket"},
    ):
        shared.home, shared.weights_id = replace(home, **change), f"sha256:{uuid.uuid4().hex}"
        with pytest.raises(StoreError, match=r"shared store postgresql://.*cannot be opened") as caught:
            shared.open()
        assert "secret" not in str(caught.value)


def test_a_namespace_with_nul_is_refused_at_once(two: tuple[Any, Any]) -> None:
    event, trace = made(1, "a\0b")
    with pytest.raises(ValueError, match="NUL"):
        two[0].put([made(2), (event, trace)])
    assert two[0].stats().num_pending == 0


def test_keys_alone_are_read_from_a_segment(shared: Shared, two: tuple[Any, Any]) -> None:
    """What votes reads the header and the keys of its layers, not the megabytes beside them."""
    one, other = two
    pairs = []
    for number in range(4):
        event, rng = made(number)[0], random.Random(number)
        shape = (64, event.num_tokens, 8, 128)
        pairs.append((event, Trace(keys=noise(rng, shape, torch.bfloat16), values=noise(rng, shape, torch.bfloat16))))
    one.put(pairs)
    assert one.flush(60)
    num_bytes = one.stats().num_bytes
    event, trace = pairs[2]
    before = shared.objects.num_bytes
    keys = other.keys_of_layers("home", event.id, [3, 4])
    read = shared.objects.num_bytes - before
    assert same_bits(keys, trace.keys[[3, 4]])
    print(f"{num_bytes} bytes in the segment, {read} read for {2 * keys.numel()} bytes of keys")
    assert read < num_bytes / 20
    before = shared.objects.num_bytes
    other.keys_of_layers("home", pairs[3][0].id, [3])
    assert shared.objects.num_bytes - before < 30_000, "the header is known already"


def test_postgresql_killed_and_started_again(
    servers: tuple[Postgres, int], shared: Shared, two: tuple[Any, Any]
) -> None:
    one, other = two
    one.put([made(0)])
    assert one.flush(30)
    servers[0].stop(signal.SIGQUIT)  # ends at once, as a crash does
    try:
        one.put([made(1)])
        assert one.flush(30)
        assert one.has("home", [made(1)[0].id])
    finally:
        servers[0].start()
    wait_until(lambda: one.flush(1) and not _failing(one), 60)
    wait_until(lambda: _readable(other), 30)


def _failing(store: Any) -> bool:
    return bool(store._writer._failing)


def _readable(store: Any) -> bool:
    try:
        return readable(store, range(2))
    except StoreError:
        return False


def test_the_extra_is_named_where_it_is_missing(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [name for name in sys.modules if name.startswith("v14.store.shared.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(StoreError, match=r"needs the package psycopg.*pip install 'sglang-v14\[shared\]'"):
        open_store(shared.home, WEIGHTS)


def test_an_index_follows_the_other_server(two: tuple[Any, Any]) -> None:
    """`Spaces` of one server takes in what another puts and links, and lets go of what it forgets and unlinks."""
    pairs = []
    for token in range(40):
        keys = torch.rand(1, 4, 1, 4)
        pairs.append((event_of("home", token), Trace(keys=keys, values=keys)))
    one, other = two
    counters: Counter[str] = Counter()
    spaces = Spaces(GEOMETRY, VOTERS, other, 1e9, counters)
    assert not spaces.get("home").events
    one.put(pairs[:30])
    assert one.flush(30)
    wait_until(lambda: len(spaces.get("home").events) == 30)
    link = Link(source=pairs[7][0].id, target=pairs[6][0].id, kind="supersedes", weight=0.5)
    one.link("home", [link])
    wait_until(lambda: spaces.get("home").superseded == {link.target: {link.source: 0.5}})
    one.unlink("home", [link])
    wait_until(lambda: not any(spaces.get("home").superseded.values()))
    one.put(pairs[30:])
    assert one.flush(30)
    assert one.forget("home", [event.id for event, _ in pairs[:5]]) == 5
    wait_until(lambda: set(spaces.get("home").events) == {event.id for event, _ in pairs[5:]})
    assert len(spaces.get("home").index) == 35
    own = Spaces(GEOMETRY, VOTERS, one, 1e9, counters).get("home")
    assert set(own.events) == set(spaces.get("home").events)
    assert not counters


def test_the_command_line_looks_into_it(shared: Shared, two: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{shared.home.conninfo}?segments={shared.home.segments}&endpoint={shared.home.endpoint}"
    monkeypatch.setenv("SGLANG_V14_MEMORY_HOME", url)
    two[0].put([made(1), made(2, "work")])
    assert two[0].flush(30)
    status = json.loads(CliRunner().invoke(app, ["store", "status", "--json"]).stdout)
    [mine] = [store for store in status if store["weights_id"] == shared.weights_id]
    assert (mine["num_events"], mine["namespaces"]) == (2, {"home": 1, "work": 1})
    assert mine["num_bytes"] == two[1].stats().num_bytes > 0
    result = CliRunner().invoke(app, ["store", "list", "--json", "--namespace", "work"])
    assert result.exit_code == 0, result.output
    listed = json.loads(result.stdout)
    assert made(2, "work")[0].id in {event["id"] for event in listed}
    assert CliRunner().invoke(app, ["store", "path"]).stdout.startswith("postgresql://v14@127.0.0.1:")
