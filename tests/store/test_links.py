"""Links in the catalog: idempotent, the larger weight wins, gone with either end."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.store.conftest import Opener
from tests.store.making import WEIGHTS, made
from v14.store.audit import Record, namespace_digest
from v14.store.catalog import Catalog
from v14.store.links import LinkChange, link_key, link_of
from v14.store.policies import Policy
from v14.store.row import Row
from v14.store.segments import Spec
from v14.types import Link

SEGMENT = "0000000001.safetensors"


@pytest.fixture
def catalog(tmp_path: Path):
    with closing(Catalog(tmp_path / "catalog.sqlite3", WEIGHTS)) as catalog:
        events = [made(number, namespace) for number in range(4) for namespace in ("home", "work")]
        rows = (Row.of(event, Spec.of(trace), SEGMENT, stored_at=1.0, recalled_at=0.0) for event, trace in events)
        catalog.commit(rows, {})
        yield catalog


def tie(source: int, target: int, weight: float = 1.0, namespace: str = "home", kind: str = "association") -> Link:
    return Link(source=made(source, namespace)[0].id, target=made(target, namespace)[0].id, kind=kind, weight=weight)


def keyed(*links: Link, namespace: str = "home") -> dict[tuple[str, str, str, str], float]:
    return {link_key(namespace, link): link.weight for link in links}


def changes(*links: Link, namespace: str = "home") -> dict[tuple[str, str, str, str], LinkChange]:
    return {key: LinkChange(number=1, weight=weight) for key, weight in keyed(*links, namespace=namespace).items()}


def test_the_larger_weight_wins(catalog: Catalog) -> None:
    catalog.commit([], {}, changes(tie(0, 1, 0.5), tie(1, 0, 0.25), tie(0, 1, 0.1, kind="supersedes")))
    catalog.commit([], {}, changes(tie(0, 1, 0.75), tie(1, 0, 0.125)))
    expected = keyed(tie(0, 1, 0.75), tie(1, 0, 0.25), tie(0, 1, 0.1, kind="supersedes"))
    assert catalog.links("home") == expected
    assert catalog.links("work") == {}
    catalog.commit([], {}, {link_key("home", tie(0, 1)): LinkChange(number=1, weight=None, afresh=True)})
    assert catalog.links("home") == keyed(tie(1, 0, 0.25), tie(0, 1, 0.1, kind="supersedes"))


def test_a_link_needs_both_its_events(catalog: Catalog) -> None:
    catalog.commit([], {}, changes(tie(0, 9), tie(9, 0), tie(0, 1, namespace="work")))
    assert catalog.links("home") == {}


def test_links_go_with_either_end(catalog: Catalog) -> None:
    catalog.commit([], {}, changes(tie(0, 1), tie(1, 2), tie(2, 3)))
    catalog.commit([], {}, changes(tie(0, 1, namespace="work"), namespace="work"))
    record = Record(at=1.0, action="forget", selection="event", namespace_digest="", num_events=1, num_tokens=2)
    catalog.forget([("home", made(1)[0].id)], [], [record])
    assert catalog.links("home") == keyed(tie(2, 3))
    assert catalog.links("work") == keyed(tie(0, 1, namespace="work"), namespace="work")
    assert catalog.row(("home", made(1)[0].id)) is None
    assert catalog.audit() == [record]


def test_policies(catalog: Catalog) -> None:
    catalog.set_policy("home", Policy(ttl_s=5.0))
    catalog.set_policy("work", Policy(max_bytes=0))
    catalog.set_policy("home", Policy(ttl_s=6.0, max_bytes=7))
    assert catalog.policies() == {"home": Policy(ttl_s=6.0, max_bytes=7), "work": Policy(max_bytes=0)}
    catalog.set_policy("home", Policy())
    assert catalog.policies() == {"work": Policy(max_bytes=0)}
    for bad in ({"ttl_s": 0.0}, {"ttl_s": float("inf")}, {"max_bytes": -1}):
        with pytest.raises(ValueError, match="leave it out"):
            Policy(**bad)


@pytest.mark.parametrize(
    "change", [{"source": "b"}, {"target": ""}, {"kind": "likes"}, {"weight": 0.0}, {"weight": float("nan")}]
)
def test_a_link_is_checked(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="link"):
        Link(**({"source": "a", "target": "b", "kind": "supersedes", "weight": 1.0} | change))


def test_keys_of_links_lead_back() -> None:
    link = tie(0, 1, 0.5, kind="supersedes")
    assert link_of(link_key("home", link), 0.5) == link


def test_a_namespace_is_audited_by_its_digest() -> None:
    assert namespace_digest("home") != namespace_digest("work")
    assert "home" not in namespace_digest("home")


def test_pending_links_are_visible_and_written(opened: Opener) -> None:
    store = opened()
    store.put([made(number) for number in range(3)])
    store.link("home", [tie(0, 1, 0.5), tie(1, 2), tie(0, 9)])
    store.link("home", [tie(0, 1, 0.25)])
    expected = {tie(0, 1, 0.5), tie(1, 2)}
    assert set(store.links("home")) == expected
    assert store.links("work") == []
    assert store.flush(10)
    assert set(store.links("home")) == expected
    store.link("home", [tie(0, 1, 0.125), tie(2, 0)])
    store.unlink("home", [tie(1, 2, 9.0)])
    assert set(store.links("home")) == {tie(0, 1, 0.5), tie(2, 0)}
    store.unlink("home", [tie(0, 1)])
    store.link("home", [tie(0, 1, 0.125)])
    for _ in range(2):
        assert set(store.links("home")) == {tie(0, 1, 0.125), tie(2, 0)}
        store.close()
        store = opened()


def test_links_of_events_in_several_batches(opened: Opener) -> None:
    """A link waits for the batch of its later event."""
    store = opened(batch_bytes=1)
    store.put([made(number) for number in range(10)])
    links = [tie(number, (number + 7) % 10) for number in range(10)]
    store.link("home", links)
    assert store.flush(10)
    store.close()
    assert set(opened().links("home")) == set(links)
