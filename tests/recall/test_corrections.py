"""Later statements about the same thing: linked, left out of plans, brought where history is asked for, taken back."""

import pytest
import torch

from tests.memory_store import MemoryStore
from tests.tiny import tiny_profile
from v14.config import Options, Switches
from v14.events.phrases import Phrases
from v14.memory import Memory
from v14.recall.corrections import UNSAID, corrections
from v14.recall.doubt import Doubt
from v14.recall.lexicon import Lexicon
from v14.recall.plan import make_plan
from v14.recall.terms import Overlap, Terms
from v14.recall.wording import Wording
from v14.types import Event, Link, Trace, Vote

KIND, CHANGED, FORMERLY = (10, 11, 12), 90, 91
SAYS_CHANGE = Phrases([[CHANGED]])
DOUBT = Doubt(vote=1.0, names=0.0, words=1.0, missing=0.0, phrase=0.0, bar=2.0)
OPTIONS = Options(recall_floor=1.0, recall_max_linked=0)


def event(*token_ids, said_at, role="user"):
    return Event(namespace="n", chat_id=str(said_at), role=role, said_at=said_at, token_ids=token_ids)


def told(subject, value, *, said_at, lead=()):
    return event(*lead, *KIND, *subject, 13, *value, said_at=said_at)


OLD = told((20, 21, 24), (30, 31), said_at=1.0)
NEW = told((20, 21, 24), (32, 33), said_at=2.0, lead=(CHANGED,))
SIBLING = told((22, 23), (34, 35), said_at=3.0, lead=(CHANGED,))
OTHER_KIND = event(14, 15, 20, 21, 24, 16, 36, 37, said_at=4.0)
NEXT = told((20, 21, 24), (38, 39), said_at=5.0)
BESIDE = tuple(told((50 + n, 60 + n), (70 + n, 80 + n), said_at=10.0 + n) for n in range(8))


def linked(new, *others):
    events = {e.id: e for e in (new, *others, *BESIDE)}
    terms = Terms()
    for each in events.values():
        terms.add(each.id, each.body)
    return corrections(new, Overlap([terms]), events.get, SAYS_CHANGE)


def test_a_later_statement_with_another_value_supersedes():
    (link,) = linked(NEW, OLD, SIBLING, OTHER_KIND)
    assert (link.source, link.target, link.kind) == (NEW.id, OLD.id, "supersedes")
    assert link.weight > 0.9
    assert linked(OLD, NEW) == [link], "whichever of them comes to the store first"


def test_what_does_not_say_that_it_changed_has_half_the_score():
    (link,) = linked(NEXT, OLD)
    assert link.weight == pytest.approx(UNSAID, abs=0.05)


@pytest.mark.parametrize(
    "other",
    [
        SIBLING,
        OTHER_KIND,
        told((20, 21, 24), (32, 33), said_at=9.0),
        event(*OLD.token_ids, said_at=0.5, role="assistant"),
        event(*OLD.token_ids, *range(100, 170), said_at=0.5),
    ],
    ids=["another thing", "another kind", "the same again", "a reply", "a piece of a document"],
)
def test_what_supersedes_nothing(other):
    assert linked(NEW, other) == []


QUESTION = (*KIND, 20, 21, 24)


def plan_of(*events, superseded, votes=None, options=OPTIONS):
    lexicon = Lexicon()
    for each in (*events, *BESIDE):
        lexicon.add(each.id, each.body)
    known = {e.id: e for e in events}
    ranked = [Vote(event_id=e.id, value=v) for e, v in zip(events, votes or [1.5] * len(events), strict=True)]
    ranked.sort(key=lambda vote: -vote.value)
    return make_plan(
        ranked,
        lambda ids: [known[id] for id in ids],
        options,
        QUESTION,
        100,
        wording=Wording([lexicon], QUESTION),
        superseded=superseded,
        doubt=DOUBT,
    ).events


def test_the_superseded_one_stays_out_unless_history_is_asked_for():
    links = {OLD.id: {NEW.id: 0.9}}
    assert plan_of(OLD, NEW, superseded=lambda id: links.get(id, {})) == (NEW,)
    assert plan_of(OLD, NEW, superseded=None) == (OLD, NEW)
    assert plan_of(OLD, NEW, superseded=lambda id: {}) == (OLD, NEW), "the link was taken out"
    weak = {OLD.id: {NEW.id: 0.5}}
    assert plan_of(OLD, NEW, superseded=lambda id: weak.get(id, {})) == (OLD, NEW)


def test_the_later_one_takes_the_place_of_the_earlier():
    """A weaker vote does not keep it out of a plan that the earlier one would have been in."""
    links = {OLD.id: {NEW.id: 0.9}}
    assert plan_of(OLD, NEW, superseded=lambda id: links.get(id, {}), votes=[2.0, 0.7]) == (NEW,)


def test_a_wrong_link_takes_nothing_away():
    """What supersedes has to tell of what is asked as well, and to be found."""
    links = {OLD.id: {SIBLING.id: 0.9}}
    assert OLD in plan_of(OLD, SIBLING, superseded=lambda id: links.get(id, {}))
    gone = {OLD.id: {"sha256:gone": 0.9}}
    assert plan_of(OLD, superseded=lambda id: gone.get(id, {})) == (OLD,)


def test_phrases():
    assert Phrases([[1, 2], [5]])([0, 1, 2])
    assert Phrases([[1, 2], [5]])([5])
    assert not Phrases([[1, 2], [5]])([1, 3, 2])
    assert not Phrases([])([1])


def test_a_memory_links_what_it_is_told_and_reads_links_back():
    profile = tiny_profile("llama")
    store = MemoryStore()
    memory = Memory.open(profile, Switches(), store=store)

    def keep(*events):
        geometry = profile.geometry
        traces = []
        for each in events:
            tensor = torch.randn(len(geometry.layers), each.num_tokens, geometry.num_kv_heads, geometry.head_dim)
            traces.append((each, Trace(keys=tensor, values=tensor)))
        memory.session("n").keep(traces)

    keep(OLD, *BESIDE)
    assert store.links("n") == []
    keep(NEW)
    (link,) = store.links("n")
    assert (link.source, link.target) == (NEW.id, OLD.id)
    assert link.weight == pytest.approx(UNSAID, abs=0.05), "this profile knows no phrases"
    assert memory.space("n").superseded == {OLD.id: {NEW.id: link.weight}}
    assert Memory.open(profile, Switches(), store=store).space("n").superseded == {OLD.id: {NEW.id: link.weight}}
    memory.forget("n", [NEW.id])
    assert memory.space("n").superseded == {OLD.id: {}}
    store.link("n", [Link(source=BESIDE[0].id, target=OLD.id, kind="association")])
    assert Memory.open(profile, Switches(), store=store).space("n").superseded == {}
