"""What a stored trace costs in bytes and time, and what keeping it smaller costs in recall and answers.

    python -m benchmarks.trace_size sizes
    python -m benchmarks.trace_size quality DIRECTORY [--told facts|cases] [--num 60] [--seed 0] [--codecs native …]

`sizes` writes stores of a model shaped like Qwen3.5-27B (16 attention layers, 4 KV heads of 256) with traces of random
numbers and divides what lies on disk by tokens and events; seconds are of this process on one core, waiting left out.

`quality` tells a V14 directory's model facts in Transformers, each in a chat of its own, then asks with traces placed
(`reinstate: kv`) out of one store for each codec, so that indexes vote on what was read back from disk. All codecs are
asked in the same run and get the same traces.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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


class Asker:
    """One model, told once, asked out of one store for each codec."""

    def __init__(self, directory: Path, home: Path) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.home = home
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.model: Any = AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True, dtype="auto").eval()
        self.profile: Profile = self.model.v14.profile
        self.profile = replace(
            self.profile, options=self.profile.options.model_copy(update={"reinstate": "kv", "engram_rank": 0})
        )
        self.model.v14.close()
        self.told: list[tuple[Event, Trace]] = []

    def memory(self, name: str, form: Form) -> Memory:
        """A memory over a store of its own, which the model uses from now on."""
        store = DirectoryStore.open(self.home / name, self.profile.weights_id, keeping=Keeping(form=form), fsync=False)
        self.model.v14 = Memory(self.profile, Switches(), store)
        return self.model.v14

    def tell(self, statements: dict[str, list[str]]) -> None:
        """Read every statement in a chat of its own."""
        memory = self.memory("told", Form())
        for namespace, texts in statements.items():
            for text in texts:
                self._generate(text, namespace, "write", 1)
        memory.store.flush()
        for namespace in statements:
            for event in memory.store.events(namespace):
                self.told.append((event, memory.store.trace(namespace, event.id)))
        memory.close()

    def ask(self, codec: str, questions: Sequence[Asked]) -> tuple[int, int, float]:
        """Right events recalled, right answers, and bytes a token of the store."""
        slots = tuple(self.profile.voters.slots(self.profile.geometry))
        form = Form(codec=codec.removesuffix("-flat"), fine=() if codec.endswith("-flat") else slots)  # type: ignore[arg-type]
        with closing(self.memory(codec, form)) as memory:
            memory.store.put(self.told)
            memory.store.flush()
            found = right = 0
            for one in questions:
                answer = self._generate(one.question, one.namespace, "read", 20)
                texts = [self.tokenizer.decode(event.token_ids) for event in self.model.v14_last.plan.events]
                found += any(" ".join(one.statement.split()) in " ".join(text.split()) for text in texts)
                right += contains(answer, [one.value])
            stats = memory.store.stats()
        return found, right, stats.num_bytes / stats.num_tokens

    @torch.no_grad()
    def _generate(self, text: str, namespace: str, mode: str, num_tokens: int) -> str:
        encoded = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=True
        )
        ids = torch.tensor([encoded["input_ids"]])
        output = self.model.generate(
            ids, max_new_tokens=num_tokens, do_sample=False, v14_namespace=namespace, v14_memory=mode
        )
        return str(self.tokenizer.decode(output[0, ids.shape[1] :], skip_special_tokens=True))


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
    quality.add_argument("--codecs", nargs="+", default=["native", "int8", "int4", "int4-flat"])
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
        for codec in options.codecs:
            begin = time.perf_counter()
            found, right, size = asker.ask(codec, questions)
            row = {
                "model": options.directory.name,
                "codec": codec,
                "asked": len(questions),
                "recalled": found,
                "answered": right,
                "bytes_per_token": round(size),
                "seconds": round(time.perf_counter() - begin),
            }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
