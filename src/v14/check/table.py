"""The check's table, for people."""

from rich.table import Table

from v14.check.reference import COLUMNS, FIGURES, MACHINE
from v14.check.rows import Report

NO_FIGURES = ("",) * len(COLUMNS)

MEANINGS = {
    "facts": "facts told in one chat, asked in another",
    "facts_same_chat": "the same, told earlier in the same chat, memory off: the model's own ceiling",
    "facts_memory_off": "the same questions in a new chat, memory off",
    "right_event_recalled": "questions for which the event that told the fact was recalled",
    "unrelated": "unrelated questions right, memory on",
    "unrelated_memory_off": "unrelated questions right, memory off",
    "unrelated_recalling": "unrelated questions that recalled anything (fewer is better)",
    "facts_after_chats": "facts after unrelated chats (40 of the package's own)",
    "right_event_recalled_after_chats": "right event recalled, after the same",
    "unrelated_after_chats": "unrelated questions right, after the same",
    "unrelated_recalling_after_chats": "unrelated questions that recalled anything, after the same",
    "facts_after_restart": "facts after the unrelated chats and a server restart",
    "right_event_recalled_after_restart": "right event recalled, after the same",
    "unrelated_after_restart": "unrelated questions right, after the same",
    "unrelated_recalling_after_restart": "unrelated questions that recalled anything, after the same",
    "four_at_once": "four chats telling and asking at once",
    "long_prompt": "a fact in the middle of a long prompt, asked in another chat",
    "long_prompt_tokens": "length of that prompt",
    "dropped_stream": "a fact told in a stream that the client dropped is recalled",
    "corrected_once": "facts corrected once: what holds at present, asked in another chat",
    "corrected_once_same_chat": "the same, all in one chat, memory off: the model's own ceiling",
    "corrected_twice": "facts corrected twice: what holds at present",
    "corrected_twice_same_chat": "the same, all in one chat, memory off",
    "two_step": "questions that need two facts from two chats",
    "two_step_recalled": "two-step questions for which both statements were recalled",
    "two_step_same_chat": "two-step questions, all in one chat, memory off: the model's own ceiling",
    "picture": "a picture shown in one chat, asked about in another",
    "picture_same_chat": "the same in one chat, memory off",
    "first_token_on": "first-token wait, memory on (median)",
    "first_token_off": "first-token wait, memory off (median)",
    "decode_on": "decode speed, memory on (median)",
    "decode_off": "decode speed, memory off (median)",
    "timed_recalling": "timed requests with memory on that recalled something",
    "prefix_cold": "first token of a long prompt that is new, memory on (median)",
    "prefix_right_behind": "the same prompt again, right behind it",
    "prefix_after_pause": "the same prompt again, after a pause of 15 s",
    "prefix_cold_off": "first token of the long prompt, new, memory off",
    "prefix_right_behind_off": "again right behind it, memory off",
    "prefix_after_pause_off": "again after the pause, memory off",
    "prefix_tokens": "length of that prompt",
    "document_fact": "a fact in the middle of a document of 9,000 tokens, asked in another chat",
    "document_fact_same_chat": "the same in one chat, memory off",
    "document_read": "from sending that document to the reply",
    "document_stored": "from sending it until all of it is on disk",
    "document_tokens": "length of that document",
    "accept_length": "tokens accepted for each pass of speculative decoding",
    "failed_requests": "requests that the server answered with an error",
    "store_bytes": "size of the store's segments",
    "store_events": "events in the store",
    "store_tokens": "tokens of these events",
    "bytes_per_token": "store size per stored token",
    "tracebacks": "tracebacks in the server's logs",
}


def render(report: Report) -> Table:
    """The rows with what they mean and what another system reports; skipped ones named at the end."""
    questions = f" · questions of {report.questions}" if report.questions else ""
    table = Table(
        title=f"v14 check · {report.model} · seed {report.seed}{questions}", title_justify="left",
        caption=f"other system: {MACHINE}", caption_justify="left",
    )  # fmt: skip
    table.add_column("row", no_wrap=True)
    table.add_column("result", justify="right", no_wrap=True)
    table.add_column("what it is")
    for column in COLUMNS:
        table.add_column(column, style="dim")
    for row in report.rows:
        table.add_row(row.name, str(row), MEANINGS.get(row.name, ""), *FIGURES.get(row.name, NO_FIGURES))
    for name, why in report.skipped.items():
        table.add_row(name, "skipped", why, *FIGURES.get(name, NO_FIGURES), style="dim")
    return table
