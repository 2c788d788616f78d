"""What reads bytes that others may have written, and the only errors with which each may answer.

A target takes any bytes at all. It returns, or raises one of the errors that it `allows`; anything else, a crash or a
minute without end is a finding. `seeds` are valid inputs to begin with.
"""

import json
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import torch
from safetensors.torch import save

from tests.store.making import WEIGHTS, made
from tests.store.numbers import event, trace
from v14.check import own as own_questions
from v14.codecs.form import Form
from v14.codecs.layers import decode_layers
from v14.config import CONFIG_KEY, Options, Switches
from v14.engines.sglang.front import Front
from v14.engines.sglang.importing import ticket as import_ticket
from v14.engines.sglang.ticket import Ticket
from v14.errors import (
    CheckError,
    DirectoryError,
    EventFileError,
    OptionError,
    RefusedError,
    StoreError,
    StoreKeyError,
    TraceCorruptError,
    UpgradeError,
)  # fmt: skip
from v14.events import file
from v14.events.cut import Cutter
from v14.events.replay import events_of, replays
from v14.events.turns import TurnFormat
from v14.geometry import AttentionLayer, Geometry, Rotary
from v14.home import parse_home
from v14.keys import read_keys
from v14.namespaces import Namespaces
from v14.profile import Profile
from v14.recall.voters import Voters
from v14.store import view
from v14.store.catalog import Catalog
from v14.store.files import FileBlobs
from v14.store.layout import Layout
from v14.store.master import key_of_file
from v14.store.pages import dead_bytes, logged_pages
from v14.store.row import Row
from v14.store.seal import MasterKey
from v14.store.segments import Segments
from v14.store.spec import Spec
from v14.store.vault import Vault
from v14.types import Cue
from v14.upgrade.calibration import own
from v14.upgrade.weights import weights_id

KEY = ("home", event(0).id)
SEGMENT = "0000000001.safetensors"
FORMS = (Form(), Form(codec="int8"), Form(codec="int4", fine=(1,)), Form(only=(0, 2)), Form(sealed=True))
MASTER = MasterKey(source="the fuzzer", secret=bytes(range(32)))


@dataclass(frozen=True, kw_only=True)
class Target:
    """See the module."""

    run: Callable[[bytes], object]
    allows: tuple[type[Exception], ...]
    seeds: Callable[[], list[bytes]]


TARGETS: dict[str, Target] = {}


def target(*allows: type[Exception], seeds: Callable[[], list[bytes]]) -> Callable[[Callable[[bytes], object]], object]:
    def register(run: Callable[[bytes], object]) -> Callable[[bytes], object]:
        TARGETS[run.__name__] = Target(run=run, allows=allows, seeds=seeds)
        return run

    return register


class Taken:
    """Values taken from bytes, one after the other; when they end, zeros and empty texts."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def bytes(self, size: int) -> bytes:
        part = self._data[self._place : self._place + size]
        self._place += size
        return part

    def number(self, size: int = 1) -> int:
        return int.from_bytes(self.bytes(size), "little", signed=size > 1)

    def run(self) -> bytes:
        return self.bytes(self.number())

    def text(self) -> str:
        return self.run().decode(errors="replace")

    def rest(self) -> bytes:
        return self.bytes(len(self._data))


@cache
def scratch() -> Path:
    """A directory of this process, in memory where the machine has one."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="v14-fuzz-", dir=shared if shared.is_dir() else None))


@cache
def vault() -> Vault:
    return Vault(WEIGHTS, {1: bytes(32)})


@cache
def segments() -> tuple[tuple[bytes, Spec], ...]:
    """A file and what the catalog knows of it, for every form."""
    found = []
    for form in FORMS:
        room = Segments(FileBlobs(scratch(), fsync=False), WEIGHTS, vault() if form.sealed else None)
        specs = room.write(SEGMENT, {KEY: trace(0, num_tokens=4)}, replace(form, sealed=False))
        found.append(((scratch() / SEGMENT).read_bytes(), specs[KEY]))
    return tuple(found)


def _segment_seeds() -> list[bytes]:
    return [bytes([number]) + data for number, (data, _) in enumerate(segments())]


@target(StoreError, StoreKeyError, seeds=_segment_seeds)
def segment(data: bytes) -> None:
    """A segment file; the first byte chooses what the catalog expects in it."""
    number = (data[0] if data else 0) % len(FORMS)
    _, spec = segments()[number]
    (scratch() / SEGMENT).write_bytes(data[1:])
    room = Segments(FileBlobs(scratch(), fsync=False), WEIGHTS, vault() if FORMS[number].sealed else None)
    for read in (lambda: room.trace(SEGMENT, KEY, spec), lambda: room.keys(SEGMENT, KEY, spec, [0, 2])):
        with suppress(StoreError, StoreKeyError):
            read()


