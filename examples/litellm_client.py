"""LiteLLM, unchanged, against a server with memory: tell in one chat, ask in another.

LITELLM_LOCAL_MODEL_COST_MAP=True python examples/litellm_client.py http://127.0.0.1:30000/v1

The variable keeps LiteLLM from asking the internet for a price list.
"""

import sys
from typing import Any

import litellm


def show(what: str, reply: Any) -> None:
    """Print an answer, and what the memory says about it: `metadata` is a field of LiteLLM's reply, too."""
    account = (getattr(reply, "metadata", None) or {}).get("v14", {})
    print(f"{what}\n  answer: {' '.join((reply.choices[0].message.content or '').split())}")
    for event in account.get("recalled", []):
        print(f"  recalled: {event['role']} said: {' '.join(event['text'].split())}")
    if not account.get("recalled"):
        print("  recalled: nothing")


def main(url: str) -> None:
    """Whose memory a request has is the `user` field or a header."""

    def chat(text: str, *, user: str | None = None, headers: dict[str, str] | None = None) -> Any:
        return litellm.completion(
            model="openai/default",
            api_base=url,
            api_key="unused",
            messages=[{"role": "user", "content": text}],
            user=user,
            # Of a model that it does not know, LiteLLM would drop `user` without a word.
            allowed_openai_params=["user"],
            extra_headers=headers,
            temperature=0,
            max_tokens=32,
        )

    question = "What is the gate code of the allotment?"
    show("eva tells", chat("The gate code of the allotment is 7302.", user="eva"))
    show("eva asks in a new chat", chat(question, user="eva"))
    show("finn asks", chat(question, user="finn"))
    show("eva by header", chat(question, headers={"X-V14-Namespace": "eva", "X-V14-Memory": "read"}))
    show("eva without memory", chat(question, user="eva", headers={"X-V14-Memory": "off"}))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:30000/v1")
