"""Whatever is done to a store, in whatever order, it answers as a dictionary would."""

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.store.making import WEIGHTS, made, same_bits, same_trace
from v14.store.directory import DirectoryStore
from v14.types import Event, Trace

NAMESPACES = ("home", "work", "", "home/x", "läuft\x00'; DROP TABLE events")
namespaces = st.sampled_from(NAMESPACES)
numbers = st.lists(st.integers(0, 12), min_size=1, max_size=5)


def body_of(number: int, namespace: str) -> tuple[Event, Trace]:
    """The same content, hence the same id, in every namespace, with a trace of the namespace's own."""
    event, _ = made(number)
    _, trace = made(number, namespace)
    shape = event.num_tokens, *trace.keys.shape[2:]
    rng = random.Random(f"{number}{namespace}")
    keys = trace.keys[:, [rng.randrange(trace.num_tokens) for _ in range(shape[0])]]
    moved = Event(
        namespace=namespace, chat_id=event.chat_id, role=event.role, said_at=event.said_at,
        token_ids=event.token_ids, parent=event.parent, closing_len=event.closing_len,
    )  # fmt: skip
    return moved, Trace(keys=keys, values=-keys)


class AsDictionary(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.open()
        self.expected: dict[str, dict[str, tuple[Event, Trace]]] = {name: {} for name in NAMESPACES}

    def open(self) -> None:
        self.store = DirectoryStore.open(self.home, WEIGHTS, fsync=False, batch_bytes=500)

    def teardown(self) -> None:
        self.store.close()
        assert list(self.store.path.glob("catalog.sqlite3-*")) == []
        shutil.rmtree(self.home)

    @rule(namespace=namespaces, numbers=numbers, later=st.floats(-10, 10))
    def put(self, namespace: str, numbers: list[int], later: float) -> None:
        events = []
        for number in numbers:
            event, trace = body_of(number, namespace)
            old = self.expected[namespace].get(event.id)
            said_at = event.said_at + later
            event = Event(**{**vars(event), "said_at": said_at})
            events.append((event, trace))
            if old is None:
                self.expected[namespace][event.id] = event, trace
            elif said_at > old[0].said_at:
                self.expected[namespace][event.id] = Event(**{**vars(old[0]), "said_at": said_at}), old[1]
        self.store.put(events)

    @rule()
    def flush(self) -> None:
        assert self.store.flush(30)
        assert self.store.stats().num_pending == 0

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @rule(namespace=namespaces, numbers=numbers)
    def touch(self, namespace: str, numbers: list[int]) -> None:
        self.store.touch(namespace, [made(number)[0].id for number in numbers], 7.0)

    @rule(namespace=namespaces, numbers=numbers)
    def ask(self, namespace: str, numbers: list[int]) -> None:
        asked = [made(number)[0].id for number in numbers]
        known = self.expected[namespace]
        assert self.store.has(namespace, asked) == {event_id for event_id in asked if event_id in known}
        found = [event_id for event_id in asked if event_id in known]
        assert self.store.get(namespace, found) == [known[event_id][0] for event_id in found]
        for event_id in asked:
            if event_id in known:
                trace = known[event_id][1]
                assert same_trace(self.store.trace(namespace, event_id), trace)
                assert same_bits(self.store.keys_of_layers(namespace, event_id, [2, 0]), trace.keys[[2, 0]])
                continue
            with pytest.raises(KeyError):
                self.store.get(namespace, [event_id])
            with pytest.raises(KeyError):
                self.store.trace(namespace, event_id)
            with pytest.raises(KeyError):
                self.store.keys_of_layers(namespace, event_id, [0])

    @precondition(lambda self: any(self.expected.values()))
    @rule()
    def verify(self) -> None:
        assert self.store.verify() == []

    @invariant()
    def lists_agree(self) -> None:
        assert self.store.namespaces() == {name: len(known) for name, known in self.expected.items() if known}
        for namespace, known in self.expected.items():
            listed = self.store.events(namespace)
            assert {event.id: event for event in listed} == {event_id: event for event_id, (event, _) in known.items()}
            assert len(listed) == len(known)
            assert [event.said_at for event in listed] == sorted(event.said_at for event in listed)
        stats = self.store.stats()
        everything = [event for known in self.expected.values() for event, _ in known.values()]
        assert stats.num_events == len(everything)
        assert stats.num_tokens == sum(event.num_tokens for event in everything)
        assert (stats.num_failed_writes, stats.num_corrupt) == (0, 0)


TestAsDictionary = AsDictionary.TestCase
TestAsDictionary.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
