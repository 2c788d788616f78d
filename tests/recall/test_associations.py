"""Plans that follow associations: two and three steps, what is not led to, what shared words of a question decide."""

from dataclasses import replace

from v14.config import Options
from v14.recall.associations import NAME_MOST, behind, leads
from v14.recall.corrections import MAX_TOKENS
from v14.recall.doubt import Doubt
from v14.recall.lexicon import Lexicon
from v14.recall.plan import make_plan
from v14.recall.weighing import ALONE, APART, PIECE
from v14.recall.wording import Wording
from v14.types import Event, Vote

OPTIONS = Options(
    recall_floor=1.0,
    recall_ratio=0.1,
    recall_linked=2.0,
    recall_max_events=3,
    recall_budget_tokens=100,
)
DOUBT = Doubt(vote=1.0, names=0.0, words=1.0, missing=0.0, phrase=0.0, bar=2.2)
TEMPLATE = (1, 2)
QUESTION = (*TEMPLATE, 20, 11)


class World:
    """Events by name with their votes; eight others that share what is common."""

    def __init__(self, **told):
        """`told`: body and vote of each event, in the order they were said."""
        told |= {f"other{n}": ((10, 11, 50 + n), 0.1) for n in range(8)}
        self.votes, self.events, self.names, self.lexicon = [], {}, {}, Lexicon()
        for at, (name, (body, vote)) in enumerate(told.items()):
            event = Event(namespace="n", chat_id=name, role="user", said_at=float(at), token_ids=(*TEMPLATE, *body))
            self.events[event.id], self.names[event.id] = event, name
            self.votes.append(Vote(event_id=event.id, value=vote))
            self.lexicon.add(event.id, event.body)

    def plan(self, options=OPTIONS, prompt=QUESTION, budget=100, **given):
        ranked = sorted(self.votes, key=lambda vote: -vote.value)
        given = {"doubt": DOUBT, "wording": Wording([self.lexicon], prompt)} | given
        return make_plan(
            ranked,
            lambda ids: [self.events[id] for id in ids],
            options,
            prompt,
            budget,
            order=list(self.events).index,
            **given,
        )

    def recalled(self, **given):
        return [self.names[event.id] for event in self.plan(**given).events]


CALLED = ((20, 10, 40, 41), 1.5)
RACK = ((40, 41, 11, 30), 0.3)


def test_two_steps_and_three():
    assert World(rack=RACK, called=CALLED).recalled() == ["rack", "called"]
    world = World(rack=((40, 41, 11, 30, 33), 0.3), key=((30, 33, 12, 31), 0.4), called=CALLED)
    assert set(world.recalled()) == {"rack", "key", "called"}
    assert world.recalled()[-1] == "called"


def test_what_completes_the_question_stands_behind_what_leads_to_it():
    prompt = (*TEMPLATE, 20, 12)
    options = OPTIONS.model_copy(update={"recall_ratio": 0.9})
    world = World(rack=((40, 41, 12, 30), 0.0), called=CALLED)
    assert world.recalled(prompt=prompt, options=options) == ["called", "rack"]


def test_the_plan_says_what_each_event_is_there_for():
    plan = World(rack=RACK, called=CALLED).plan()
    assert plan.why[1].startswith("vote 1.500, shares ")
    assert plan.why[0].startswith("linked with " + plan.events[1].id[:15])
    assert "1 more that these lead to" in plan.reason


def test_nothing_found_leads_nowhere():
    world = World(rack=RACK, called=((20, 10, 40, 41), 0.0))
    assert world.recalled() == [], "what it shares with the question does not recall by itself"


def test_links_can_be_turned_off_and_keep_to_the_budget():
    world = World(rack=RACK, called=CALLED)
    assert world.recalled(options=OPTIONS.model_copy(update={"recall_max_linked": 0})) == ["called"]
    assert world.recalled(budget=11) == ["called"]
    assert world.recalled(budget=12) == ["rack", "called"]


def test_what_stands_in_the_prompt_or_is_gone_is_not_led_to():
    world = World(rack=RACK, called=CALLED)
    assert world.recalled(prompt=(*QUESTION, *TEMPLATE, 40, 41, 11, 30)) == ["called"]
    gone = next(id for id, name in world.names.items() if name == "rack")
    del world.events[gone]
    assert world.recalled() == ["called"]


def test_shared_words_of_the_question_decide_between_votes_that_are_close():
    """20 and 21 are what was asked about; the sibling shares the words for the kind only."""
    world = World(sibling=((22, 23, 10, 34), 1.3), right=((20, 21, 10, 35), 1.2))
    assert world.recalled(prompt=(*TEMPLATE, 20, 21, 10))[-1] == "right"
    weak = World(sibling=((22, 23, 10, 34), 1.3), right=((20, 21, 10, 35), 0.9))
    assert weak.recalled(prompt=(*TEMPLATE, 20, 21, 10))[-1] == "right", "something else passed the floor"


def test_a_plan_that_is_not_sure_brings_nothing():
    """A question about somebody never spoken of: a vote for what was told of others, and nothing rare in common."""
    world = World(other=((10, 11, 60, 61), 1.2), another=((10, 11, 63, 64), 1.1))
    assert world.recalled(prompt=(*TEMPLATE, 10, 11, 90, 91)) == []
    assert "not sure" in world.plan(prompt=(*TEMPLATE, 10, 11, 90, 91)).reason
    assert world.recalled(prompt=(*TEMPLATE, 10, 11, 60))[-1] == "other"
    unsure = OPTIONS.model_copy(update={"recall_sure": -2.0})
    assert world.recalled(prompt=(*TEMPLATE, 10, 11, 90, 91), options=unsure)[-1] == "other"
    assert world.recalled(prompt=(*TEMPLATE, 10, 11, 90, 91), doubt=None)[-1] == "other", "votes decide alone"


