"""LangChain's `ChatOpenAI`, unchanged, against a server with memory: tell in one chat, ask in another.

python examples/langchain_chat.py http://127.0.0.1:30000/v1
"""

import sys
from typing import Any

from langchain_openai import ChatOpenAI
from openai import DefaultHttpxClient


class Account:
    """What the memory says about the latest reply.

    LangChain passes on the fields of a reply that it knows, and `metadata` is none of them; its HTTP client shows the
    whole reply.
    """

    def __init__(self) -> None:
        self.recalled: list[dict[str, Any]] = []

    def __call__(self, response: Any) -> None:
        """A hook on responses."""
        response.read()
        self.recalled = (response.json().get("metadata") or {}).get("v14", {}).get("recalled", [])


def main(url: str) -> None:
    """One `ChatOpenAI` for everybody: `bind` says for each call whose memory it has and what it does with it."""
    account = Account()
    llm = ChatOpenAI(
        model="default",
        base_url=url,
        api_key="unused",
        temperature=0,
        max_tokens=32,
        http_client=DefaultHttpxClient(event_hooks={"response": [account]}),
    )

    def chat(what: str, text: str, *, namespace: str, memory: str = "both") -> None:
        mine = llm.bind(extra_headers={"X-V14-Namespace": namespace, "X-V14-Memory": memory})
        print(f"{what}\n  answer: {' '.join(str(mine.invoke(text).content).split())}")
        for event in account.recalled:
            print(f"  recalled: {event['role']} said: {' '.join(event['text'].split())}")
        if not account.recalled:
            print("  recalled: nothing")

    question = "In which city was my violin built?"
    chat("clara tells", "My violin was built in Cremona.", namespace="clara")
    chat("clara asks in a new chat", question, namespace="clara")
    chat("dan asks", question, namespace="dan")
    chat("clara without memory", question, namespace="clara", memory="off")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:30000/v1")
