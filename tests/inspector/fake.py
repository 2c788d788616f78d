"""The inspector's routes and page in front of a memory on disk, without an engine: what a browser gets, in a second."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import torch
import uvicorn
from fastapi import FastAPI

from tests.tiny import chat_ids, tiny_checkpoint, tiny_profile, tokenizer_of
from v14.check.server import free_port
from v14.config import Switches
from v14.engines.sglang import control
from v14.engines.sglang.ranks import Ranks
from v14.engines.sglang.routes import router
from v14.explain import Standing
from v14.inspector.serve import page
from v14.memory import Memory
from v14.namespaces import Namespaces
from v14.store.directory import DirectoryStore
from v14.types import Cue, Trace


class Fake:
    """A memory that is told things, and an application that shows them."""

    def __init__(self, home: Path, namespaces: Namespaces | None = None, **options) -> None:
        options = {"recall_floor": -100.0, "recall_ratio": 0.0, "recall_max_events": 3} | options
        profile = tiny_profile("llama", **options)
        store = DirectoryStore.open(home, profile.weights_id, fsync=False)
        self.memory = Memory.open(profile, Switches(), store=store)
        self.namespaces = namespaces or Namespaces("open")
        self._noise = torch.Generator().manual_seed(5)
        self.is_off = False

    def tell(
        self, namespace: str, *turns: tuple[str, str], said_at: float | None = None, chat_id: str = ""
    ) -> list[str]:
        """Store a chat's turns, given as (role, words); returns the ids of the events."""
        ids = chat_ids(tiny_checkpoint("llama"), [("system", "the"), *turns], reply=False)
        at = time.time() if said_at is None else said_at
        cuts = self.memory.cutter.cut(ids, namespace=namespace, said_at=at, chat_id=chat_id)
        self.memory.store.put([(cut.event, self._trace(cut.event.num_tokens)) for cut in cuts])
        return [cut.event.id for cut in cuts]

    def ask(self, namespace: str, request_id: str, words: str) -> Sequence[str]:
        """Plan for a question as if it had been read with arbitrary queries; ids of the events recalled."""
        voters, dim = self.memory.profile.voters, self.memory.profile.geometry.head_dim
        ids = chat_ids(tiny_checkpoint("llama"), [("system", "the"), ("user", words)])
        session = self.memory.session(namespace, request_id=request_id)
        layout = session.layout(ids)
        num_cue = len(ids) - layout.new_start
        cue = Cue(
            queries=torch.randn(len(voters.heads), num_cue, dim, generator=self._noise),
            context_lse=torch.full((len(voters.heads), num_cue), 2.0),
        )
        plan = session.plan(cue, ids, layout)
        session.record(ids, session.placed(layout, plan))
        recalled = tuple(event.id for event in plan.events)
        session.account.stood(
            Standing(
                index=layout.new_start,
                position=layout.new_start,
                num_tokens=len(plan.token_ids),
                event_ids=recalled,
                way="kv",
            )
        )
        session.account.clock.add("probe", 0.012)
        session.account.spoke()
        session.account.ended(9)
        return recalled

    def app(self) -> FastAPI:
        """What the server's application has of the memory's."""
        engine = SimpleNamespace(memory=self.memory, settle=lambda *namespaces: None, ranks=Ranks())

        async def ask(what, **arguments):
            text = control.order(what, **arguments)
            if what in ("forget", "finish"):
                return self._forget(what, **arguments)
            return control.answer(None if self.is_off else engine, text)

        app = FastAPI()
        tokenizer = tokenizer_of(tiny_checkpoint("llama"))
        app.include_router(router(SimpleNamespace(namespaces=self.namespaces), ask, tokenizer.decode))
        app.include_router(page())
        return app

    def _forget(self, what, namespace, selection=None, requested_by="", ids=()):
        """`Eraser` without an engine to erase from."""
        if what == "finish":
            return {"in_flight": 0}
        ids = [
            event["id"]
            for event in control.look.events(self.memory, namespace, control._selection(selection), 0, 10**6)["events"]
        ]
        return {"forgotten": self.memory.forget(namespace, ids, requested_by=requested_by), "ids": ids, "in_flight": 0}

    def _trace(self, num_tokens: int) -> Trace:
        geometry = self.memory.profile.geometry
        shape = len(geometry.layers), num_tokens, geometry.num_kv_heads, geometry.head_dim
        return Trace(keys=torch.randn(shape, generator=self._noise), values=torch.randn(shape, generator=self._noise))


@contextmanager
def serving(fake: Fake) -> Iterator[str]:
    """The address of the running application, with `/v14/` behind it."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(fake.app(), host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/v14/"
    finally:
        server.should_exit = True
        thread.join(10)
        fake.memory.close()
