"""Whose memory a request has: who says so, who may not, and what is wrong with the files that say it."""

import hashlib
import json

import pytest

from v14.config import Switches
from v14.errors import OptionError, RefusedError
from v14.namespaces import Access, Namespaces

SECRET = "a secret of the proxy"


def digest(key):
    return hashlib.sha256(key.encode()).hexdigest()


def written(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def server(tmp_path, policy, keys=None, secret=None, **more):
    """The rule of a server with these switches; `keys` are the entries of its file."""
    environ = {"SGLANG_V14_NAMESPACES": policy, **more}
    if keys is not None:
        environ["SGLANG_V14_KEYS"] = written(tmp_path / "keys.json", json.dumps({"keys": keys}))
    if secret is not None:
        environ["SGLANG_V14_PROXY_SECRET"] = written(tmp_path / "secret", secret + "\n")
    return Namespaces.open(Switches.read(environ))


KEYS = [
    {"sha256": digest("k-ann"), "namespace": "ann", "shared": ["handbook", "faq"]},
    {"sha256": digest("k-bob"), "namespace": "bob"},
    {"sha256": digest("k-op"), "operator": True},
]


def bearer(key, **headers):
    return {"authorization": f"Bearer {key}", **{name.replace("_", "-"): value for name, value in headers.items()}}


@pytest.mark.parametrize(
    ("headers", "user", "expected"),
    [
        ({}, None, Access(namespace="default")),
        ({}, "ann", Access(namespace="ann")),
        ({"x-v14-namespace": "team"}, "ann", Access(namespace="team")),
        ({"x-v14-namespace": "t", "x-v14-shared": "a, b,t, a"}, None, Access(namespace="t", shared=("a", "b"))),
        (bearer("k-ann"), None, Access(namespace="ann")),
        (bearer("k-op"), None, Access(namespace=None, operator=True)),
        (bearer("sk-unknown"), None, Access(namespace="default")),
    ],
)
def test_open_believes_what_it_is_told(tmp_path, headers, user, expected):
    assert server(tmp_path, "open", KEYS).access(headers, user) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (bearer("k-ann"), Access(namespace="ann", shared=("handbook", "faq"))),
        ({"authorization": "bearer  k-bob"}, Access(namespace="bob")),
        (bearer("sglangs own", x_v14_key="k-bob"), Access(namespace="bob")),
        (bearer("k-ann", x_v14_namespace="ann"), Access(namespace="ann", shared=("handbook", "faq"))),
        (bearer("k-ann", x_v14_shared="faq"), Access(namespace="ann", shared=("faq",))),
        (bearer("k-op", x_v14_namespace="bob"), Access(namespace="bob", operator=True)),
    ],
)
def test_keyed_asks_the_key(tmp_path, headers, expected):
    assert server(tmp_path, "keyed", KEYS).access(headers, "mallory") == expected


@pytest.mark.parametrize(
    ("headers", "status", "says"),
    [
        ({}, 401, "API key is needed"),
        (bearer("k-eve"), 401, "API key is needed"),
        ({"authorization": "Basic k-ann"}, 401, "API key is needed"),
        ({"x-v14-namespace": "ann"}, 401, "API key is needed"),
        (bearer("k-bob", x_v14_namespace="ann"), 403, "another namespace"),
        (bearer("k-bob", x_v14_shared="ann"), 403, "x-v14-shared"),
        (bearer("k-ann", x_v14_shared="faq,bob"), 403, "x-v14-shared"),
        (bearer("k-ann", x_v14_namespace="a\nb"), 400, "printable"),
        (bearer(digest("k-ann")), 401, "API key is needed"),
    ],
)
def test_keyed_refuses(tmp_path, headers, status, says):
    with pytest.raises(RefusedError, match=says) as refused:
        server(tmp_path, "keyed", KEYS).access(headers)
    assert refused.value.status_code == status