def _rows() -> list[Row]:
    known, was = made(3)
    specs = [(known, Spec.of(was)), *((event(0, num_tokens=4), spec) for _, spec in segments())]
    return [Row.of(e, spec, SEGMENT, stored_at=1.0, recalled_at=0.0, vault=vault()) for e, spec in specs]


def _row_bytes(row: Row) -> bytes:
    out = b""
    for field in fields(Row):
        value = getattr(row, field.name)
        if isinstance(value, str | bytes):
            raw = value.encode() if isinstance(value, str) else value
            out += bytes([min(len(raw), 255)]) + raw[:255]
        else:
            out += struct.pack("<d", value) if isinstance(value, float) else struct.pack("<q", value)
    return out


@target(ValueError, seeds=lambda: [_row_bytes(row) for row in _rows()])
def row(data: bytes) -> None:
    """A row of the catalog. SQLite gives any type for any column: some texts are bytes, and the other way round."""
    taken = Taken(data)
    values: dict[str, object] = {}
    for field in fields(Row):
        if field.type in ("str", str):
            raw = taken.run()
            values[field.name] = raw if raw[:1] == b"\xff" else raw.decode(errors="replace")
        elif field.type in ("bytes", bytes):
            raw = taken.run()
            values[field.name] = raw.decode(errors="replace") if raw[:1] == b"\xfe" else raw
        elif field.type in ("float", float):
            values[field.name] = struct.unpack("<d", taken.bytes(8).ljust(8, b"\0"))[0]
        else:
            values[field.name] = taken.number(8)
    found = Row(**values)  # type: ignore[arg-type]
    for read in (lambda: found.spec, lambda: found.event(vault()), lambda: found.event()):
        with suppress(ValueError):
            read()


@cache
def _catalog_bytes() -> bytes:
    path = scratch() / "seed.sqlite3"
    with closing(Catalog(path, WEIGHTS, fsync=False)) as catalog:
        catalog.commit([*_rows()[:1]], {})
        catalog.set_keys(vault().stored(MASTER), was=())
    data = path.read_bytes()
    path.unlink()
    return data


@target(StoreError, StoreKeyError, seeds=lambda: [_catalog_bytes()])
def catalog(data: bytes) -> None:
    """The catalog's file, opened for writing and looked at from outside."""
    home = scratch() / "home"
    shutil.rmtree(home, ignore_errors=True)
    layout = Layout.of(home, WEIGHTS)
    layout.segments.mkdir(parents=True)
    layout.catalog.write_bytes(data)
    with suppress(StoreError, StoreKeyError):
        view.views(home)
        view.events(home)
    with closing(Catalog(layout.catalog, WEIGHTS, fsync=False)) as opened:
        for key in opened.all_keys():
            opened.row(key, corrupt=True)
        for namespace in opened.counts(()):
            opened.rows(namespace)
            opened.links(namespace)
        opened.segments()
        opened.policies()
        opened.audit()
        Vault.open(WEIGHTS, opened.keys(), MASTER)


def _log_bytes() -> bytes:
    path = scratch() / "logged.sqlite3"
    with closing(Catalog(path, WEIGHTS, fsync=False)) as catalog:
        catalog.commit([*_rows()[:1]], {})
        return path.with_name("logged.sqlite3-wal").read_bytes()


@target(
    seeds=lambda: [b"\x01" + _catalog_bytes()[:4096], b"\x02" + _catalog_bytes()[4096:8192], b"\x00" + _log_bytes()]
)
def pages(data: bytes) -> None:
    """A page of the catalog, the first one or another, or its log, as forgetting looks at them."""
    number, rest = (data[0] % 3 if data else 0), data[1:]
    if number:
        assert len(dead_bytes(rest, number)) <= len(rest)
        return
    path = scratch() / "log"
    path.write_bytes(rest)
    with path.open("rb") as file:
        assert len(list(logged_pages(file.fileno()))) <= len(rest) // 24


@cache
def _directory() -> dict[str, bytes]:
    """The files of a V14 directory that `Profile.load` reads."""
    room = scratch() / "directory"
    room.mkdir(exist_ok=True)
    layers = tuple(AttentionLayer(index=i, rotary=Rotary(inv_freq=(1.0, 0.1)), scaling=0.5) for i in range(2))
    null = Cue(queries=torch.zeros(1, 2, 4), context_lse=torch.zeros(1, 2))
    Profile(
        base_architecture="LlamaForCausalLM",
        weights_id=WEIGHTS,
        geometry=Geometry(num_heads=2, num_kv_heads=1, head_dim=4, layers=layers),
        turns=TurnFormat(openings={"user": (1, 2)}, closing=(3,)),
        sentence_ends=frozenset({5}),
        voters=Voters(heads=((0, 1),), weights=(1.0,), calibration="subtract", null=null),
        options=Options(recall_floor=0.1),
    ).save(room)
    config = {"architectures": ["LlamaV14ForCausalLM"], CONFIG_KEY: Options(recall_floor=0.1).model_dump()}
    (room / "config.json").write_text(json.dumps(config))
    names = ("config.json", "v14/profile.json", "v14/voters.safetensors")
    return {name: (room / name).read_bytes() for name in names}


