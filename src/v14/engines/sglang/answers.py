"""What the routes under `/v14/` take and give. Times are Unix seconds."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from v14.inspector.stories import said
from v14.inspector.words import Decode

MAX_IDS = 1000


class Forget(BaseModel):
    """What is to be forgotten: events that fulfil everything given, or `everything`."""

    model_config = ConfigDict(extra="forbid")

    namespace: str | None = Field(default=None, description="whose; that of the request by default")
    ids: list[str] = Field(default=[], max_length=MAX_IDS, description="events")
    alike: bool = Field(default=True, description="with `ids`: also events that say the same in the same words")
    chat_id: str = Field(default="", description="events of this chat")
    since: float | None = Field(default=None, description="said at this time or later, Unix seconds")
    until: float | None = Field(default=None, description="said before this time, Unix seconds")
    request: str = Field(default="", description="id of a request (of a reply): what it recalled or wrote")
    deed: Literal["recalled", "written", "both"] = Field(default="both", description="with `request`: which of the two")
    everything: bool = Field(default=False, description="all of the namespace")

    def selection(self) -> dict[str, Any]:
        """As the scheduler takes it."""
        return self.model_dump(exclude={"namespace"})


class Forgotten(BaseModel):
    """What was forgotten. `in_flight` requests that held some of it were told to end and have not yet."""

    namespace: str
    forgotten: int
    ids: list[str]
    in_flight: int


class Unlink(BaseModel):
    """Two events of which the `later` one is not to supersede the `earlier` one any more."""

    model_config = ConfigDict(extra="forbid")

    namespace: str | None = Field(default=None, description="whose; that of the request by default")
    later: str = Field(description="id of the event that supersedes")
    earlier: str = Field(description="id of the event that is superseded")


class Unlinked(BaseModel):
    """How many links were taken out: 0 where there was none."""

    namespace: str
    unlinked: int


class Item(BaseModel):
    """An event, in words: `text` is all of it, `words` what was said, without the marks of the chat template.

    `recalled_at` is null where it never was, and for those with whom the namespace is shared; `num_bytes` are those of
    its trace, `form` how that lies on disk (empty: as it was computed).
    """

    id: str
    namespace: str
    chat_id: str
    role: str
    said_at: float
    num_tokens: int
    text: str
    words: str
    recalled_at: float | None
    num_bytes: int
    form: str

    @classmethod
    def of(cls, event: Mapping[str, Any], decode: Decode) -> "Item":
        """From what the scheduler says of an event."""
        spoken = said(dict(event), decode)
        return cls(**{name: spoken[name] for name in cls.model_fields})


class Page(BaseModel):
    """Events of a namespace; `num_events` there are before `text` is looked for, `next` is the `start` of the following
    page, or null."""

    events: list[Item]
    num_events: int
    next: int | None


class Count(BaseModel):
    """A namespace and how many events it holds."""

    namespace: str
    num_events: int
    writable: bool


class Stats(BaseModel):
    """What a namespace holds. `num_pending` counts events of the whole server that are not on disk yet; `store` and
    `counters` are the whole server's, and an operator's to see."""

    namespace: str
    num_events: int
    num_tokens: int
    num_chats: int
    roles: dict[str, int]
    first_said_at: float | None
    last_said_at: float | None
    num_pending: int
    store: dict[str, int] | None = None
    counters: dict[str, int] | None = None


class Sums(BaseModel):
    """Some events together: `said_at` is when one of them was said last, `recalled_at` when one was recalled last."""

    num_events: int
    num_tokens: int
    num_bytes: int
    said_at: float | None
    recalled_at: float | None


class Use(Sums):
    """How much a namespace holds."""

    namespace: str
    num_chats: int
    writable: bool


class Uses(BaseModel):
    """Namespaces by name; `next` as in `Page`."""

    namespaces: list[Use]
    num_namespaces: int
    next: int | None


class Chat(Sums):
    """A chat: `since` is when its first event was said, `first` that event."""

    chat_id: str
    since: float
    first: Item | None


class Chats(BaseModel):
    """Chats, that first in which something was said last; `next` as in `Page`."""

    chats: list[Chat]
    num_chats: int
    next: int | None


class Tie(BaseModel):
    """A stored link to another event: `association`, or `supersedes` where the source is the newer statement."""

    kind: str
    weight: float
    outgoing: bool
    event: Item


class Lead(BaseModel):
    """An event that shares rare words: how much (1 is as rare as can be shared), and which words, rarest first."""

    shared: float
    words: list[str]
    event: Item


class Recall(BaseModel):
    """A request that recalled an event, and what it asked."""

    id: str
    at: float
    asked: str


class Ties(BaseModel):
    """An event and what it is tied to; `before` is what stands in front of it in its chat."""

    event: Item
    before: Item | None
    links: list[Tie]
    leads: list[Lead]
    recalled_by: list[Recall]


class Losses(Sums):
    """What would be forgotten: its sums, and the newest of its events."""

    namespace: str
    num_chats: int
    since: float | None
    events: list[Item]


class Brief(BaseModel):
    """A request in a list: what was asked, what came of it, milliseconds to the first token and from there to the last.

    What is null is not known: the request still runs, or nothing was voted for.
    """

    id: str
    at: float
    asked: str
    num_prompt: int
    num_recalled: int
    best_vote: float | None
    floor: float
    num_written: int | None
    first_token_ms: float | None
    decode_ms: float | None


class Briefs(BaseModel):
    """Requests of a namespace, newest first; `next` as in `Page`."""

    requests: list[Brief]
    num_requests: int
    next: int | None


class Me(BaseModel):
    """What the caller may do: `namespace` is its own, null for an operator without one."""

    policy: str
    namespace: str | None
    shared: list[str]
    operator: bool