def test_the_end_of_a_question_tells_which_event_is_meant():
    """Two with the same words and votes; only where the doubt weighs it is the end of the question looked at."""
    world = World(first=((20, 11, 34), 1.2), second=((20, 11, 35), 1.2))
    asked = []

    def late(meant):
        def given(ids):
            asked.append(set(map(world.names.get, ids)))
            return {event_id: (1.0 if world.names[event_id] == meant else 0.1,) for event_id in ids}

        return given

    doubt = replace(DOUBT, late=(9.0,), bar=9.0)
    for meant in ("first", "second"):
        plan = world.plan(doubt=doubt, late=late(meant), options=OPTIONS.model_copy(update={"recall_max_events": 1}))
        assert world.names[plan.events[0].id] == meant
    assert all({"first", "second"} <= each for each in asked)
    assert world.recalled(doubt=doubt) == [], "without it nothing is sure"
    asked.clear()
    world.recalled(late=late("first"))
    assert not asked


def test_a_piece_of_a_document_needs_no_name_but_a_vote(monkeypatch):
    """Words decide which piece it is, and a statement with the same vote brings nothing."""
    monkeypatch.setattr("v14.recall.weighing.FEW_EVENTS", 0)
    piece = tuple(range(100, 100 + MAX_TOKENS))
    world = World(piece=((*piece, 60), PIECE), other=((*piece[::-1], 61), PIECE))
    strict = replace(DOUBT, bar=9.0)
    assert world.recalled(prompt=(*TEMPLATE, 60, 90), doubt=strict) == ["piece"]
    assert World(piece=((*piece, 60), 1.0)).recalled(prompt=(*TEMPLATE, 60, 90), doubt=strict) == []
    statement = World(statement=((10, 11, 60), PIECE))
    assert statement.recalled(prompt=(*TEMPLATE, 60, 90), doubt=strict) == []


def test_of_few_events_a_vote_that_no_other_comes_near_is_enough(monkeypatch):
    strict, prompt = replace(DOUBT, bar=9.0), (*TEMPLATE, 60, 90)
    alone = World(statement=((10, 11, 60), ALONE), other=((10, 11, 61), ALONE - APART))
    assert alone.recalled(prompt=prompt, doubt=strict)[-1] == "statement"
    assert World(statement=((10, 11, 60), ALONE - 0.1)).recalled(prompt=prompt, doubt=strict) == []
    near = World(statement=((10, 11, 60), ALONE), other=((10, 11, 61), ALONE - APART + 0.1))
    assert near.recalled(prompt=prompt, doubt=strict) == []
    monkeypatch.setattr("v14.recall.weighing.FEW_EVENTS", 0)
    assert alone.recalled(prompt=prompt, doubt=strict) == []


def test_more_of_a_name_leads_further_and_so_does_what_the_question_leaves_open():
    lexicon = Lexicon()
    names = {"short": (40,), "long": (41, 42, 43), "a": (9, 40, 8), "b": (7, 41, 42, 43), "c": (41, 6, 42, 5)}
    for name, body in names.items():
        lexicon.add(name, body)
    wording = Wording([lexicon], ())
    shared = {(lead.source, lead.event_id): lead.shared for lead in leads({"short": 0.0, "long": 0.0}, wording)}
    assert set(shared) == {("short", "a"), ("long", "b"), ("long", "c")}
    assert shared["long", "b"] > shared["long", "c"]
    assert all(lead.strength <= NAME_MOST for lead in leads({"short": 0.0, "long": 0.0}, wording))
    asked = {lead.event_id: lead.strength for lead in leads({"long": 0.0}, Wording([lexicon], (6,)))}
    assert asked["c"] > next(lead.strength for lead in leads({"long": 0.0}, wording) if lead.event_id == "c")


def test_what_has_less_of_the_question_leads_less():
    lexicon = Lexicon()
    for name, body in {"asked": (20, 40), "a": (40, 8), "beside": (50,), "b": (50, 9)}.items():
        lexicon.add(name, body)
    wording = Wording([lexicon], (20,))
    first, second = leads(behind(["asked", "beside"], wording), wording)
    assert (first.source, second.source) == ("asked", "beside")
    assert first.shared == second.shared


def test_earlier_questions_stand_in_no_plan():
    world = World(asked=((20, 21, 10, 12), 1.4), fact=((20, 21, 10, 35), 1.3))
    prompt = (*TEMPLATE, 20, 21, 11)
    asking = next(id for id, name in world.names.items() if name == "asked")
    assert set(world.recalled(prompt=prompt)) == {"asked", "fact"}
    assert world.recalled(prompt=prompt, asks=lambda event: event.id == asking) == ["fact"]
    assert world.recalled(prompt=prompt, asks=lambda event: True) == []


def test_what_shares_a_rare_name_is_weighed_whatever_its_vote():
    world = World(found=((20, 10, 40), 1.2), named=((20, 21, 10, 35), 0.2))
    ranked = [vote for vote in world.votes if vote.value > 1]
    events = world.events

    def votes(ids):
        return {vote.event_id: vote.value for vote in world.votes if vote.event_id in ids}

    prompt = (*TEMPLATE, 20, 21, 10)
    wording = Wording([world.lexicon], prompt)
    plan = make_plan(
        ranked,
        lambda ids: [events[id] for id in ids],
        OPTIONS,
        prompt,
        100,
        wording=wording,
        votes=votes,
        doubt=DOUBT,
    )
    assert world.names[plan.events[-1].id] == "named"
