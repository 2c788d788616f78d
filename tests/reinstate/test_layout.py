import pytest

from tests.memory_store import MemoryStore
from tests.tiny import chat_ids, tiny_checkpoint, tiny_profile
from v14.config import Switches
from v14.memory import Memory

SYSTEM, ASK, REPLY = ("system", "Remember."), ("user", "Where is the cat?"), ("assistant", "In the garden.")


@pytest.mark.parametrize("bos", [[], [0]], ids=["no BOS", "BOS"])
@pytest.mark.parametrize(
    ("chat", "num_old"),
    [
        ([ASK], 0),
        ([SYSTEM, ASK], 1),
        ([SYSTEM, SYSTEM, ASK], 2),
        ([ASK, SYSTEM, ASK], 0),
        ([ASK, REPLY, ASK], 2),
        ([SYSTEM, ASK, REPLY, SYSTEM, ASK], 4),
    ],
    ids=lambda value: " ".join(role[0] for role, _ in value) if isinstance(value, list) else "",
)
def test_the_new_part_begins_behind_instructions_and_the_last_reply(bos, chat, num_old):
    checkpoint = tiny_checkpoint("llama")
    session = Memory.open(tiny_profile("llama"), Switches(), store=MemoryStore()).session()
    old = bos + (chat_ids(checkpoint, chat[:num_old], reply=False) if num_old else [])
    assert session.layout(bos + chat_ids(checkpoint, chat)).new_start == len(old)
