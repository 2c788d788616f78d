"""The URL of a shared store: what it says, what is refused, and that no password is shown."""

from pathlib import Path

import pytest

from v14.config import Switches
from v14.errors import OptionError
from v14.home import SharedHome, parse_home


def test_parts_of_the_url() -> None:
    home = parse_home(
        "postgresql://me:secret@db:6432/memory?sslmode=require&segments=s3://bucket/a/b/"
        "&endpoint=https://minio:9000&region=eu-west-1"
    )
    assert home == SharedHome(
        conninfo="postgresql://me:secret@db:6432/memory?sslmode=require",
        bucket="bucket", prefix="a/b", endpoint="https://minio:9000", region="eu-west-1",
    )  # fmt: skip
    assert home.segments == "s3://bucket/a/b"
    assert "secret" not in f"{home} {home!r}"
    assert "me@db:6432/memory" in str(home)


def test_a_socket_and_a_whole_bucket() -> None:
    home = parse_home("postgres://me@/memory?host=/run/postgresql&segments=s3://bucket")
    assert home.conninfo == "postgresql://me@/memory?host=%2Frun%2Fpostgresql"
    assert home.segments == "s3://bucket"


def test_directories_stay_directories() -> None:
    assert parse_home("/some/where") == Path("/some/where")
    assert Switches.read({"SGLANG_V14_MEMORY_HOME": "memory"}).memory_home == Path("memory")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://me@db/memory", r"segments=s3://bucket/prefix is missing"),
        ("postgresql://me@db/memory?segments=/srv", "segments"),
        ("postgresql://me@db/memory?segments=s3:///prefix", "segments"),
        ("postgresql://me@db/memory?segments=s3://bucket/../other", "segments"),
        ("postgresql://me@db/memory?segments=s3://bucket&endpoint=minio:9000", "endpoint"),
        ("postgresql://me@[db/memory?segments=s3://bucket", "does not read"),
        ("postgresql://me@db/memory?segments=s3://]", "does not read"),
        ("mysql://me@db/memory?segments=s3://bucket", "mysql:// is not known"),
        ("s3://bucket/prefix", "s3:// is not known"),
    ],
)
def test_what_cannot_work_is_refused_by_name(url: str, words: str) -> None:
    with pytest.raises(OptionError, match=f"SGLANG_V14_MEMORY_HOME: .*{words}"):
        Switches.read({"SGLANG_V14_MEMORY_HOME": url})


def test_messages_about_it_hide_the_password() -> None:
    home = SharedHome.parse("postgresql://me:s3cr%21t@db/memory?segments=s3://bucket")
    assert home.hide('bad option in\n"postgresql://me:s3cr%21t@db"') == 'bad option in "postgresql://me:***@db"'
    assert SharedHome.parse("postgresql://me@db/memory?segments=s3://bucket").hide("a  b") == "a b"
