"""Another master key for a shared store: while nobody has it open, and whole or not at all."""

import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.store.contract.places import Shared
from tests.store.making import made, same_trace
from v14.cli import app
from v14.errors import StoreError, StoreKeyError
from v14.store.rotate import rotate
from v14.store.seal import MasterKey
from v14.store.shared import rotate as shared_rotate
from v14.store.shared.schema import schema_of

KEY = MasterKey(source="a test", secret=bytes(range(32)))
OTHER = MasterKey(source="another test", secret=bytes(range(32, 64)))

pytestmark = pytest.mark.shared


@pytest.fixture(autouse=True)
def leaves_no_store(shared: Shared) -> Iterator[None]:
    """The command line reads all stores of a database, and has no key of these."""
    yield
    shared.sql(f"DROP SCHEMA {schema_of(shared.weights_id)} CASCADE")


def told(place: Shared, master: MasterKey | None, *numbers: int) -> None:
    with closing(place.open(master=master)) as store:
        store.put([made(number) for number in numbers])
        assert store.flush(30)


def held(place: Shared, master: MasterKey) -> list[int]:
    """Numbers of the events, each read and compared."""
    with closing(place.open(master=master)) as store:
        numbers = [event.token_ids[0] for event in store.events("home")]
        assert all(same_trace(store.trace("home", made(n)[0].id), made(n)[1]) for n in numbers)
        return numbers


def test_what_was_written_is_read_with_the_new_key_alone(shared: Shared) -> None:
    told(shared, KEY, 0, 1)
    objects = shared.segments()
    assert rotate(shared.home, shared.weights_id, KEY, OTHER) == 2
    assert shared.segments() == objects, "no segment is written anew"
    with pytest.raises(StoreKeyError, match=OTHER.id):
        shared.open(master=KEY)
    told(shared, OTHER, 2)
    assert held(shared, OTHER) == [0, 1, 2]
    sealed = shared.sql("SELECT token_ids FROM events ORDER BY said_at")
    assert [struct.unpack("<I", bytes(token_ids)[:4])[0] for (token_ids,) in sealed] == [1, 1, 2]
    assert rotate(shared.home, shared.weights_id, OTHER, KEY) == 3
    assert held(shared, KEY) == [0, 1, 2]


def test_not_while_a_server_runs(shared: Shared) -> None:
    told(shared, KEY, 0)
    with closing(shared.open(master=KEY)), pytest.raises(StoreError, match=r"servers have the store .* open"):
        rotate(shared.home, shared.weights_id, KEY, OTHER)
    assert held(shared, KEY) == [0]
    assert rotate(shared.home, shared.weights_id, KEY, OTHER) == 2


def test_whole_or_not_at_all(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    told(shared, KEY, 0)
    with pytest.raises(StoreKeyError, match=f"encrypted with the key {KEY.id}"):
        rotate(shared.home, shared.weights_id, OTHER, KEY)
    replace_keys = shared_rotate.replace_keys

    def failing(connection, keys) -> None:
        replace_keys(connection, keys)
        raise StoreError("the power went")

    with monkeypatch.context() as patch:
        patch.setattr(shared_rotate, "replace_keys", failing)
        with pytest.raises(StoreError, match="the power went"):
            rotate(shared.home, shared.weights_id, KEY, OTHER)
    assert held(shared, KEY) == [0]
    shared.postgres.cut()
    with pytest.raises(StoreError, match="stay as they are"):
        rotate(shared.home, shared.weights_id, KEY, OTHER)
    shared.postgres.mend()
    assert held(shared, KEY) == [0]


def test_what_is_not_encrypted(shared: Shared) -> None:
    told(shared, None, 0)
    with pytest.raises(StoreKeyError, match="is not encrypted"):
        rotate(shared.home, shared.weights_id, KEY, OTHER)
    assert shared.sql("SELECT count(*) FROM keys") == [(0,)]


def test_the_command(shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told(shared, KEY, 0)
    url = f"{shared.home.conninfo}?segments={shared.home.segments}&endpoint={shared.home.endpoint}"
    monkeypatch.setenv("SGLANG_V14_MEMORY_HOME", url)
    monkeypatch.setenv("SGLANG_V14_KEY", KEY.secret.hex())
    new = tmp_path / "new"
    new.write_text(OTHER.secret.hex())
    new.chmod(0o600)
    for words in (f"{shared.weights_id[:19]}: key {KEY.id} became {OTHER.id}", "left alone, its key is"):
        done = CliRunner().invoke(app, ["store", "rotate-key", "--new-key-file", str(new)])
        assert done.exit_code == 0, done.output
        assert words in " ".join(done.output.split())
    assert held(shared, OTHER) == [0]
