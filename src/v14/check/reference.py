"""Figures of the system that this one is measured against, as its makers report them. They are another machine's.

One run with few questions on an RTX PRO 6000 Blackwell with models of another size: the columns say what is to be
reached, and cannot be divided by one another.
"""

MACHINE = (
    "RTX PRO 6000 Blackwell, one run, few questions: another machine, other models, not comparable second by second"
)
COLUMNS = ("other system, Qwen3.8-27B", "other system, Nemotron 3.5 Super 120B NVFP4")

FIGURES: dict[str, tuple[str, str]] = {
    "facts": ("6/6", "5/6"),
    "unrelated": ("4/4", "4/4"),
    "facts_after_chats": ("6/6", "5/6"),
    "unrelated_after_chats": ("4/4", "4/4"),
    "four_at_once": ("4/4", "4/4"),
    "document_fact": ("answered (9,442 tokens)", "not answered (14,812 tokens)"),
    "corrected_once": ("6/6", "0/6"),
    "two_step": ("3/6", "1/6"),
    "first_token_on": ("0.62, 0.79, 0.83 s", "0.47, 0.66, 0.63 s"),
    "first_token_off": ("0.09 to 0.30 s", ""),
    "decode_on": ("42.2 tokens/s", "126.0 tokens/s"),
    "decode_off": ("46.9 to 58.5 tokens/s", ""),
    "prefix_tokens": ("1,984 tokens", "3,634 tokens"),
    "prefix_cold": ("2.342 s", "4.84 s"),
    "prefix_after_pause": ("0.513 s", "0.361 s"),
    "prefix_right_behind": ("3.944 s", "0.775 s"),
    "accept_length": ("2.93", "3.17"),
    "store_bytes": ("875.7 MB", "622.0 MB"),
    "store_tokens": ("18,763 tokens", "21,899 tokens"),
    "store_events": ("205 events", "256 events"),
    "document_stored": ("about 12 s (9k tokens)", ""),
    "picture": ("remembered", "served without memory"),
}
"""By row what stands in the two columns; "" where nothing is reported."""