@target(
    DirectoryError,
    OptionError,
    seeds=lambda: [bytes([number]) + data for number, data in enumerate(_directory().values())],
)
def profile(data: bytes) -> None:
    """A V14 directory, one file of which is the fuzzer's; the first byte says which."""
    files = _directory()
    wanted = list(files)[(data[0] if data else 0) % len(files)]
    room = scratch() / "directory"
    for name, valid in files.items():
        (room / name).write_bytes(data[1:] if name == wanted else valid)
    Profile.load(room)


def _calibration_seed() -> bytes:
    chats = [{"turns": [["user", "The boat is Ada."], ["assistant", "Okay."]], "fact": 0}]
    about = [
        {"text": f"Boat {n}?", **({"fact": 0} if fact else {}), "held_out": held}
        for n in range(8)
        for fact in (True, False)
        for held in (True, False)
    ]
    return json.dumps({"chats": chats, "questions": about, "null": "N/A"}).encode()


@target(UpgradeError, seeds=lambda: [_calibration_seed()])
def calibration(data: bytes) -> None:
    """A calibration set of one's own."""
    path = scratch() / "calibration.json"
    path.write_bytes(data)
    own.load(path)


def _questions_seed() -> bytes:
    fact = {"statement": "The boat is Ada.", "question": "Boat?", "reworded": "Ship?", "value": "Ada"}
    changed = {"statements": ["It is Eva.", "It is Ida."], "question": "Who?", "values": ["Eva", "Ida"]}
    both = {"statements": ["It is Ute.", "Ute is in bay 9."], "question": "Where?", "value": "bay 9"}
    parts = {"facts": [fact], "corrected": [changed], "two_step": [both], "chats": ["Hi."], "passages": ["A hill."]}
    return json.dumps(parts | {"unrelated": [{"question": "Sky?", "accepted": ["blue"]}]}).encode()


@target(CheckError, seeds=lambda: [_questions_seed()])
def questions(data: bytes) -> None:
    """Questions of one's own for a check."""
    path = scratch() / "questions.json"
    path.write_bytes(data)
    own_questions.load(path, 0)


def _key_map_seeds() -> list[bytes]:
    toml = f'[[keys]]\nsha256 = "{"a" * 64}"\nnamespace = "ann"\nshared = ["handbook"]\noperator = false\n'
    grants = {"keys": [{"sha256": "b" * 64, "namespace": "ben"}]}
    return [b"\x00" + toml.encode(), b"\x01" + json.dumps(grants).encode()]


@target(OptionError, seeds=_key_map_seeds)
def key_map(data: bytes) -> None:
    """The file that maps API keys to namespaces; the first byte chooses TOML or JSON."""
    path = scratch() / ("keys.json" if data[:1] == b"\x01" else "keys.toml")
    path.write_bytes(data[1:])
    path.chmod(0o600)
    read_keys(path, "SGLANG_V14_KEYS")


@target(ValueError, seeds=lambda: [Ticket(namespace="ann", mode="both", shared=("all",), chat_id="c").dump().encode()])
def ticket(data: bytes) -> None:
    """What stands in `custom_params`."""
    Ticket.of({"v14": data.decode(errors="replace")})


def _headers(data: bytes) -> Iterator[tuple[str, str]]:
    for line in data.decode("latin-1").split("\n"):
        name, _, value = line.partition(":")
        yield name.strip().lower(), value.strip()


@target(
    ValueError,
    RefusedError,
    seeds=lambda: [
        b"x-v14-namespace: ann\nx-v14-memory: both\nx-v14-chat: 7\nx-v14-shared: all, some\nuser: ben",
        b"authorization: Bearer key\nx-v14-memory: off\nx-v14-proxy-secret: secret\nx-v14-key: k",
    ],
)
def headers(data: bytes) -> None:
    """A request's headers and its `user` field, under every policy."""
    given = dict(_headers(data))
    asked = SimpleNamespace(
        rid=given.get("rid"), input_ids=[1], text="hello", sampling_params={}, image_data=None, video_data=None,
        audio_data=None, session_params=None, return_logprob=False, v14_user=given.get("user"),
    )  # fmt: skip
    for policy, secret in (("open", b""), ("keyed", b""), ("required", b"secret of the proxy")):
        with suppress(ValueError, RefusedError):
            Front(Namespaces(policy, secret=secret), lambda: True).admit(asked, given)


