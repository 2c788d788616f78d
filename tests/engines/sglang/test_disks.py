"""A real server whose disk says no: every request is served, what is new waits in memory and is stored afterwards."""

import re
import time
import urllib.request
from contextlib import contextmanager

import pytest

from tests import disks
from tests.counts import counted
from tests.serving import generate, serving, turn
from tests.tiny import SHAPE, tiny_checkpoint, tiny_profile, tiny_v14, turns_of, v14_of, write_checkpoint
from v14.store.core import MAX_FAILED_BYTES
from v14.store.view import namespaces_on_disk

pytestmark = [pytest.mark.engine, pytest.mark.slow]

FAMILY = "llama"
RESUME_S = 120
"""Tries to write come at pauses that grow to half a minute."""
NUM_REQUESTS = 12
WIDE = {"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 256}
"""Heads of a model whose traces are large: 48 KiB a token."""


class Talk:
    """What one namespace was told, how many requests were served, how long the slowest took; and, in `files`, where
    the store's files are even while the server does not find them."""

    def __init__(self, server, checkpoint, files):
        self.server, self.files = server, files
        self.num_served, self.num_recalling, self.longest_s = 0, 0, 0.0
        self._checkpoint = checkpoint
        self._opening = list(turns_of(checkpoint).openings["assistant"])

    def tell(self, num_requests=NUM_REQUESTS, num_tokens=60):
        """Each prompt is one more event of the namespace."""
        for _ in range(num_requests):
            self.num_served += 1
            prompt = turn(self._checkpoint, "user", num_tokens, seed=self.num_served) + self._opening
            begun = time.monotonic()
            reply = generate(self.server, prompt)
            self.longest_s = max(self.longest_s, time.monotonic() - begun)
            assert len(reply.get("output_ids", ())) == 4, reply
            self.num_recalling += bool(reply["meta_info"]["v14"]["recalled"])

    def wait_for(self, timeout_s=RESUME_S, **wanted):
        """The memory's gauges, as Prometheus gets them, once they say what is wanted."""
        deadline = time.monotonic() + timeout_s
        while True:
            with urllib.request.urlopen(self.server.url + "/metrics", timeout=60) as reply:
                lines = re.findall(r"^v14_(events\w*){[^}]*} ([0-9.e+]+)$", reply.read().decode(), re.MULTILINE)
            figures = {name: int(float(value)) for name, value in lines}
            if all(figures[name] == value for name, value in wanted.items()):
                return figures
            assert time.monotonic() < deadline, f"{figures}, wanted {wanted}\n{self.server.log_tail()}"
            time.sleep(0.5)

    def said(self):
        """For the line that a test prints."""
        return (
            f"{self.num_served} requests, 0 failed, {self.num_recalling} with recalled events, "
            f"the slowest {self.longest_s:.2f} s"
        )

    def goes_on(self, what, disturb, mend):
        """Tell before, while and after the disk is disturbed: everything is stored in the end."""
        self.longest_s, told = 0.0, self.num_served
        self.tell()
        told += NUM_REQUESTS
        self.wait_for(events=told, events_pending=0)
        disturb()
        self.tell()
        self.wait_for(events=told + NUM_REQUESTS, events_pending=NUM_REQUESTS, events_lost=0)
        assert self.num_stored() == told
        mend()
        begun = time.monotonic()
        self.tell()
        self.wait_for(events=told + 2 * NUM_REQUESTS, events_pending=0, events_lost=0, events_set_aside=0)
        resumed_s = time.monotonic() - begun
        assert self.num_stored() == told + 2 * NUM_REQUESTS
        assert self.server.tracebacks() == 0, self.server.log_tail()
        counted(
            f"{what}: {self.said()}; {NUM_REQUESTS} events waited, all stored {resumed_s:.1f} s after it was mended"
        )

    def num_stored(self):
        return namespaces_on_disk(self.files, tiny_profile(FAMILY).weights_id).get("n", 0)


@contextmanager
def talking(model_dir, checkpoint, home, *arguments, files=None, **environment):
    with serving(model_dir, home, "--enable-metrics", *arguments, **environment) as server:
        yield Talk(server, checkpoint, files or home)


def options():
    return {"recall_max_events": 4, "write_generated": False}


def test_a_slow_disk(tmp_path):
    """Nothing fails; what is told meanwhile waits for its commit, which no request does."""
    home = tmp_path / "memory"
    brake = disks.Brake.build(home, tmp_path)
    model_dir = tiny_v14(FAMILY, tmp_path / "model", **options())
    with talking(model_dir, tiny_checkpoint(FAMILY), home, SGLANG_V14_FSYNC="always", **brake.environment) as talk:
        talk.tell()
        talk.wait_for(events=NUM_REQUESTS, events_pending=0)
        quick_s, talk.longest_s = talk.longest_s, 0.0
        brake.on()
        talk.tell()
        slow_s = talk.longest_s
        waiting = talk.wait_for(events=2 * NUM_REQUESTS, events_lost=0)
        assert waiting["events_pending"] > NUM_REQUESTS // 2
        talk.wait_for(600, events=2 * NUM_REQUESTS, events_pending=0, events_lost=0)
        brake.off()
        talk.tell()
        talk.wait_for(events=3 * NUM_REQUESTS, events_pending=0, events_lost=0)
        assert talk.num_stored() == 3 * NUM_REQUESTS
        assert talk.server.tracebacks() == 0, talk.server.log_tail()
        counted(
            f"a disk of {disks.SLOW_WRITE_S:g} s a write: {talk.said()}; the slowest before {quick_s:.2f} s, "
            f"meanwhile {slow_s:.2f} s; {waiting['events_pending']} events waited, all stored while it was slow"
        )
        assert slow_s < max(disks.SLOW_WRITE_S, 3 * quick_s)


def test_what_memory_does_not_hold_is_lost_and_counted(tmp_path):
    """A full disk for longer than what waits fits in memory: the oldest are lost, by number, and the rest is stored."""
    if reason := disks.missing():
        pytest.skip(reason)
    import torch
    import transformers

    torch.manual_seed(14)
    checkpoint = tmp_path / "checkpoint"
    write_checkpoint(transformers.LlamaForCausalLM(transformers.LlamaConfig(**(SHAPE | WIDE))).float(), checkpoint)
    model_dir = v14_of(checkpoint, tmp_path / "model", **options())
    event_bytes = 2 * SHAPE["num_hidden_layers"] * WIDE["num_key_value_heads"] * WIDE["head_dim"] * 4 * 120
    num_fitting = MAX_FAILED_BYTES // event_bytes
    num_requests = num_fitting + NUM_REQUESTS
    with (
        disks.mounted(tmp_path, "400m") as disk,
        talking(model_dir, checkpoint, disk.path, "--max-total-tokens", "4096") as talk,
    ):
        disk.fill()
        talk.tell(num_requests, num_tokens=120)
        waiting = talk.wait_for(events_pending=num_fitting, events_lost=NUM_REQUESTS, events=num_fitting)
        disk.free()
        talk.wait_for(events_pending=0, events_lost=NUM_REQUESTS, events=num_fitting)
        talk.tell()
        talk.wait_for(events_pending=0, events_lost=NUM_REQUESTS, events=num_fitting + NUM_REQUESTS)
        assert talk.server.tracebacks() == 0, talk.server.log_tail()
        assert "are being lost, 1 now" in talk.server.log.read_text()
        counted(
            f"full for longer: {talk.said()}; {waiting['events_pending']} events waited, "
            f"{waiting['events_lost']} were lost, as the counter says"
        )


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    if reason := disks.missing():
        pytest.skip(reason)
    with disks.mounted(tmp_path_factory.mktemp("mounted"), "16m") as mounted:
        yield mounted


@pytest.fixture(scope="module")
def talk(disk, tmp_path_factory):
    """One server on the disk for the tests that leave it as it was; those with a server of their own come before."""
    model_dir = tiny_v14(FAMILY, tmp_path_factory.mktemp("model") / "v14", **options())
    checkpoint = tiny_checkpoint(FAMILY)
    with talking(model_dir, checkpoint, disk.path, files=disk.aside, SGLANG_V14_FSYNC="always") as running:
        yield running


def test_a_full_disk(talk, disk):
    talk.goes_on("full disk", disk.fill, disk.free)


def test_a_disk_that_turns_read_only(talk, disk):
    talk.goes_on("read-only disk", disk.turn_read_only, disk.turn_writable)


def test_a_disk_that_is_taken_away(talk, disk):
    talk.goes_on("removed disk", disk.take_away, disk.put_back)
