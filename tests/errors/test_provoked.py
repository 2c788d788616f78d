"""Messages that no other test meets, each provoked once."""

import base64
import json
import shutil
import threading
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from unittest.mock import MagicMock

import psycopg
import pytest

from tests.store.making import WEIGHTS, made
from tests.tiny import tiny_v14
from tests.upgrade.test_turns import tokenizer_with
from v14.check import server as check_server
from v14.check.client import ChatClient
from v14.check.server import Server
from v14.cli.store import rotate_key
from v14.cli.upkeep import repair
from v14.config import Options, Switches
from v14.engines.sglang import plugin, symbols
from v14.engines.transformers.generate import check_mode
from v14.errors import (
    CheckError,
    DirectoryError,
    OptionError,
    RefusedError,
    StoreError,
    StoreKeyError,
    StoreUnavailableError,
    TraceCorruptError,
    UnsupportedModelError,
    UpgradeError,
)
from v14.home import SharedHome
from v14.memory import Memory
from v14.models.base import FULL, SLIDING, Heads, assemble, layer_types
from v14.models.registry import adapter_for
from v14.models.rope import rotary
from v14.namespaces import Namespaces
from v14.profile import Profile
from v14.store import sqlite as sqlite_files
from v14.store.catalog import Catalog
from v14.store.directory import DirectoryStore
from v14.store.files import FileBlobs
from v14.store.foundation import open_vault
from v14.store.looking import views
from v14.store.master import parse_key
from v14.store.opening import missing_extra
from v14.store.residue import Residue
from v14.store.rotate import rotate
from v14.store.shared.catalog import SharedCatalog
from v14.store.shared.connection import Wire
from v14.store.shared.listener import Latest
from v14.store.shared.pause import Pause
from v14.store.shared.statements import hold
from v14.store.vault import Vault
from v14.store.view import event_view
from v14.upgrade.directory import _link
from v14.upgrade.make import _config, _finished
from v14.upgrade.report import Report
from v14.upgrade.turns import _check, _tokens, turn_format
from v14.upgrade.weights import weight_files

MOVED = ("dtype", "shape", "digests", "engram", "codec", "token_ids", "chat_id")
KEY = parse_key("a1" * 32, "the test")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SGLANG_V14_TRACE": "yes"}, "SGLANG_V14_TRACE='yes' is neither 0 nor 1; give one"),
        ({"SGLANG_V14_MEMORY_HOME": ""}, "SGLANG_V14_MEMORY_HOME is empty; give the directory"),
        ({"SGLANG_V14_MAX_BUFFER_GB": "many"}, "SGLANG_V14_MAX_BUFFER_GB='many' is not a number of gigabytes"),
        ({"SGLANG_V14_MAX_BUFFER_GB": "-1"}, "above 0; give one or unset it"),
    ],
)
def test_bad_switches(environment, said):
    with pytest.raises(OptionError, match=said):
        Switches.read(environment)


def test_a_bad_option_names_file_key_and_value():
    with pytest.raises(OptionError, match=r"/m/config.json, key 'v14': recall_flor.*Correct the value"):
        Options.parse({"recall_floor": 1.0, "recall_flor": 2.0}, "/m/config.json")


def test_a_mode_of_generate_that_there_is_not():
    with pytest.raises(OptionError, match="v14_memory='maybe' is none of off, read, write, both"):
        check_mode("maybe")


def test_an_sglang_that_does_not_fit(monkeypatch):
    monkeypatch.setattr(symbols, "problems", lambda needed: ["sglang.x has no parameter y: why"])
    with pytest.raises(SystemExit, match=r"(?s)sglang-v14: .*sglang\.x has no parameter y.*Install a tested SGLang"):
        plugin.load()


def test_a_memory_without_a_store():
    memory = Memory(
        SimpleNamespace(cutter=None, asking=None, options=SimpleNamespace(event_tokens=8)),
        Switches(),
        None,
        "no disk",
    )
    with pytest.raises(StoreError, match="no disk"):
        _ = memory.store
    with pytest.raises(StoreError, match="no disk"):
        memory.space("a")


