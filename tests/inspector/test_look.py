"""Pages of a memory: what they count, in which order, and that each is of one namespace."""

import pytest

from tests.inspector.fake import Fake
from tests.tiny import tiny_checkpoint, tokenizer_of
from v14.errors import SelectionError
from v14.forgetting import Selection
from v14.inspector import look, stories, ties
from v14.types import Link

EVERYTHING = Selection(everything=True)


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    made = Fake(tmp_path_factory.mktemp("look") / "memory")
    made.tell("ann", ("user", "My violin was built in Cremona."), ("assistant", "Good."), said_at=10.0)
    made.tell("ann", ("user", "The Ganymede server is loud."), said_at=20.0)
    made.tell("ann", ("user", "Where does Ganymede stand?"), said_at=30.0)
    for number in range(5):
        made.tell("ann", ("user", f"A note about nothing, {number}."), said_at=40.0 + number)
    made.tell("bob", ("user", "The Ganymede server is loud."), said_at=50.0)
    yield made
    made.memory.close()


@pytest.fixture(scope="module")
def decode():
    return tokenizer_of(tiny_checkpoint("llama")).decode


def words(page, decode):
    return [decode(event["word_ids"]) for event in page["events"]]


def test_pages_are_cut_from_one_order(fake, decode):
    whole = look.events(fake.memory, "ann", EVERYTHING, 0, 100)
    assert whole["num_events"] == 9
    assert words(whole, decode)[:3] == ["My violin was built in Cremona.", "Good.", "The Ganymede server is loud."]
    pages = [look.events(fake.memory, "ann", EVERYTHING, start, 4) for start in (0, 4, 8)]
    assert [event for page in pages for event in page["events"]] == whole["events"]
    newest = look.events(fake.memory, "ann", EVERYTHING, 0, 100, newest=True)
    assert newest["events"] == whole["events"][::-1]
    assert words(look.events(fake.memory, "ann", EVERYTHING, 0, 9, role="assistant"), decode) == ["Good."]


def test_a_selection_by_time_and_chat_is_the_one_that_forgetting_makes(fake):
    for selection in (Selection(since=20.0, until=40.0), Selection(until=15.0)):
        page = look.events(fake.memory, "ann", selection, 0, 100)
        assert [event["said_at"] for event in page["events"]] == [
            at for at in (10.0, 10.0, 20.0, 30.0, 40.0) if selection.holds("", at)
        ]
    chat = look.events(fake.memory, "ann", EVERYTHING, 0, 1)["events"][0]["chat_id"]
    assert look.events(fake.memory, "ann", Selection(chat_id=chat), 0, 100)["num_events"] == 2


def test_sums_are_those_of_the_events(fake):
    events = look.events(fake.memory, "ann", EVERYTHING, 0, 100)["events"]
    use = look.use(fake.memory, "ann")
    for name in ("num_tokens", "num_bytes"):
        assert use[name] == sum(event[name] for event in events) > 0
    assert (use["num_events"], use["num_chats"], use["said_at"]) == (9, 8, 44.0)
    assert look.use(fake.memory, "nobody") | {"namespace": ""} == {
        "namespace": "", "num_events": 0, "num_chats": 0, "num_tokens": 0, "num_bytes": 0, "said_at": None,
        "recalled_at": None,
    }  # fmt: skip


def test_chats_come_newest_first_with_how_they_begin(fake, decode):
    page = look.chats(fake.memory, "ann", 0, 100)
    assert page["num_chats"] == len(page["chats"]) == 8
    assert [chat["said_at"] for chat in page["chats"]] == [44.0, 43.0, 42.0, 41.0, 40.0, 30.0, 20.0, 10.0]
    assert decode(page["chats"][-1]["first"]["word_ids"]) == "My violin was built in Cremona."
    assert page["chats"][-1]["num_events"] == 2
    assert look.chats(fake.memory, "ann", 6, 1)["chats"] == page["chats"][6:7]


