"""Speculative decoding with memory: what drafts are worth, and whether replies are those without drafts.

    python -m benchmarks.gpu.speculative --out DIR [--model V14-DIRECTORY] [--algorithm NGRAM]

Facts are told, and asked in another chat, of a server that drafts and of one that does not; both have a memory of their
own. The accept length is the number of tokens that one pass of the served model gives, over all replies:

    nothing recalled   the same prompts, memory off and on, in a namespace that holds nothing of use
    recalled           the question behind its span, against a prompt that has the span's tokens at the same place
    told in the chat   the same against the question behind statement and reply in one chat, where replies are others

Without `--model` it is a small Qwen3.5 with random weights and a random draft layer (NEXTN): what its drafts are worth
says nothing, that its replies are those without drafts does. On a CPU SGLang drafts nothing: accept lengths are 1.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.checkpoints import dummy_v14_directory
from benchmarks.gpu.first_token import Row
from benchmarks.gpu.servers import machine, server_of
from tests.serving import flush_cache, generate, turn
from tests.tiny import turns_of
from v14.check.facts import generate as facts_of
from v14.check.server import Server
from v14.events.cut import UNWRITTEN_ROLES
from v14.profile import Profile
from v14.reinstate.layout import new_part

ACCEPT_BOUND = 0.98
SAME_BOUND = 1.0
SEED = 21
DRAFTS = ("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4")


@dataclass(frozen=True, kw_only=True)
class Case:
    """Token ids of a statement, of a question in a chat of its own, and of both in one chat."""

    told: list[int]
    asked: list[int]
    together: list[int]


def real_cases(model_dir: Path, number: int) -> list[Case]:
    """Facts of `v14 check`, of a seed that it does not report."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_dir)

    def ids(*contents: str, answering: bool = True) -> list[int]:
        roles = ("user", "assistant") * len(contents)
        messages = [{"role": role, "content": text} for role, text in zip(roles, contents, strict=False)]
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=answering, tokenize=False)
        found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    return [
        Case(
            told=ids(fact.statement),
            asked=ids(fact.question),
            together=ids(fact.statement, "Okay.", fact.question),
        )
        for fact in facts_of(SEED, number)
    ]


def dummy_cases(model_dir: Path, number: int) -> list[Case]:
    """Random tokens."""
    opening = list(turns_of(model_dir).openings["assistant"])
    head = turn(model_dir, "system", 12, seed=1)
    cases = []
    for seed in range(number):
        statement, question = turn(model_dir, "user", 40, seed=seed), turn(model_dir, "user", 24, seed=1000 + seed)
        cases.append(
            Case(told=head + statement, asked=head + question + opening, together=head + statement + question + opening)
        )
    return cases


class Typed:
    """Prompts with the tokens of what is recalled in place, as text would stand there."""

    def __init__(self, model_dir: Path) -> None:
        self._cutter = Profile.load(model_dir).cutter

    def ids(self, case: Case, recalled: Sequence[str], namespace: str) -> list[int]:
        """The question behind the events `recalled`, in their order."""
        cuts = self._cutter.cut(case.told, namespace=namespace, said_at=0.0, chat_id="")
        events = {cut.event.id: cut.event.token_ids for cut in cuts}
        start, _ = new_part(self._cutter.turns.turns(case.asked), UNWRITTEN_ROLES)
        return [*case.asked[:start], *(token for id in recalled for token in events[id]), *case.asked[start:]]


class Counted:
    """Replies of one server, and what its drafts were worth in them."""

    def __init__(self, server: Server, num_tokens: int) -> None:
        self._server, self._num_tokens = server, num_tokens
        self.tokens = self.passes = 0

    def ask(self, ids: Sequence[int], mode: str, namespace: str, *, recalls: bool) -> list[int]:
        """A reply's tokens. Raises `RuntimeError` if it recalled something and should not have, or the other way."""
        reply = generate(self._server, list(ids), num_tokens=self._num_tokens, mode=mode, namespace=namespace)
        if "output_ids" not in reply:
            raise RuntimeError(f"no reply: {reply}\n{self._server.log_tail()}")
        meta = reply["meta_info"]
        if bool(meta["v14"]["recalled"]) != recalls:
            raise RuntimeError(f"recalled {meta['v14']['recalled']}: {meta['v14'].get('reason')}")
        self.tokens += meta["completion_tokens"]
        self.passes += meta.get("spec_verify_ct") or meta["completion_tokens"]
        found: list[int] = reply["output_ids"]
        return found

    @property
    def accept_length(self) -> float:
        """Tokens for each pass of the served model."""
        return self.tokens / max(1, self.passes)