def test_checkpoints_that_do_not_add_up():
    with pytest.raises(UnsupportedModelError, match="1 layer_types for 2 layers; download it again"):
        layer_types({"num_hidden_layers": 2, "layer_types": [FULL]}, default=[])
    with pytest.raises(UnsupportedModelError, match="no 'sliding_window'; download it again"):
        assemble(Heads(num_heads=1, num_kv_heads=1, head_dim=2), [SLIDING], {SLIDING: None}, None, 1.0)
    with pytest.raises(UnsupportedModelError, match="names no architecture; give a checkpoint of one of"):
        adapter_for({})
    with pytest.raises(UnsupportedModelError, match="needs 'factor'; download it again"):
        rotary({"rope_type": "linear", "rope_theta": 1e4}, 8)


def test_a_user_field_that_is_no_namespace():
    with pytest.raises(RefusedError, match="the `user` field names the namespace; give 1 to 256"):
        Namespaces.open(Switches()).access({}, "x" * 257)


def test_a_profile_of_another_version(tmp_path):
    model = tiny_v14("llama", tmp_path / "model")
    path = model / "v14/profile.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))
    with pytest.raises(DirectoryError, match=r"profile version 99, this package reads .*run `v14 upgrade` again"):
        Profile.load(model)


class Connection:
    """A connection to a catalog on a file system without shared memory."""

    def __init__(self, inner):
        self._inner = inner

    def execute(self, sql, *parameters):
        return self._inner.execute(sql.replace("= WAL", "= DELETE"), *parameters)

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_catalogs_that_cannot_be_opened(tmp_path, monkeypatch):
    with pytest.raises(StoreError, match="SGLANG_V14_MEMORY_HOME to a directory that can be written"):
        Catalog(tmp_path / "none" / "catalog.sqlite3", WEIGHTS)
    connect = sqlite_files._connect
    monkeypatch.setattr(sqlite_files, "_connect", lambda path: Connection(connect(path)))
    with pytest.raises(StoreError, match="no WAL mode; set SGLANG_V14_MEMORY_HOME to a local disk"):
        Catalog(tmp_path / "catalog.sqlite3", WEIGHTS)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(TraceCorruptError, match=r"missing or damaged.*set aside"):
        FileBlobs(tmp_path).read("none", [(0, 1)])
    with pytest.raises(StoreError, match=r"cannot be opened.*check its owner"):
        Residue(tmp_path / "none" / "catalog.sqlite3")
    with pytest.raises(StoreError, match=r"there is no store of .*set SGLANG_V14_MEMORY_HOME"):
        rotate(tmp_path, WEIGHTS, KEY, KEY)


def test_keys_that_changed_meanwhile(tmp_path):
    vault = Vault.new(WEIGHTS)
    catalog = Catalog(tmp_path / "catalog.sqlite3", WEIGHTS)
    with pytest.raises(StoreError, match="changed meanwhile; try again"):
        catalog.set_keys(vault.stored(KEY), was=vault.stored(KEY))
    catalog.close()


def test_a_store_that_gets_no_keys():
    catalog = SimpleNamespace(keys=list, set_keys=lambda keys, was: None)
    with pytest.raises(StoreError, match="it got no keys; start again"):
        open_vault(catalog, WEIGHTS, KEY)


def test_a_shared_store_without_its_packages():
    home = SharedHome(conninfo="postgresql://me:secret@db/memory", bucket="b", prefix="")
    error = missing_extra(home, ModuleNotFoundError(name="psycopg"))
    assert "pip install 'sglang-v14[shared]'" in str(error)
    assert "secret" not in str(error)


def test_what_is_sealed_says_that_it_needs_the_key(tmp_path):
    event, trace = made(1)
    store = DirectoryStore.open(tmp_path, WEIGHTS, master=KEY)
    store.put([(event, trace)])
    assert store.flush(20)
    row = store._catalog.row((event.namespace, event.id))
    with pytest.raises(StoreKeyError, match="is encrypted; set SGLANG_V14_KEY_FILE"):
        row.event()
    with pytest.raises(TraceCorruptError, match="is not what was stored"):
        replace(row, chat_id="?").event(store._vault)
    store._segments._vault = None
    store._segments._known.clear()
    with pytest.raises(StoreKeyError, match="is encrypted; set SGLANG_V14_KEY_FILE"):
        store.trace(event.namespace, event.id)
    store.close()
    with pytest.raises(StoreError, match="the store is closed"):
        store.put([(event, trace)])
    with pytest.raises(StoreError, match="the store is closed"):
        store._writer.run(lambda: None)


