"""Sealed records: only the right key opens them, only as what they are; keys from every source."""

import logging
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from v14.config import Switches
from v14.errors import OptionError, StoreKeyError, TraceCorruptError
from v14.store.master import master_key, parse_key
from v14.store.seal import OVERHEAD_BYTES, Cipher, context, new_data_key

HEX = "0123456789abcdef" * 4


@given(data=st.binary(max_size=200), what=st.lists(st.text(max_size=5), max_size=3))
@settings(max_examples=50)
def test_a_record_opens_as_what_it_is(data, what):
    cipher = Cipher(new_data_key())
    record = cipher.seal(data, context(*what))
    assert len(record) == len(data) + OVERHEAD_BYTES
    assert data not in record or len(data) < 4
    assert cipher.open(record, context(*what)) == data
    with pytest.raises(TraceCorruptError, match="does not open"):
        cipher.open(record, context(*what, "other"))
    with pytest.raises(TraceCorruptError, match="does not open"):
        Cipher(new_data_key()).open(record, context(*what))


def test_no_part_of_a_record_can_be_changed():
    cipher = Cipher(new_data_key())
    record = cipher.seal(b"what was said", b"")
    for place in range(len(record)):
        changed = bytearray(record)
        changed[place] ^= 1
        with pytest.raises(TraceCorruptError):
            cipher.open(changed, b"")
    with pytest.raises(TraceCorruptError, match="too short"):
        cipher.open(record[: OVERHEAD_BYTES - 1], b"")


def test_contexts_differ_where_their_parts_do():
    lists = [("a", "b"), ("ab",), ("a", "", "b"), ('a", "b',), (), ("a", 1), ("a", "1")]
    assert len({context(*parts) for parts in lists}) == len(lists)


def test_nonces_never_come_twice():
    cipher = Cipher(new_data_key())
    assert len({cipher.seal(b"", b"")[:12] for _ in range(2000)}) == 2000


def test_a_data_key_opens_with_its_master_alone():
    master, other = parse_key(HEX, "here"), parse_key("f" * 64, "there")
    data_key = new_data_key()
    wrapped = master.wrap(data_key, "sha256:w", "1")
    assert master.unwrap(wrapped, "sha256:w", "1") == data_key
    for wrong in (lambda: other.unwrap(wrapped, "sha256:w", "1"), lambda: master.unwrap(wrapped, "sha256:v", "1")):
        with pytest.raises(StoreKeyError, match="does not open data key '1'"):
            wrong()


def test_a_key_does_not_show_itself():
    switches = Switches.read({"SGLANG_V14_KEY": HEX})
    key = master_key(switches)
    assert HEX not in repr(switches)
    assert HEX not in repr(key)
    assert str(key.secret) not in repr(key)
    assert key.id not in HEX


def test_keys_come_from_every_source(tmp_path, caplog):
    path = tmp_path / "key"
    path.write_text(HEX + "\n")
    path.chmod(0o600)
    command = f"{sys.executable} -c 'print(\"{HEX}\")'"
    sources = ({"KEY": HEX.upper()}, {"KEY_FILE": str(path)}, {"KEY_COMMAND": command})
    keys = [master_key(Switches.read({f"SGLANG_V14_{k}": v for k, v in source.items()})) for source in sources]
    assert {key.id for key in keys} == {parse_key(HEX, "").id}
    assert not caplog.records
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        master_key(Switches.read({"SGLANG_V14_KEY_FILE": str(path)}))
    assert "can be read by others" in caplog.text
    assert master_key(Switches()) is None


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"KEY": "short"}, "SGLANG_V14_KEY does not hold a key"),
        ({"KEY": "g" * 64}, "openssl rand"),
        ({"KEY_FILE": "/no/such/file"}, "SGLANG_V14_KEY_FILE"),
        ({"KEY_COMMAND": "/no/such/command"}, "cannot be run"),
        ({"KEY_COMMAND": "'"}, "cannot be run"),
        ({"KEY_COMMAND": " "}, "cannot be run"),
        ({"KEY_COMMAND": "false"}, "ended with status 1"),
        ({"KEY_COMMAND": "echo no"}, "does not hold a key"),
    ],
)
def test_what_is_no_key_is_named(variables, message):
    with pytest.raises(StoreKeyError, match=message):
        master_key(Switches.read({f"SGLANG_V14_{name}": value for name, value in variables.items()}))


def test_there_is_one_key_or_none():
    with pytest.raises(OptionError, match="SGLANG_V14_KEY and SGLANG_V14_KEY_FILE"):
        Switches.read({"SGLANG_V14_KEY": HEX, "SGLANG_V14_KEY_FILE": "/x"})
    with pytest.raises(OptionError, match="is empty"):
        Switches.read({"SGLANG_V14_KEY": ""})


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(StoreKeyError, match=r"sglang-v14\[encryption\]"):
        Cipher(new_data_key())
