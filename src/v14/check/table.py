"""The check's table, for people."""

from rich.table import Table

from v14.check.rows import Report

MEANINGS = {
    "facts": "facts told in one chat, asked in another",
    "facts_same_chat": "the same, told earlier in the same chat, memory off: the model's own ceiling",
    "facts_memory_off": "the same questions in a new chat, memory off",
    "right_event_recalled": "questions for which the event that told the fact was recalled",
    "unrelated": "unrelated questions right, memory on",
    "unrelated_memory_off": "unrelated questions right, memory off",
    "unrelated_recalling": "unrelated questions that recalled anything (fewer is better)",
    "facts_after_restart": "facts after 40 unrelated chats and a server restart",
    "right_event_recalled_after_restart": "right event recalled, after the same",
    "unrelated_after_restart": "unrelated questions right, after the same",
    "unrelated_recalling_after_restart": "unrelated questions that recalled anything, after the same",
    "four_at_once": "four chats telling and asking at once",
    "long_prompt": "a fact in the middle of a long prompt, asked in another chat",
    "long_prompt_tokens": "length of that prompt",
    "dropped_stream": "a fact told in a stream that the client dropped is recalled",
    "first_token_on": "first-token wait, memory on (median)",
    "first_token_off": "first-token wait, memory off (median)",
    "decode_on": "decode speed, memory on (median)",
    "decode_off": "decode speed, memory off (median)",
    "timed_recalling": "timed requests with memory on that recalled something",
    "failed_requests": "requests that the server answered with an error",
    "bytes_per_token": "store size per stored token",
    "tracebacks": "tracebacks in the server's logs",
}


def render(report: Report) -> Table:
    """The rows with what they mean; skipped ones named at the end."""
    table = Table(title=f"v14 check · {report.model} · seed {report.seed}", title_justify="left")
    table.add_column("row", no_wrap=True)
    table.add_column("result", justify="right", no_wrap=True)
    table.add_column("what it is")
    for row in report.rows:
        table.add_row(row.name, str(row), MEANINGS.get(row.name, ""))
    for name, why in report.skipped.items():
        table.add_row(name, "skipped", why, style="dim")
    return table