def test_vaults_that_do_not_know_a_key():
    vault = Vault.new(WEIGHTS)
    with pytest.raises(StoreKeyError, match="open it again"):
        vault.open_record(b"\xff" * 64, "x")
    with pytest.raises(TraceCorruptError, match="does not state its key"):
        vault.segment_cipher(None)


def test_links_across_file_systems(tmp_path, monkeypatch):
    def link(source, target):
        raise OSError(18, "Invalid cross-device link")

    (tmp_path / "a").write_text("")
    monkeypatch.setattr("v14.upgrade.directory.os.link", link)
    with pytest.raises(UpgradeError, match="use --link symlink or --link copy"):
        _link(tmp_path / "a", tmp_path / "b", "hardlink")


def test_templates_that_do_not_read_back():
    template = "{% for m in messages %}<s>{{ m['role'] }}:{{ m['content'] }}</s>{% endfor %}"
    tokenizer = tokenizer_with(template)
    found = turn_format(tokenizer)
    _check(tokenizer, found)
    with pytest.raises(UpgradeError, match=r"turns read back as .*correct chat_template"):
        _check(tokenizer, replace(found, openings={"user": found.openings["user"]}))
    upper = tokenizer_with(template.replace("m['content']", "m['content'].upper()"))
    with pytest.raises(UpgradeError, match=r"turn reads back as 'THE KETTLE IS ON.'.*correct chat_template"):
        _check(upper, found)


def test_a_slow_tokenizer():
    with pytest.raises(UpgradeError, match=r"give the checkpoint a fast one \(tokenizer.json\)"):
        _tokens(SimpleNamespace(is_fast=False), "text")


