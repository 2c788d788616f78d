"""What ranks say to each other: whatever fails on one is raised on all, and what comes next finds them in step."""

from contextlib import suppress

import pytest
import torch
from pydantic import TypeAdapter

from tests.memory_store import MemoryStore
from tests.ranks import on_ranks
from tests.tiny import chat_ids, tiny_checkpoint, tiny_profile
from v14.config import Switches
from v14.engines.sglang.ranks import RankError, Ranks
from v14.engines.sglang.telling import DECISION, OPENING, Decision, Opening, ToldSession
from v14.memory import Memory, Session
from v14.reinstate.layout import Layout
from v14.reinstate.transcripts import Placement

WORD = TypeAdapter(str)
DTYPES = (torch.float32, torch.bfloat16, torch.float8_e4m3fn)


def fail():
    raise ValueError("broken")


def in_step(ranks):
    """Whether all ranks come here at the same time: what one says, all hear."""
    return ranks.told(WORD, lambda: "here")


def test_the_first_rank_tells_and_only_it_decides(tmp_path):
    def function(ranks):
        return ranks.told(WORD, lambda: f"rank {ranks.rank} says ümläut"), ranks.told(WORD, lambda: "")

    assert on_ranks(3, tmp_path / "meeting", function) == [("rank 0 says ümläut", "")] * 3


@pytest.mark.parametrize("failing", [0, 1])
def test_what_fails_on_one_rank_is_raised_on_all(tmp_path, failing):
    def works(ranks):
        return fail() if ranks.rank == failing else [torch.zeros(2)]

    def function(ranks):
        raised = []
        for attempt in (
            lambda: ranks.agreed(lambda: works(ranks)),
            lambda: ranks.gathered(lambda: works(ranks)),
            lambda: ranks.told(WORD, fail),
            lambda: ranks.scattered(fail),
        ):
            with suppress(ValueError, RankError):
                attempt()
                continue
            raised.append(in_step(ranks))
        return raised

    assert on_ranks(2, tmp_path / "meeting", function) == [["here"] * 4] * 2


def test_the_error_is_the_first_ranks_own(tmp_path):
    first, second = on_ranks(2, tmp_path / "meeting", lambda ranks: ranks.told(WORD, fail))
    assert isinstance(first, ValueError)
    assert isinstance(second, RankError)
    assert "ValueError: broken" in str(second)


def test_tensors_of_other_lengths_come_together_and_are_shared_out(tmp_path):
    def made(rank, dtype):
        return (torch.arange(rank * 6).reshape(rank * 2, 3) + 10 * rank).to(dtype)

    def function(ranks):
        found = ranks.gathered(lambda: [made(ranks.rank, dtype) for dtype in DTYPES])
        back = ranks.scattered(lambda: [[made(rank + 1, torch.float32)[:2], torch.zeros(0, 4)] for rank in range(3)])
        return found and [[part.float().tolist() for part in parts] for parts in found], [one.tolist() for one in back]

    results = on_ranks(3, tmp_path / "meeting", function)
    whole = [[made(rank, dtype).float().tolist() for dtype in DTYPES] for rank in range(3)]
    assert [found for found, _ in results] == [whole, None, None]
    assert [back[0] for _, back in results] == [made(rank + 1, torch.float32)[:2].tolist() for rank in range(3)]


def test_one_rank_says_nothing():
    ranks = Ranks()
    assert ranks.leads
    assert ranks.told(WORD, lambda: "alone") == "alone"
    assert ranks.agreed(lambda: 3) == 3
    [mine] = ranks.scattered(lambda: [[torch.ones(2)]])
    assert mine.tolist() == [1, 1]
    [[found]] = ranks.gathered(lambda: [torch.ones(2)])
    assert found.tolist() == [1, 1]
    with pytest.raises(ValueError, match="broken"):
        ranks.told(WORD, fail)


@pytest.fixture
def told_and_asked():
    """A memory, an event of it, and token ids of a prompt."""
    memory = Memory.open(tiny_profile("llama"), Switches(), store=MemoryStore())
    told = chat_ids(tiny_checkpoint("llama"), [("user", "The garden door is blue.")])
    [cut] = memory.session("a").unknown(told)
    return memory, cut.event, chat_ids(tiny_checkpoint("llama"), [("user", "Which colour?")])


def test_messages_arrive_as_they_were_sent(told_and_asked):
    _, event, _ = told_and_asked
    placement = Placement(index=3, event_ids=(event.id,))
    layout = Layout(new_start=3, placements=(placement,))
    opening = Opening(layout=layout, placements=(placement,), events=(event,), looks=True)
    assert OPENING.validate_json(OPENING.dump_json(opening)) == opening
    decision = Decision(report={"votes": [{"value": -0.1}], "why": None}, placements=(placement,), events=(event,))
    assert DECISION.validate_json(DECISION.dump_json(decision)) == decision
    assert decision.recalls
    assert not Decision(report={}).recalls


def test_a_told_session_reads_as_the_one_with_a_store(told_and_asked):
    memory, event, asked = told_and_asked
    placement = Placement(index=3, event_ids=(event.id,))
    empty = Memory(memory.profile, memory.switches, None, "somebody else has it")
    told = ToldSession(empty, "a")
    with pytest.raises(KeyError):
        told.events(placement)
    told.learn([event])
    assert list(told.events(placement)) == [event]
    session = Session(memory, "a")
    num_layers = len(memory.profile.voters.layers)
    memory.space("a").add(event, torch.zeros(num_layers, event.num_tokens, 2, 16))
    assert told.sequence(asked, [placement]) == session.sequence(asked, [placement])
    told.record(asked, [placement])
    assert not empty.transcripts.find("a", asked, [len(asked)])
