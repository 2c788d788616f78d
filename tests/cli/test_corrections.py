"""`v14 store links` and `unlink`."""

import json

import torch

from tests.cli.test_cli import WEIGHTS, fill, home, invoke
from v14.types import Event, Link, Trace

__all__ = ["home"]


def test_links_are_shown_and_taken_out(home):
    store = fill(home)
    later = Event(namespace="anna", chat_id="c", role="user", said_at=99.0, token_ids=(7, 8, 9))
    (earlier,) = store.events("anna")
    tensor = torch.zeros_like(store.trace("anna", earlier.id).keys[:, :1]).repeat(1, 3, 1, 1)
    store.put([(later, Trace(keys=tensor, values=tensor))])
    store.link("anna", [Link(source=later.id, target=earlier.id, kind="supersedes", weight=0.75)])
    store.flush()
    store.close()
    (row,) = json.loads(invoke("store", "links", "--json").stdout)
    assert row == {
        "weights_id": WEIGHTS, "namespace": "anna", "source": later.id, "target": earlier.id, "kind": "supersedes",
        "weight": 0.75,
    }  # fmt: skip
    assert "0.75" in invoke("store", "links", "--namespace", "anna").stdout
    assert json.loads(invoke("store", "links", "--namespace", "ben", "--json").stdout) == []
    taken = invoke("store", "unlink", earlier.id, later.id, "--namespace", "anna", "--json")
    assert json.loads(taken.stdout) == {"unlinked": 0}, "the other way round there is none"
    assert "1 links" in invoke("store", "unlink", later.id, earlier.id, "--namespace", "anna").stdout
    assert json.loads(invoke("store", "links", "--json").stdout) == []
