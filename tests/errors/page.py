"""docs/errors.md, from the source and from what was recorded."""

import json
from itertools import groupby
from pathlib import Path

from tests.errors.messages import ROOT, Message, messages
from v14.engines.sglang.server_args import RULES

PAGE = ROOT / "docs" / "errors.md"
PROVOKED = Path(__file__).with_name("provoked.json")
_REFUSALS = "tests/engines/sglang/test_refusals.py::"
_START = "tests/engines/sglang/test_start.py::"
_ARGUMENTS = "test_every_unserved_argument_is_named_before_anything_starts"
_STATES = "tests/engines/sglang/test_recording.py::test_states_of_another_shape_are_refused"
REFUSALS_TEST = f"{_REFUSALS}test_an_unserved_argument_is_named_with_a_remedy"

_DECODING = "tests/engines/sglang/test_decoding.py::"

BY_HAND = {
    "engines/sglang/decoding.py | refused at start": f"{_DECODING}test_what_is_not_served_together_is_refused_by_name",
    "engines/sglang/front.py | ValueError": "tests/engines/sglang/test_front.py::test_bad_headers_are_refused_by_name",
    "engines/sglang/hooks/start.py | refused at start": f"{_START}test_each_removed_hook_is_missed_at_start",
    "engines/sglang/hooks/start.py | SystemExit": _START + _ARGUMENTS,
    "engines/sglang/plugin.py | SystemExit": f"{_START}test_an_unknown_switch_stops_the_server",
    "engines/sglang/recurrent.py | refused at start": _STATES,
    "engines/sglang/symbols.py | refused at start": f"{_REFUSALS}test_a_seam_that_is_gone_or_changed_is_reported",
    "engines/sglang/server_args.py | refused at start": f"{_REFUSALS}test_what_the_engine_chose_by_itself_is_checked",
    "engines/sglang/shards.py | refused at start": f"{_REFUSALS}test_ranks_without_a_part_of_their_own_are_refused",
}
"""By file and kind the test of what the recorder does not see."""

HEAD = """# Messages

Every message that the memory stops with, where it comes from, and the test that provokes it; `…` stands for what is
filled in. Generated from the source (`python -m tests.errors`), kept true by `tests/errors`.

What the server log shows with `the request goes on without it` is none of these: such a failure costs a recall, and is
counted in `v14_errors_total`.
"""

TABLE = "| message | error | test |\n|---|---|---|"


def provoked() -> dict[str, str]:
    """By key the test of a message."""
    found: dict[str, str] = json.loads(PROVOKED.read_text())
    return found


def provoker_of(message: Message, tests: dict[str, str]) -> str:
    """The test of a message; empty where there is none."""
    return BY_HAND.get(f"{message.file} | {message.error}", tests.get(message.key, ""))


def page() -> str:
    """The whole page."""
    tests = provoked()
    parts = [HEAD, "## Server arguments\n\nOf the command line; all that apply come in one message.\n"]
    parts.append("| argument | what to do | test |\n|---|---|---|")
    for rule in RULES:
        parts.append(f"| `--{rule.argument.replace('_', '-')}` | {_cell(rule.remedy)} | `{REFUSALS_TEST}` |")
    for file, found in groupby(messages(), key=lambda message: message.file):
        parts += [f"\n## {file}\n", TABLE, *(_row(message, tests) for message in _once(list(found)))]
    return "\n".join(parts) + "\n"


def _once(found: list[Message]) -> list[Message]:
    return list({message.key: message for message in found}.values())


def _row(message: Message, tests: dict[str, str]) -> str:
    test = provoker_of(message, tests)
    return f"| {_cell(message.text)} | `{message.error}` | {f'`{test}`' if test else 'none yet'} |"


def _cell(text: str) -> str:
    """Text that a table and Markdown leave alone."""
    for sign in "\\|<>*_`[]":
        text = text.replace(sign, f"\\{sign}")
    return text
