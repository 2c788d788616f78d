"""Choosing voters on invented measurements: what must be found, and what must be admitted."""

import pytest
import torch

from v14.recall.votes import votes
from v14.types import Cue, Event
from v14.upgrade.calibration import Question
from v14.upgrade.choose import choose
from v14.upgrade.measure import Measurement

NUM_FACTS, NUM_OTHER, NUM_STRANGERS, NUM_EVENTS, NUM_HEADS = 40, 30, 20, 60, 40
KIND = 7


def invented(signal: float, *, look_alike: float = 0.0, seed: int = 0) -> Measurement:
    """Heads 3 and 17 attend to the right event by `signal`; they and head 8 to an impostor by `look_alike`.

    Questions name what they ask for, a stranger's name stands in no event.
    """
    generator = torch.Generator().manual_seed(seed)
    num = NUM_FACTS + NUM_OTHER + NUM_STRANGERS
    null = 0.1 + 0.05 * torch.rand(NUM_EVENTS, NUM_HEADS, generator=generator)
    shares = (null + 0.03 * torch.randn(num, NUM_EVENTS, NUM_HEADS, generator=generator)).clamp(0, 1)
    asked = torch.tensor([*range(NUM_FACTS), *[-1] * (NUM_OTHER + NUM_STRANGERS)])
    facts = torch.tensor([*range(NUM_FACTS), *[-1] * (NUM_EVENTS - NUM_FACTS)])
    for question in range(num):
        if question < NUM_FACTS:
            shares[question, question, [3, 17]] += signal
        shares[question, NUM_FACTS + question % 7, [3, 8, 17]] += look_alike
    return Measurement(
        heads=tuple((place // 4, place % 4) for place in range(NUM_HEADS)),
        sinks=tuple(float(place) for place in range(NUM_HEADS)),
        null=Cue(
            queries=torch.randn(NUM_HEADS, 3, 8, generator=generator),
            context_lse=torch.randn(NUM_HEADS, 3, generator=generator),
        ),
        events=tuple(
            Event(
                namespace="n",
                chat_id="c",
                role="user",
                said_at=float(n),
                token_ids=(KIND, 1000 + n, 2000 + n, 3000 + n),
            )
            for n in range(NUM_EVENTS)
        ),
        questions=tuple(
            Question(text="", fact=None, held_out=False, stranger=n >= NUM_FACTS + NUM_OTHER) for n in range(num)
        ),
        prompts=tuple((KIND, 1000 + n, 2000 + n) if n < NUM_FACTS else (KIND, 5000 + n, 6000 + n) for n in range(num)),
        shares=shares.clamp(0, 1),
        null_shares=null,
        facts=facts,
        asked=asked,
        allowed=torch.ones(num, NUM_EVENTS, dtype=torch.bool),
        held_out=torch.arange(num) % 2 == 1,
    )


def test_heads_that_see_are_found():
    measurement = invented(0.5)
    choice = choose(measurement)
    strongest = sorted(zip(choice.voters.weights, choice.voters.heads, strict=True), reverse=True)[:2]
    assert {head for _, head in strongest} == {(0, 3), (4, 1)}
    assert choice.voters.sinks == tuple(float(layer * 4 + head) for layer, head in choice.voters.heads)
    assert choice.separation.good
    assert choice.separation.top1 > 0.95
    assert choice.separation.recalling <= 0.05
    assert choice.floor == pytest.approx(1.0)


def test_a_head_that_sees_only_look_alikes_is_subtracted():
    choice = choose(invented(0.5, look_alike=0.5))
    weights = dict(zip(choice.voters.heads, choice.voters.weights, strict=True))
    assert weights[2, 0] < 0 < weights[0, 3]
    assert choice.separation.top1 > 0.9


def test_the_delivered_voters_vote_as_measured():
    """Weights, floor and null cue belong together: with the voters as written, right events pass the floor."""
    measurement = invented(0.5)
    choice = choose(measurement)
    places = torch.tensor([measurement.heads.index(head) for head in choice.voters.heads])
    assert torch.equal(choice.voters.null.queries, measurement.null.queries[places])
    assert list(choice.voters.heads) == sorted(choice.voters.heads)
    for question in range(NUM_FACTS):
        found = votes(measurement.shares[question][:, places], measurement.null_shares[:, places], choice.voters)
        assert found.argmax() == question
        assert found[question] > choice.floor


def test_voters_that_do_not_separate_say_so_and_recall_little():
    measurement = invented(0.0)
    choice = choose(measurement)
    assert not choice.separation.good
    assert choice.separation.auc < 0.9
    assert choice.separation.recalling == 0


def test_what_stands_in_the_prompt_counts_for_nothing():
    """An event that may not be recalled neither trains the weights nor sets the floor."""
    measurement = invented(0.5)
    spoiled = measurement.shares.clone()
    spoiled[:, -1] = torch.rand(len(spoiled), NUM_HEADS, generator=torch.Generator().manual_seed(1))
    allowed = measurement.allowed.clone()
    allowed[:, -1] = False
    fields = {**vars(measurement), "shares": spoiled, "allowed": allowed}
    assert choose(Measurement(**fields)).separation.top1 > 0.95