def test_required_believes_the_proxy_alone(tmp_path):
    rule = server(tmp_path, "required", KEYS, SECRET, SGLANG_V14_NAMESPACE_HEADER="X-User")
    proxied = {"x-user": "ann", "x-v14-shared": "handbook", "x-v14-proxy-secret": SECRET}
    assert rule.access(proxied, "mallory") == Access(namespace="ann", shared=("handbook",))
    for headers, status in (
        ({"x-user": "ann"}, 401),
        ({**proxied, "x-v14-proxy-secret": SECRET + "!"}, 401),
        ({**proxied, "x-v14-proxy-secret": "ü"}, 401),
        ({"x-v14-proxy-secret": SECRET, "x-v14-namespace": "ann"}, 403),
        (bearer("k-ann"), 401),
    ):
        with pytest.raises(RefusedError) as refused:
            rule.access(headers, "mallory")
        assert refused.value.status_code == status
    assert rule.access(bearer("k-op", x_user="bob")) == Access(namespace="bob", operator=True)


def test_a_key_without_a_namespace_is_not_served():
    with pytest.raises(RefusedError, match="no namespace"):
        _ = Access(namespace=None, operator=True).own


def test_who_may_read_and_forget():
    reader = Access(namespace="ann", shared=("handbook",))
    operator = Access(namespace=None, operator=True)
    assert [reader.may_read(name) for name in ("ann", "handbook", "bob")] == [True, True, False]
    assert [reader.may_forget(name) for name in ("ann", "handbook", "bob")] == [True, False, False]
    assert operator.may_read("bob")
    assert operator.may_forget("bob")


GOOD = f'[[keys]]\nsha256 = "{digest("k")}"\nnamespace = "n"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "keys: Field required"),
        ("keys = []", "at least 1 item"),
        (GOOD + 'colour = "red"', "Extra inputs"),
        (GOOD.replace('namespace = "n"', 'namespace = "a,b"'), "without commas"),
        (GOOD.replace('namespace = "n"', ""), "operator = true"),
        (GOOD.replace(digest("k"), "k"), "sha256"),
        (GOOD + GOOD, "stands there twice"),
        ("[[keys", "is not TOML"),
    ],
)
def test_a_file_of_keys_that_cannot_work_is_named(tmp_path, text, says):
    path = written(tmp_path / "keys.toml", text)
    with pytest.raises(OptionError, match=says) as refused:
        Namespaces.open(Switches.read({"SGLANG_V14_NAMESPACES": "keyed", "SGLANG_V14_KEYS": path}))
    assert f"SGLANG_V14_KEYS={path}" in str(refused.value)


def test_a_good_file_is_read(tmp_path):
    path = written(tmp_path / "keys.toml", GOOD)
    rule = Namespaces.open(Switches.read({"SGLANG_V14_NAMESPACES": "keyed", "SGLANG_V14_KEYS": path}))
    assert rule.access(bearer("k")) == Access(namespace="n")


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"SGLANG_V14_NAMESPACES": "closed"}, "none of open, keyed, required"),
        ({"SGLANG_V14_NAMESPACES": "keyed"}, "SGLANG_V14_KEYS"),
        ({"SGLANG_V14_NAMESPACES": "required"}, "SGLANG_V14_PROXY_SECRET"),
        ({"SGLANG_V14_PROXY_SECRET": "/nowhere"}, "required only"),
        ({"SGLANG_V14_NAMESPACE_HEADER": "x user"}, "no name of a header"),
        ({"SGLANG_V14_NAMESPACES": "keyed", "SGLANG_V14_KEYS": "/nowhere"}, "cannot be read"),
    ],
)
def test_switches_that_do_not_fit_are_refused(environ, says):
    with pytest.raises(OptionError, match=says):
        Namespaces.open(Switches.read(environ))


def test_files_that_others_may_write_and_short_secrets_are_refused(tmp_path):
    with pytest.raises(OptionError, match="fewer than 16"):
        server(tmp_path, "required", secret="short")
    keys = tmp_path / "keys.toml"
    keys.write_text(GOOD)
    keys.chmod(0o622)
    with pytest.raises(OptionError, match="chmod go-w"):
        Namespaces.open(Switches.read({"SGLANG_V14_NAMESPACES": "keyed", "SGLANG_V14_KEYS": str(keys)}))
