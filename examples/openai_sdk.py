"""The `openai` SDK, unchanged, against a server with memory: tell in one chat, ask in another.

python examples/openai_sdk.py http://127.0.0.1:30000/v1
"""

import sys

from openai import OpenAI
from openai.types.chat import ChatCompletion


def show(what: str, reply: ChatCompletion) -> None:
    """Print an answer, and what the memory says about it: SGLang's `metadata` arrives as an ordinary field."""
    account = (reply.metadata or {}).get("v14", {})
    print(f"{what}\n  answer: {' '.join((reply.choices[0].message.content or '').split())}")
    for event in account.get("recalled", []):
        print(f"  recalled: {event['role']} said: {' '.join(event['text'].split())}")
    if not account.get("recalled"):
        print("  recalled: nothing")


def main(url: str) -> None:
    """Whose memory a request has is the `user` field here; a header says so, too."""
    client = OpenAI(base_url=url, api_key="unused")

    def chat(text: str, *, user: str, headers: dict[str, str] | None = None) -> ChatCompletion:
        return client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": text}],
            user=user,
            extra_headers=headers,
            temperature=0,
            max_tokens=32,
        )

    question = "What is my dog called?"
    show("ada tells", chat("My dog is called Bosun.", user="ada"))
    show("ada asks in a new chat", chat(question, user="ada"))
    show("ben asks", chat(question, user="ben"))
    show("ada by header", chat(question, user="ben", headers={"X-V14-Namespace": "ada", "X-V14-Memory": "read"}))
    show("ada without memory", chat(question, user="ada", headers={"X-V14-Memory": "off"}))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:30000/v1")
