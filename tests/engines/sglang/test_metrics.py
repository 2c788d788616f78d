"""Metrics: what is counted arrives under the names that are promised, from several processes, and costs nothing when
nobody asks."""

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.memory_store import MemoryStore
from tests.test_explain import asked, told
from tests.tiny import tiny_profile
from v14.clock import PARTS
from v14.config import Switches
from v14.engines.sglang.metrics import COUNTERS, GAUGES, HISTOGRAMS, Exporter, metric_of
from v14.memory import Memory

ROOT = Path(__file__).parents[3]
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def exported():
    """Every name that a scrape shows."""
    names = {f"{name}_total" for name in COUNTERS} | set(GAUGES)
    return names | {name + end for name in HISTOGRAMS for end in ("_bucket", "_sum", "_count")}


def samples(text):
    return {(name, labels): float(value) for name, labels, value in SAMPLE.findall(text)}


@pytest.fixture
def memory():
    profile = tiny_profile("llama", recall_floor=-100.0, recall_ratio=0.0, recall_max_events=3)
    return Memory.open(profile, Switches(), store=MemoryStore())


def scrape(exporter, registry):
    exporter.refresh()
    return samples(generate_latest(registry).decode())


def test_counters_times_and_the_store_are_carried_over(memory):
    registry = CollectorRegistry()
    exporter = Exporter("m", registry)
    exporter.watch_memory(memory, lambda: 2)
    told(memory, "my house is blue", namespace="a name that is nobody's business")
    _, plan, _ = asked(memory, "r1", namespace="a name that is nobody's business")
    found = scrape(exporter, registry)
    assert found["v14_plans_total", 'model_name="m",result="recalling"'] == 1
    assert found["v14_events_recalled_total", 'model_name="m"'] == len(plan.events)
    assert found["v14_tokens_recalled_total", 'model_name="m"'] == len(plan.token_ids)
    assert found["v14_events_stored_total", 'model_name="m"'] == memory.store.stats().num_events
    assert found["v14_namespaces", 'model_name="m"'] == 1
    assert found["v14_requests_pending", 'model_name="m"'] == 2
    assert found["v14_seconds_count", 'model_name="m",part="vote"'] == 1
    assert "nobody" not in generate_latest(registry).decode()
    asked(memory, "r2", namespace="a name that is nobody's business")
    again = scrape(exporter, registry)
    assert again["v14_plans_total", 'model_name="m",result="recalling"'] == 2
    assert again["v14_events_stored_total", 'model_name="m"'] == found["v14_events_stored_total", 'model_name="m"']
    assert {name for name, _ in again if not name.endswith("_created")} <= exported()


def test_failures_and_reasons_are_labels(memory):
    registry, counters = CollectorRegistry(), Counter({"without_memory_batch": 3, "refused_401": 1, "something": 2})
    exporter = Exporter("m", registry)
    exporter.watch_memory(memory)
    exporter.watch(counters)
    with memory.guard("span"):
        raise OSError("gone")
    found = scrape(exporter, registry)
    assert found["v14_errors_total", 'concern="span",model_name="m"'] == 1
    assert found["v14_requests_without_memory_total", 'model_name="m",reason="batch"'] == 3
    assert found["v14_requests_refused_total", 'model_name="m",status="401"'] == 1
    assert found["v14_other_total", 'model_name="m",of="something"'] == 2


def test_every_counter_goes_to_a_metric_that_there_is():
    for key in ("plans_empty", "spans_kv", "failed_x", "corrupt_events", "refused_403", "whatever"):
        name, label = metric_of(key)
        assert bool(label) == bool(COUNTERS[name][1]), key


def test_a_memory_without_a_store_says_so():
    registry = CollectorRegistry()
    exporter = Exporter("m", registry)
    memory = Memory(tiny_profile("llama"), Switches(), None, "no disk")
    memory.counters["store_unavailable"] += 1
    exporter.watch_memory(memory)
    found = scrape(exporter, registry)
    assert found["v14_available", 'model_name="m"'] == 0
    assert found["v14_errors_total", 'concern="store_unavailable",model_name="m"'] == 1


PROCESS = """
from collections import Counter
from v14.engines.sglang.metrics import Exporter
exporter = Exporter("m")
exporter.watch(Counter({"without_memory_batch": %d}))
exporter.heard("vote", 0.002)
exporter.refresh()
"""


def test_several_processes_add_up_as_sglang_adds_them(tmp_path):
    """Each process writes files of its own; SGLang's HTTP process collects them."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for number in (1, 2):
        subprocess.run([sys.executable, "-c", PROCESS % number], env=environment, check=True, timeout=120)
    collect = (
        "from prometheus_client import CollectorRegistry, generate_latest, multiprocess\n"
        "registry = CollectorRegistry(); multiprocess.MultiProcessCollector(registry)\n"
        "print(generate_latest(registry).decode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", collect], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    found = samples(done.stdout)
    assert found["v14_requests_without_memory_total", 'model_name="m",reason="batch"'] == 3
    assert found["v14_seconds_count", 'model_name="m",part="vote"'] == 2


def test_without_metrics_the_library_is_not_even_imported():
    """It decides at import where its values live: SGLang has to set that up first."""
    script = (
        "import sys\n"
        "from v14.engines.sglang.hooks import TABLE\n"
        "assert 'v14.engines.sglang.metrics' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_the_dashboard_asks_for_what_there_is():
    board = json.loads((ROOT / "deploy/grafana/sglang-v14.json").read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    asked_for = set()
    for panel in panels:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            names = set(re.findall(r"\bv14_\w+", target["expr"]))
            assert names, target["expr"]
            asked_for |= names
            for label in re.findall(r"\b(\w+)=~?\"", target["expr"]):
                assert label in {"model_name", "instance", *(label for _, label in COUNTERS.values()), "part"}
    assert asked_for <= exported()
    # What is exported is worth a look.
    assert exported() - asked_for <= {"v14_other_total", "v14_seconds_sum", "v14_seconds_count"}


def test_the_documented_names_are_those_that_are_exported():
    text = (ROOT / "docs/operating.md").read_text()
    rows = set(re.findall(r"^\| `(v14_\w+)`", text, re.MULTILINE))
    assert rows == {f"{name}_total" for name in COUNTERS} | set(GAUGES) | set(HISTOGRAMS)
    assert set(re.findall(r"^\| `(\w+)` \|", text.split("| part |")[1].split("\n\n")[0], re.MULTILINE)) == set(PARTS)


def test_a_thread_that_fails_goes_on(memory, caplog):
    exporter = Exporter("m", CollectorRegistry())
    looks = []

    def look():
        looks.append(1)
        raise OSError("the store is gone")
        yield

    exporter._looks.append(look)
    exporter.start(0.01)
    for _ in range(500):
        if len(looks) > 3:
            break
        time.sleep(0.01)
    assert len(looks) > 3
    assert sum("the store is gone" in record.message for record in caplog.records) == 1


def test_arguments_are_read_as_sglang_names_them():
    from v14.engines.sglang import seams

    named = SimpleNamespace(enable_metrics=True, served_model_name=None, model_path="/m")
    assert seams.metrics_enabled(named)
    assert seams.served_name(named) == "/m"
