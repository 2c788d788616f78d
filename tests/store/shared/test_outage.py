"""A model goes on writing whatever becomes of the shared store under it, and remembers again when that is back."""

from pathlib import Path
from typing import Any

import pytest

from tests.hf import greedy, native, remembering
from tests.store.contract.places import Shared
from tests.store.contract.test_contract import wait_until
from tests.tiny import chat_ids, tiny_v14
from v14.errors import StoreError

FACT = ("user", "My cat is blue and the letter is in the garden.")
QUESTION = ("user", "Where is the paper story of summer?")
NUM_TOLD = 4

pytestmark = [pytest.mark.shared, pytest.mark.slow]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_v14("llama", tmp_path_factory.mktemp("llama") / "model", write_generated=False)


@pytest.mark.parametrize("lost", ["postgres", "objects", "both"])
def test_no_request_fails_and_what_is_told_meanwhile_is_kept(shared: Shared, directory: Path, lost: str) -> None:
    plain = native(directory)
    cables = {"postgres": [shared.postgres], "objects": [shared.objects], "both": [shared.postgres, shared.objects]}
    url = f"{shared.home.conninfo}?segments={shared.home.segments}&endpoint={shared.home.endpoint}"
    with remembering(directory, url) as model:
        greedy(model, chat_ids(directory, [FACT]))
        recalling = greedy(model, chat_ids(directory, [QUESTION]), v14_memory="read")
        assert model.v14_last.plan.events
        assert model.v14.store.flush(30)
        for cable in cables[lost]:
            cable.cut()
        for number in range(NUM_TOLD):
            ids = chat_ids(directory, [("user", f"The train of morning {number} is green.")])
            written = greedy(model, ids)
            assert lost == "objects" or written == greedy(plain, ids), "without its catalog it is the plain model"
        for cable in cables[lost]:
            cable.mend()
        wait_until(lambda: is_back(model), 60)
        assert model.v14.store.stats().num_events == 1 + NUM_TOLD
        assert model.v14.store.stats().num_failed_writes == 0
        assert model.v14.store.verify() == []
        for event in model.v14.store.events("default")[1:]:
            model.v14.store.forget("default", [event.id])
        assert greedy(model, chat_ids(directory, [QUESTION]), v14_memory="read") == recalling


def is_back(model: Any) -> bool:
    """Whether everything is written, and can be read: servers that did not answer are left alone for a while."""
    store = model.v14.store
    try:
        return store.stats().num_pending == 0 and bool(store.trace("default", store.events("default")[0].id))
    except StoreError:
        return False
