"""Deriving a `TurnFormat` from a tokenizer's chat template, by rendering conversations whose contents are known.

The template is asked, never read: sentinel texts are rendered as turns, and what stands between them is what opens and
closes a turn. This works for every template that wraps turns in fixed text (ChatML, Llama 3, Gemma, Mistral and their
like); the result is checked on a conversation before it is used.
"""

from typing import Any

from v14.errors import UpgradeError
from v14.events.turns import TurnFormat

SENTINELS = (("Kwyjibo", "Zyxomma", "Qophet", "Vaxjo"), ("93 dill", "58 rue", "27 sage", "64 mint"))
"""Contents of four turns, twice, with different first and last characters: what both renderings share is wrapping."""

TEMPLATE_REMEDY = "; correct chat_template in the checkpoint (tokenizer_config.json or chat_template.jinja)"


def turn_format(tokenizer: Any) -> TurnFormat:
    """The turn format of a (fast) Transformers tokenizer; without a chat template it has no openings.

    Raises `UpgradeError` when the template's turns cannot be told apart by fixed runs of tokens.
    """
    if not getattr(tokenizer, "chat_template", None):
        return TurnFormat(openings={})
    user, assistant = (_gap(tokenizer, ["user", "assistant", "user", "assistant"], n) for n in (2, 1))
    closing = _gap(tokenizer, ["user", "assistant", "user", "assistant"], 4)
    assert user is not None
    assert assistant is not None
    assert closing is not None
    openings = {"user": _without(user, closing), "assistant": _without(assistant, closing)}
    for role, opening in openings.items():
        if not opening:
            raise UpgradeError(
                f"the chat template writes nothing in front of {role} turns to find them again by{TEMPLATE_REMEDY}"
            )
    tool = _gap(tokenizer, ["user", "assistant", "tool"], 2, required=False)
    if tool and _without(tool, closing):
        openings.setdefault("tool", _without(tool, closing))
    system = _system_opening(tokenizer, openings["user"])
    if system:
        openings["system"] = system
    found = TurnFormat(openings=openings, closing=closing)
    _check(tokenizer, found)
    return found


def render(tokenizer: Any, messages: list[dict[str, str]], *, generate: bool = False) -> list[int]:
    """Token ids of a conversation, as a server would render it."""
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generate)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _gap(tokenizer: Any, roles: list[str], number: int, *, required: bool = True) -> tuple[int, ...] | None:
    """The tokens between contents number - 1 and number (or the end) that do not depend on the contents."""
    runs = []
    for contents in SENTINELS:
        messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=False)]
        try:
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
        except Exception as error:
            if required:
                raise UpgradeError(
                    f"the chat template refuses a plain conversation ({error}){TEMPLATE_REMEDY}"
                ) from error
            return None
        before = text.find(contents[number - 1])
        after = text.find(contents[number]) if number < len(roles) else len(text)
        if before < 0 or after < 0:
            if required:
                raise UpgradeError(f"the chat template does not keep the text of every turn{TEMPLATE_REMEDY}")
            return None
        start = before + len(contents[number - 1])
        runs.append([token for token, (a, b) in _tokens(tokenizer, text) if start <= a and b <= after])
    return tuple(runs[0]) if runs[0] == runs[1] else _common_start(*runs)


def _tokens(tokenizer: Any, text: str) -> list[tuple[int, tuple[int, int]]]:
    """Token ids of a text with their [start, end) characters."""
    if not getattr(tokenizer, "is_fast", False):
        raise UpgradeError(
            "the tokenizer cannot tell which characters a token covers; give the checkpoint a fast one (tokenizer.json)"
        )
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return list(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True))


def _common_start(one: list[int], other: list[int]) -> tuple[int, ...]:
    common = []
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        common.append(left)
    return tuple(common)


def _without(run: tuple[int, ...], closing: tuple[int, ...]) -> tuple[int, ...]:
    return run[len(closing) :] if closing and run[: len(closing)] == closing else run


def _system_opening(tokenizer: Any, user_opening: tuple[int, ...]) -> tuple[int, ...]:
    """The user's opening with the role exchanged, if the template writes that for a system message."""
    text = tokenizer.decode(user_opening)
    candidate = text.replace("user", "system", 1)
    ids = tuple(tokenizer(candidate, add_special_tokens=False)["input_ids"])
    messages = [{"role": "system", "content": SENTINELS[0][0]}, {"role": "user", "content": SENTINELS[0][1]}]
    try:
        rendered = tuple(render(tokenizer, messages))
    except Exception:  # noqa: BLE001 - a template without system turns says so in its own way
        return ()
    found = any(rendered[at : at + len(ids)] == ids for at in range(len(rendered)))
    return ids if candidate != text and found else ()


def _check(tokenizer: Any, found: TurnFormat) -> None:
    """A conversation cut by the format must give its roles and contents back."""
    roles = ["user", "assistant", "user", "assistant"]
    contents = ["The kettle is on.", "Thank you!", "7 cups, then?", "Yes: seven."]
    messages = [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
    ids = render(tokenizer, messages)
    told = [turn for turn in found.turns(ids) if turn.role != "system"]
    if [turn.role for turn in told] != roles:
        raise UpgradeError(
            f"the chat template's turns read back as {[turn.role for turn in told]}, not {roles}{TEMPLATE_REMEDY}"
        )
    for turn, content in zip(told, contents, strict=True):
        text = tokenizer.decode(ids[turn.content_start : turn.closing_start])
        if text.strip() != content:
            raise UpgradeError(
                f"the chat template's {turn.role} turn reads back as {text!r}, not {content!r}{TEMPLATE_REMEDY}"
            )
