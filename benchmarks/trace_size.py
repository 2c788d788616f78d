"""What a stored trace costs in bytes and time, and what keeping it smaller costs in recall and answers.

    python -m benchmarks.trace_size sizes
    python -m benchmarks.trace_size quality DIRECTORY [--told facts|cases] [--num 60] [--seed 0] [--ways bf16 …]

`sizes` writes stores of a model shaped like Qwen3.5-27B (16 attention layers, 4 KV heads of 256) with traces of random
numbers and divides what lies on disk by tokens and events; seconds are of this process on one core, waiting left out.

`quality` tells a V14 directory's model facts in Transformers, each in a chat of its own, then asks for them out of one
store for each way of keeping them, so that indexes vote on what was read back from disk: traces placed in different
codecs (`reinstate: kv`), or only the voters' keys kept and events read again (`reread`). `same chat` has the statement
in front of the question and no memory. All ways are asked in the same run and get the same traces. fp8 is no form of
the store: its traces are rounded to e4m3, kept as bf16, and counted with half of their bytes.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from v14.check.facts import generate
from v14.check.scoring import contains
from v14.codecs.form import Form
from v14.config import Switches
from v14.memory import Memory
from v14.profile import Profile
from v14.store.directory import DirectoryStore
from v14.store.keeping import Keeping
from v14.store.master import parse_key
from v14.types import Event, Trace

LAYERS, HEADS, DIM = 16, 4, 256
VOTER_SLOTS = (1, 2, 3, 4, 5, 6, 7, 8)
"""Half of the attention layers, all in the first 60%."""

ANSWER_TOKENS = 20

FACTS_A_CHAT = 30
"""Facts of one namespace: as many as `v14 check` tells."""


def shaped(number: int, num_tokens: int) -> tuple[Event, Trace]:
    """An event of the large model: normal numbers, some channels of the keys far off."""
    generator = torch.Generator().manual_seed(number)
    keys, values = (torch.randn(LAYERS, num_tokens, HEADS, DIM, generator=generator) for _ in range(2))
    keys[..., :4] += 20
    tokens = tuple(int(token) for token in torch.randint(0, 150_000, (num_tokens,), generator=generator))
    event = Event(namespace="home", chat_id="chat", role="user", said_at=float(number), token_ids=tokens)
    return event, Trace(keys=keys.bfloat16(), values=values.bfloat16())


def sizes(num_events: int) -> Iterator[dict[str, Any]]:
    """A row for each form and length of events."""
    key = parse_key("5" * 64, "the benchmark")
    fine = VOTER_SLOTS
    forms = {
        "bf16 (native)": Form(),
        "int8": Form(codec="int8"),
        "int4, voters' keys int8": Form(codec="int4", fine=fine),
        "int4 throughout": Form(codec="int4"),
        "voters' keys, bf16 (reread)": Form(only=fine),
        "voters' keys, int8 (reread)": Form(codec="int8", only=fine),
    }
    for num_tokens in (128, 24):
        told = [shaped(number, num_tokens) for number in range(num_events)]
        for name, form in forms.items():
            for master in (None, key):
                with tempfile.TemporaryDirectory() as home:
                    yield {"form": name, "encrypted": master is not None, "tokens": num_tokens} | _written(
                        Path(home), told, Keeping(form=form), master
                    )


def _written(home: Path, told: Sequence[tuple[Event, Trace]], keeping: Keeping, master: Any) -> dict[str, Any]:
    computed = sum(trace.num_bytes for _, trace in told)
    begin = time.process_time()
    with closing(DirectoryStore.open(home, "sha256:27b", keeping=keeping, master=master)) as store:
        store.put(told)
        store.flush()
        written = time.process_time()
        slots = list(VOTER_SLOTS)
        for event, _ in told:
            store.keys_of_layers("home", event.id, slots)
        voted = time.process_time()
        if keeping.form.only is None:
            for event, _ in told:
                store.trace("home", event.id)
        read = time.process_time()
        num_bytes = store.stats().num_bytes
    catalog = (store.path / "catalog.sqlite3").stat().st_size
    tokens = sum(event.num_tokens for event, _ in told)
    mb = computed / 1e6
    return {
        "bytes_per_token": round(num_bytes / tokens),
        "bytes_per_event": round(num_bytes / len(told)),
        "catalog_bytes": catalog,
        "write_mb_s": round(mb / (written - begin)),
        "read_mb_s": None if keeping.form.only is not None else round(mb / (read - voted)),
        "voter_keys_ms_per_event": round(1000 * (voted - written) / len(told), 2),
    }


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question in a namespace; `statement` is what should be recalled, `value` what a right answer contains."""

    namespace: str
    statement: str
    question: str
    value: str


def asked(told: str, seed: int, num: int) -> tuple[dict[str, list[str]], list[Asked]]:
    """Statements by namespace, and the questions."""
    statements: dict[str, list[str]] = {}
    questions = []
    if told == "facts":
        for start in range(0, num, FACTS_A_CHAT):
            namespace = f"facts {seed + start}"
            facts = generate(seed + start, min(FACTS_A_CHAT, num - start))
            statements[namespace] = [fact.statement for fact in facts]
            questions += [
                Asked(namespace=namespace, statement=fact.statement, question=fact.question, value=fact.value)
                for fact in facts
            ]
        return statements, questions
    from experiments.tiny_hybrid.telling import case

    for number in range(num):
        one = case(seed, "fact", number)
        namespace = f"case {number}"
        statements[namespace] = [*one.others, *one.statements]
        questions.append(
            Asked(
                namespace=namespace,
                statement=one.statements[0],
                question=one.question.text,
                value=one.question.value.rstrip("."),
            )
        )
    return statements, questions


