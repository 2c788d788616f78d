"""The client against the fake server, and against what is no server at all."""

import pytest

from tests.check.fake_server import FakeModel, serve
from v14.check.client import Account, ChatClient
from v14.check.server import free_port
from v14.errors import CheckError

HELLO = [{"role": "user", "content": "My boat is called Quasar."}]


def test_headers_and_account():
    model = FakeModel("good")
    with serve(model) as url:
        client = ChatClient(url=url, namespace="anna")
        assert client.healthy()
        assert client.model() == "fake"
        client.chat(HELLO, max_tokens=4, memory="write")
        reply = client.chat([{"role": "user", "content": "What is my boat called?"}], max_tokens=4)
    assert [(r["namespace"], r["memory"]) for r in model.requests] == [("anna", "write"), ("anna", "both")]
    assert reply.text == "Quasar"
    assert [event.text for event in reply.account.recalled] == ["My boat is called Quasar."]
    assert (reply.account.floor, reply.account.votes) == (0.1, (0.5,))


def test_stream_is_timed_and_can_be_dropped():
    with serve(FakeModel("good")) as url:
        client = ChatClient(url=url)
        whole = client.stream(HELLO, max_tokens=8)
        dropped = client.stream(HELLO, max_tokens=8, drop_after=1)
        assert client.healthy()
    assert whole.text == "One two three"
    assert 0 < whole.first_token_s < whole.last_token_s
    assert whole.decode_tokens_per_s == pytest.approx(7 / (whole.last_token_s - whole.first_token_s))
    assert whole.completion_tokens == 8
    assert whole.account is not None
    assert dropped.text == "One"


def test_no_server_is_a_check_error_that_names_the_address():
    client = ChatClient(url=f"http://127.0.0.1:{free_port()}")
    assert not client.healthy()
    with pytest.raises(CheckError, match=r"127\.0\.0\.1"):
        client.chat(HELLO, max_tokens=1)
    with pytest.raises(CheckError, match=r"127\.0\.0\.1"):
        client.stream(HELLO, max_tokens=1)
    with pytest.raises(CheckError, match="no address"):
        ChatClient(url="localhost:30000").model()


@pytest.mark.parametrize("metadata", [None, {}, {"weight_version": "default"}, {"v14": None}])
def test_no_account_without_the_memory(metadata):
    assert Account.parse(metadata) is None


def test_account_of_a_request_with_the_memory_off():
    assert Account.parse({"v14": {"memory": "off", "recalled": []}}) == Account(memory="off")