def test_losses_are_what_forgetting_would_take(fake):
    [event] = look.events(fake.memory, "bob", EVERYTHING, 0, 1)["events"]
    lost = look.losses(fake.memory, "bob", Selection(ids=(event["id"],)))
    assert (lost["num_events"], lost["num_chats"], lost["since"]) == (1, 1, 50.0)
    assert [sample["id"] for sample in lost["events"]] == [event["id"]]
    lost = look.losses(fake.memory, "ann", Selection(since=40.0))
    assert (lost["num_events"], lost["since"], lost["said_at"]) == (5, 40.0, 44.0)
    with pytest.raises(SelectionError, match="no request"):
        look.losses(fake.memory, "ann", Selection(request="unknown"))


def test_an_event_is_tied_by_its_rare_words_and_by_links(fake, decode):
    violin, good, loud, where, *_ = look.events(fake.memory, "ann", EVERYTHING, 0, 100)["events"]
    found = ties.event(fake.memory, "ann", loud["id"])
    assert found["event"] == loud
    assert found["links"] == []
    assert found["leads"][0]["event"]["id"] == where["id"]
    shared = found["leads"][0]["shared_ids"]
    assert shared
    assert set(shared) <= set(loud["token_ids"]) & set(where["token_ids"])
    assert ties.event(fake.memory, "ann", good["id"])["before"]["id"] == violin["id"]
    fake.memory.store.link("ann", [Link(source=where["id"], target=loud["id"], kind="supersedes", weight=2.0)])
    for event, is_source in ((loud, False), (where, True)):
        [link] = ties.event(fake.memory, "ann", event["id"])["links"]
        assert (link["kind"], link["outgoing"], link["weight"]) == ("supersedes", is_source, 2.0)


def test_an_event_of_another_namespace_is_not_there(fake):
    [event] = look.events(fake.memory, "bob", EVERYTHING, 0, 1)["events"]
    with pytest.raises(SelectionError, match="holds no event"):
        ties.event(fake.memory, "nobody", event["id"])
    # The same words stand in both namespaces: what ties them in one does not show in the other.
    assert ties.event(fake.memory, "bob", event["id"])["leads"] == []


def test_a_story_has_the_words_and_only_what_its_namespace_holds(fake, decode):
    recalled = fake.ask("ann", "r1", "Where is the violin?")
    story = stories.story_in_words(stories.story(fake.memory, "ann", "r1"), decode)
    assert story["asked"] == "Where is the violin?"
    assert "".join(token["text"] for token in story["prompt"]["cue"] if token["said"]) == "Where is the violin?"
    assert [event["id"] for event in story["recalled"]] == list(recalled)
    assert all(vote["event"]["namespace"] == "ann" for vote in story["votes"])
    assert story["num_written"] == 9
    assert {"first_token", "decode", "probe", "vote"} <= story["ms"].keys()
    assert all(event["why"] for event in story["recalled"])
    [brief] = stories.requests(fake.memory, "ann", 0, 10)["requests"]
    assert (brief["id"], brief["num_recalled"], brief["num_written"]) == ("r1", len(recalled), 9)
    assert brief["first_token_ms"] == story["ms"]["first_token"]
    assert decode(brief["asked_ids"]) == story["asked"]
    assert stories.requests(fake.memory, "bob", 0, 10) == {"num_requests": 0, "requests": []}
    assert {"id": "r1"}.items() <= ties.event(fake.memory, "ann", recalled[0])["recalled_by"][0].items()
    with pytest.raises(SelectionError, match="has a record"):
        stories.story(fake.memory, "bob", "r1")
    assert look.use(fake.memory, "ann")["recalled_at"] is not None


def test_requests_come_newest_first_and_in_pages(fake):
    for number in range(3):
        fake.ask("bob", f"b{number}", "Where is it?")
    found = [stories.requests(fake.memory, "bob", start, 2) for start in (0, 2)]
    assert [[request["id"] for request in page["requests"]] for page in found] == [["b2", "b1"], ["b0"]]
    assert found[0]["num_requests"] == 3