@dataclass(frozen=True, kw_only=True)
class Way:
    """How traces are kept and come back."""

    form: Form = field(default_factory=Form)
    reinstate: Literal["kv", "reread"] = "kv"
    rounded: torch.dtype | None = None
    """What keys and values are rounded to before they are stored."""


def ways(voters: tuple[int, ...]) -> dict[str, Way]:
    """Ways by name, for a model with voters in these attention layers."""
    return {
        "bf16": Way(),
        "fp8": Way(rounded=torch.float8_e4m3fn),
        "int8": Way(form=Form(codec="int8")),
        "int4": Way(form=Form(codec="int4", fine=voters)),
        "int4 throughout": Way(form=Form(codec="int4")),
        "reread": Way(form=Form(only=voters), reinstate="reread"),
        "reread, int8": Way(form=Form(codec="int8", only=voters), reinstate="reread"),
    }


SAME_CHAT = "same chat"


class Asker:
    """One model, told once, asked out of one store for each way."""

    def __init__(self, directory: Path, home: Path) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.home = home
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.model: Any = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True, dtype="auto").eval()
        self.profile: Profile = self.model.v14.profile
        self.ways = ways(tuple(self.profile.voters.slots(self.profile.geometry)))
        self.model.v14.close()
        self.told: list[tuple[Event, Trace]] = []

    def memory(self, name: str, way: Way) -> Memory:
        """A memory over a store of its own, which the model uses from now on."""
        options = self.profile.options.model_copy(update={"reinstate": way.reinstate, "engram_rank": 0})
        keeping = Keeping(form=way.form)
        store = DirectoryStore.open(self.home / name, self.profile.weights_id, keeping=keeping, fsync=False)
        self.model.v14 = Memory(replace(self.profile, options=options), Switches(), store)
        return self.model.v14

    def tell(self, statements: dict[str, list[str]]) -> None:
        """Read every statement in a chat of its own."""
        memory = self.memory("told", Way())
        for namespace, texts in statements.items():
            for text in texts:
                self._generate(text, namespace, "write", 1)
        memory.store.flush()
        for namespace in statements:
            for event in memory.store.events(namespace):
                self.told.append((event, memory.store.trace(namespace, event.id)))
        memory.close()

    def ask(self, name: str, questions: Sequence[Asked]) -> dict[str, Any]:
        """Right events recalled, right answers, and bytes a token of the store."""
        way = self.ways[name]
        with closing(self.memory(name, way)) as memory:
            memory.store.put([(event, _rounded(trace, way.rounded)) for event, trace in self.told])
            memory.store.flush()
            found = right = 0
            for one in questions:
                answer = self._generate(one.question, one.namespace, "read", ANSWER_TOKENS)
                texts = [self.tokenizer.decode(event.token_ids) for event in self.model.v14_last.plan.events]
                found += any(" ".join(one.statement.split()) in " ".join(text.split()) for text in texts)
                right += contains(answer, [one.value])
            stats = memory.store.stats()
        size = stats.num_bytes / stats.num_tokens / (1 if way.rounded is None else 2)
        return {"recalled": found, "answered": right, "bytes_per_token": round(size)}

    def same_chat(self, questions: Sequence[Asked]) -> dict[str, Any]:
        """Right answers where the statement stands in the chat."""
        right = 0
        for one in questions:
            chat = [_user(one.statement), {"role": "assistant", "content": "Okay."}, _user(one.question)]
            right += contains(self._reply(chat, "nobody", "off", ANSWER_TOKENS), [one.value])
        return {"answered": right}

    def _generate(self, text: str, namespace: str, mode: str, num_tokens: int) -> str:
        return self._reply([_user(text)], namespace, mode, num_tokens)

    @torch.no_grad()
    def _reply(self, chat: list[dict[str, str]], namespace: str, mode: str, num_tokens: int) -> str:
        encoded = self.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)
        ids = torch.tensor([encoded["input_ids"]])
        output = self.model.generate(
            ids, max_new_tokens=num_tokens, do_sample=False, v14_namespace=namespace, v14_memory=mode
        )
        return str(self.tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _rounded(trace: Trace, dtype: torch.dtype | None) -> Trace:
    if dtype is None:
        return trace
    return replace(trace, keys=trace.keys.to(dtype).to(trace.keys), values=trace.values.to(dtype).to(trace.values))


def main() -> None:
    """Measure and print one JSON line for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("sizes").add_argument("--events", type=int, default=8)
    quality = commands.add_parser("quality")
    quality.add_argument("directory", type=Path)
    quality.add_argument("--told", choices=("facts", "cases"), default="facts")
    quality.add_argument("--num", type=int, default=60)
    quality.add_argument("--seed", type=int, default=0)
    quality.add_argument("--ways", nargs="+", choices=(SAME_CHAT, *ways(())), default=(SAME_CHAT, *ways(())))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.command == "sizes":
        for row in sizes(options.events):
            print(json.dumps(row), flush=True)
        return
    statements, questions = asked(options.told, options.seed, options.num)
    with tempfile.TemporaryDirectory() as home:
        asker = Asker(options.directory, Path(home))
        asker.tell(statements)
        for name in options.ways:
            begin = time.perf_counter()
            row = {"model": options.directory.name, "way": name, "asked": len(questions)}
            row |= asker.same_chat(questions) if name == SAME_CHAT else asker.ask(name, questions)
            print(json.dumps(row | {"seconds": round(time.perf_counter() - begin)}), flush=True)


if __name__ == "__main__":
    main()
