"""When what is stored is on the disk: with every commit, gathered, or whenever the operating system likes."""

import os
import time

import pytest

from tests.store.conftest import Opener
from tests.store.making import made
from tests.store.test_failing import readable, wait_until
from v14.config import Switches
from v14.errors import OptionError
from v14.store import core
from v14.store.keeping import Keeping


def test_gathered_commits(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "GATHER_S", 0.4)
    store = opened(keeping=Keeping(sync="batch"))
    started = time.monotonic()
    for number in range(5):
        store.put([made(number)])
        time.sleep(0.02)
    assert readable(store, range(5)), "readable at once all the same"
    wait_until(lambda: store.stats().num_pending == 0)
    assert time.monotonic() - started > 0.3
    assert len(list((store.path / "segments").iterdir())) == 1, "what nobody waited for is one commit"
    store.put([made(5)])
    started = time.monotonic()
    assert store.flush(10)
    assert time.monotonic() - started < 0.3, "who waits is not kept waiting"
    bound = made(6)[1].num_bytes
    store.close()
    store = opened(keeping=Keeping(sync="batch"), batch_bytes=bound)
    store.put([made(6)])
    wait_until(lambda: store.stats().num_pending == 0, 0.3)


@pytest.mark.parametrize(("sync", "syncs"), [("always", True), ("batch", True), ("off", False)])
def test_syncs(opened: Opener, monkeypatch: pytest.MonkeyPatch, sync, syncs: bool) -> None:
    store = opened(keeping=Keeping(sync=sync))
    called: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: called.append(descriptor) or fsync(descriptor))
    store.put([made(0)])
    assert store.flush(10)
    assert bool(called) == syncs
    (level,) = store._catalog._writer.execute("PRAGMA synchronous").fetchone()
    assert level == (2 if syncs else 0)


def test_switch() -> None:
    assert Switches.read({}).fsync == "always"
    assert Switches.read({"SGLANG_V14_FSYNC": "batch"}).fsync == "batch"
    with pytest.raises(OptionError, match="SGLANG_V14_FSYNC='sometimes' is none of always, batch, off"):
        Switches.read({"SGLANG_V14_FSYNC": "sometimes"})