def _event_file_seeds() -> list[bytes]:
    known, _ = made(3)
    whole = {"id": known.id, "chat_id": "c", "role": "user", "said_at": 1.5, "token_ids": list(known.token_ids)}
    whole |= {"parent": known.parent, "closing_len": known.closing_len, "text": " ".join(map(str, known.token_ids))}
    return [json.dumps(whole).encode() + b"\n", b'{"role": "user", "text": "The boat is Ada.", "said_at": 2}\n']


@target(EventFileError, seeds=_event_file_seeds)
def event_file(data: bytes) -> None:
    """A file of events to be imported, up to the sequences in which they are read again."""
    lines = file.read(
        file.lines_of(data), namespace="ann", roles=("user", "assistant", "text"), vocab_size=1 << 20,
        decode=lambda ids: " ".join(map(str, ids)), now=0.0,
    )  # fmt: skip
    turns = TurnFormat(openings={"user": (1, 2), "assistant": (1, 3)}, closing=(9,))
    cutter = Cutter(turns=turns, sentence_ends=frozenset({46}))
    events = []
    for line in lines:
        plain = isinstance(line, file.Plain)
        events += events_of(line, tuple(line.text.encode()), (7,), cutter, "ann") if plain else [line]
    for replay in replays(events, (7,)):
        Ticket.load(import_ticket(replay, "ann").dump()).cuts(replay.token_ids)


HOME = b"postgresql://ann:secret@host:5432/memory?segments=s3://bucket/prefix&endpoint=http://host:9000&region=x"


@target(OptionError, seeds=lambda: [b"/memory", HOME])
def home(data: bytes) -> None:
    """SGLANG_V14_MEMORY_HOME."""
    parse_home(data.decode(errors="replace"))


def _environment_seeds() -> list[bytes]:
    return [b"MEMORY=1\nMAX_STORE_GB=2.5\nKEY=x\nNAMESPACES=open\nMEMORY_HOME=/memory", b"PROFILE=2", b"NO=1"]


@target(OptionError, seeds=_environment_seeds)
def environment(data: bytes) -> None:
    """The environment."""
    lines = (line.partition("=") for line in data.decode(errors="replace").split("\n"))
    Switches.read({f"SGLANG_V14_{name}": value for name, _, value in lines})


@target(StoreKeyError, seeds=lambda: [b"a1" * 32 + b"\n"])
def key_file(data: bytes) -> None:
    """The file with the key of an encrypted store."""
    path = scratch() / "key"
    path.write_bytes(data)
    path.chmod(0o600)
    key_of_file(path)


@target(TraceCorruptError, seeds=lambda: [bytes([len(form.text)]) + form.text.encode() + bytes(300) for form in FORMS])
def rows_of_bytes(data: bytes) -> None:
    """The form of a trace, and rows in it."""
    taken = Taken(data)
    form = Form.parse(taken.text())
    slots = form.key_slots(4)
    shape = (taken.number() % 40, taken.number() % 4, taken.number() % 20)
    codecs = [form.key_codec(slot) for slot in slots]
    rows = [torch.tensor(list(taken.run()), dtype=torch.uint8) for _ in slots]
    decode_layers(rows, codecs, "keys", shape, torch.bfloat16)


@target(
    TraceCorruptError,
    StoreKeyError,
    seeds=lambda: [vault().seal(b"text", "what"), vault().new_segment_key()[0].encode()],
)
def sealed(data: bytes) -> None:
    """A sealed record and a segment's stated key. Nothing but what this very vault sealed ever opens."""
    with suppress(TraceCorruptError, StoreKeyError):
        vault().segment_cipher(data.decode(errors="replace"))
    vault().open_record(data, "what")


@target(
    UpgradeError,
    seeds=lambda: [b"\x00" + save({"a": torch.zeros(3)}), b"\x01" + b'{"weight_map": {"a": "b.safetensors"}}'],
)
def weights(data: bytes) -> None:
    """A checkpoint: its weights (first byte 0) or the index that names them."""
    room = scratch() / "checkpoint"
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir()
    (room / "b.safetensors").write_bytes(data[1:] if data[:1] == b"\x00" else save({"a": torch.zeros(3)}))
    if data[:1] != b"\x00":
        (room / "model.safetensors.index.json").write_bytes(data[1:])
    weights_id(room)


@contextmanager
def expected(of: Target) -> Iterator[None]:
    """Swallows what a target may answer with."""
    with suppress(*of.allows):
        yield