def test_weights_that_are_not_there(tmp_path):
    with pytest.raises(UpgradeError, match=r"no .*safetensors; save the checkpoint"):
        weight_files(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    with pytest.raises(UpgradeError, match="is not there; download it again"):
        weight_files(tmp_path)


@pytest.fixture
def answering():
    """A server that answers every request with one body."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(bodies[0])

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *args):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}", bodies
    http.shutdown()
    thread.join()
    http.server_close()


def test_servers_that_are_no_sglang(answering):
    url, bodies = answering
    bodies.append(b"[]")
    with pytest.raises(CheckError, match="something else than a JSON object; give the address of SGLang"):
        ChatClient(url=url).model()
    bodies[0] = b"data: [DONE]\n\n"
    with pytest.raises(CheckError, match="streamed nothing; look at the server's log"):
        ChatClient(url=url).stream([{"role": "user", "content": "x"}], max_tokens=1)


def test_servers_that_do_not_start(tmp_path, monkeypatch):
    monkeypatch.setattr(check_server.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CheckError, match=r"no `sglang` command; install"):
        check_server.sglang_executable()
    program = tmp_path / "sglang"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    server = Server(model_dir=tmp_path, home=tmp_path / "memory", log=tmp_path / "log", start_timeout_s=0.1)
    with server, pytest.raises(CheckError, match="did not start in 0 s; see"):
        server.start()


def test_directories_that_are_no_checkpoint_and_no_out(tmp_path):
    model = tiny_v14("llama", tmp_path / "model")
    with pytest.raises(UpgradeError, match="is a V14 directory already; give the checkpoint"):
        _config(model)
    with pytest.raises(UpgradeError, match="of other weights; remove it or choose another name"):
        _finished(model, "sha256:other", None, Report())
    with pytest.raises(UpgradeError, match="is no V14 directory; remove it or choose another name"):
        _finished(tmp_path, "sha256:other", None, Report())


def test_a_shared_catalog_that_refuses():
    connection = MagicMock()
    connection.execute.return_value.fetchall.return_value = [(1,)]
    connection.execute.return_value.rowcount = 0
    wire = Wire(lambda: connection)
    catalog = SharedCatalog(wire, wire, Latest(), "channel")
    with pytest.raises(StoreError, match="changed meanwhile; try again"):
        catalog.set_keys([], was=Vault.new(WEIGHTS).stored(KEY))
    with pytest.raises(StoreUnavailableError, match=r"nothing was forgotten: .*forget again"):
        catalog.forget([], [], [])
    with pytest.raises(StoreUnavailableError, match=r"nothing was rewritten: .*it is tried again"):
        catalog.move([], was={})
    catalog._erasing_on = connection
    row = SimpleNamespace(id="sha256:1", key=("n", "sha256:1"), segment="1", **dict.fromkeys(MOVED))
    connection.execute.return_value.rowcount = 1
    with pytest.raises(StoreError, match="was moved meanwhile; it is tried again"):
        catalog.move([row], was={row.key: "0"})
    connection.execute.return_value.rowcount = 0
    with pytest.raises(StoreError, match="has been collected; it is written again"):
        hold(connection, {"1"})

    def refused(connection):
        raise psycopg.errors.InsufficientPrivilege("permission denied for table events")

    with pytest.raises(StoreError, match=r"the catalog refuses: permission denied.*check the rights of its user"):
        wire.run(refused)
    wire.close()
    with pytest.raises(StoreError, match="the store is closed"):
        wire.run(refused)


def test_a_shared_store_out_of_reach():
    pause = Pause()
    pause.failed()
    with pytest.raises(StoreUnavailableError, match="it is asked again soon"):
        pause.check()
    home = SharedHome(conninfo="postgresql://me:secret@127.0.0.1:9/memory", bucket="b", prefix="")
    with pytest.raises(StoreError, match=r"cannot be read: .*Check SGLANG_V14_MEMORY_HOME") as raised:
        views(home)
    assert "secret" not in str(raised.value)


def test_files_that_say_something_else(tmp_path):
    model = tiny_v14("llama", tmp_path / "model")
    path = model / "v14/profile.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"geometry": 7}))
    with pytest.raises(DirectoryError, match=r"does not say what its model is .*run `v14 upgrade` again"):
        Profile.load(model)
    index = tmp_path / "model.safetensors.index.json"
    for text, said in (("[", "does not read"), ('{"weight_map": {"a": "../x.safetensors"}}', "no file beside it")):
        index.write_text(text)
        with pytest.raises(UpgradeError, match=f"{said}.*download it again"):
            weight_files(tmp_path)
    vault = Vault.new(WEIGHTS)
    with pytest.raises(TraceCorruptError, match="states a key of 3 bytes"):
        vault.segment_cipher(base64.b64encode(vault.seal(b"abc", "segment")).decode())
    with pytest.raises(StoreError, match=r"is damaged .*`verify` sets it aside"):
        event_view(WEIGHTS, ("n", "sha256:1", "c", "user", 0.0, 0.0, 2, b"short"))


def test_an_event_that_was_moved_meanwhile(tmp_path):
    event, trace = made(1)
    with closing(DirectoryStore.open(tmp_path, WEIGHTS)) as store:
        store.put([(event, trace)])
        assert store.flush(20)
        row = store._catalog.row((event.namespace, event.id))
        with pytest.raises(StoreError, match="was moved or forgotten meanwhile"):
            store._catalog.move([row], was={row.key: "another segment"})


def test_keys_that_cannot_be_rotated(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_V14_MEMORY_HOME", "postgresql://me@db/memory?segments=s3://b/p")
    with pytest.raises(StoreError, match="is mended with the tools of its database"):
        repair()
    monkeypatch.setenv("SGLANG_V14_MEMORY_HOME", str(tmp_path))
    with pytest.raises(StoreKeyError, match="the present key is missing: set SGLANG_V14_KEY"):
        rotate_key(None, None)
    monkeypatch.setenv("SGLANG_V14_KEY", "a1" * 32)
    with pytest.raises(OptionError, match="give the new key with --new-key-file or with --new-key-command"):
        rotate_key(None, None)