def rows_of(drafting: Server, plain: Server, cases: Sequence[Case], typed: Typed, num_tokens: int) -> list[Row]:
    """All figures; both servers are started and empty."""
    for server in (drafting, plain):
        for number, case in enumerate(cases):
            generate(server, case.told, num_tokens=1, mode="write", namespace=f"fact {number}")
            generate(server, case.asked, num_tokens=1, mode="write", namespace=f"known {number}")
    # What drafts are worth behind a span can only be seen where one is recalled.
    found = {number: _recalled(plain, case, number) for number, case in enumerate(cases)}
    recalling = [number for number, recalled in found.items() if recalled]
    if len(recalling) < len(cases) / 2:
        raise RuntimeError(f"only {len(recalling)} of {len(cases)} facts are recalled")
    counted = {name: Counted(drafting, num_tokens) for name in ("off", "nothing", "typed", "recalled", "together")}
    without = Counted(plain, num_tokens)
    same = {"nothing": 0, "off": 0, "recalled": 0, "typed": 0}
    for number in recalling:
        case = cases[number]
        tokens = typed.ids(case, found[number], f"fact {number}")
        pairs = [
            # What the prompt holds already is not recalled: the question is all that its namespace knows.
            lambda n=number, c=case: counted["nothing"].ask(c.asked, "read", f"known {n}", recalls=False),
            lambda n=number, c=case: counted["off"].ask(c.asked, "off", f"known {n}", recalls=False),
            lambda n=number, c=case: counted["recalled"].ask(c.asked, "read", f"fact {n}", recalls=True),
            lambda n=number, ids=tokens: counted["typed"].ask(ids, "off", f"fact {n}", recalls=False),
        ]
        # An n-gram draft learns from every reply: who comes first changes from one case to the next.
        replies: dict[int, list[int]] = {}
        for place in (0, 1, 2, 3) if number % 2 else (1, 0, 3, 2):
            flush_cache(drafting)
            replies[place] = pairs[place]()
        flush_cache(drafting)
        counted["together"].ask(case.together, "off", f"fact {number}", recalls=False)
        same["nothing"] += replies[0] == replies[1]
        # In bf16 drafts alone change replies: passes of other sizes round otherwise.
        same["off"] += replies[1] == without.ask(case.asked, "off", f"known {number}", recalls=False)
        same["typed"] += replies[2] == replies[3]
        same["recalled"] += replies[2] == without.ask(case.asked, "read", f"fact {number}", recalls=True)
    num_cases = len(recalling)
    lengths = {name: each.accept_length for name, each in counted.items()}
    rows = [
        _row("accept length, nothing recalled", lengths["off"], lengths["nothing"], ACCEPT_BOUND),
        _row("accept length, recalled / the same tokens typed", lengths["typed"], lengths["recalled"], ACCEPT_BOUND),
        _row("accept length, recalled / told in the chat", lengths["together"], lengths["recalled"], None),
        _row("replies of a memory that recalls nothing as without", num_cases, same["nothing"], SAME_BOUND),
        _row("replies behind a span as behind the same tokens typed", num_cases, same["typed"], None),
        _row("replies as without drafts, memory off / behind a span", same["off"], same["recalled"], None),
    ]
    for server in (drafting, plain):
        if server.tracebacks():
            raise RuntimeError(server.log_tail(60))
    return rows


def _recalled(server: Server, case: Case, number: int) -> list[str]:
    """Ids of what a question recalls."""
    reply = generate(server, case.asked, num_tokens=1, mode="read", namespace=f"fact {number}")
    return [event["id"] for event in reply["meta_info"]["v14"]["recalled"]]


def _row(figure: str, plain: float, memory: float, bound: float | None) -> Row:
    """Without a bound, for the record: in bf16 a pass of another size may round to another token."""
    ratio = memory / plain if plain else float(memory == plain)
    return Row(
        figure=figure, plain=plain, memory=memory, ratio=ratio, bound=bound or 0.0, holds=ratio >= (bound or 0.0)
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="a V14 directory")
    parser.add_argument("--algorithm", help="NGRAM for a model, NEXTN without one")
    parser.add_argument("--cases", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--backend", default="flashinfer", choices=["triton", "flashinfer"])
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as base, ExitStack() as stack:
        extra: tuple[str, ...] = ()
        if arguments.model is not None:
            model_dir, algorithm = arguments.model, arguments.algorithm or "NGRAM"
            cases, extra = real_cases(model_dir, arguments.cases), ("--context-length", "4096")
        else:
            options = {"reinstate": "reread", "write_generated": False}
            model_dir, algorithm = Path(base) / "model", arguments.algorithm or "NEXTN"
            dummy_v14_directory("small", model_dir, draft_layers=1, **options)
            cases, extra = dummy_cases(model_dir, arguments.cases), ("--load-format", "dummy")
        speculative = ("--speculative-algorithm", algorithm, *(DRAFTS if algorithm != "NGRAM" else ()))
        servers = []
        for name, drafts in (("drafting", speculative), ("plain", ())):
            given: Any = (*extra, *(drafts if torch.cuda.is_available() else ()))
            server = stack.enter_context(server_of(model_dir, Path(base) / name, *given, backend=arguments.backend))
            servers.append(server)
        try:
            for server in servers:
                server.start()
            rows = rows_of(*servers, cases, Typed(model_dir), arguments.tokens)
        finally:
            for server in servers:
                if server.log.exists():
                    (arguments.out / server.log.name).write_bytes(server.log.read_bytes()[-500_000:])
    what = f"{machine()['machine']}, {model_dir.name}, {algorithm}, {len(cases)} cases of {arguments.tokens} tokens"
    print(f"\n{what}")
    for row in rows:
        mark = "holds" if row.holds else "DOES NOT HOLD"
        print(f"{row.figure:<60}{row.plain:>9.4f}{row.memory:>9.4f}{row.ratio:>8.3f}  bound {row.bound:<5} {mark}")
    result = {**machine(), "what": what, "rows": [asdict(row) for row in rows]}
    (arguments.out / f"speculative-{algorithm.lower()}.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
