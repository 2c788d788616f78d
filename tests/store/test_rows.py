"""Rows as SQLite may give them: any type in any column, and no error but those that set an event aside."""

from contextlib import suppress
from dataclasses import fields, replace

import pytest

from tests.store.making import made
from v14.store.row import Row
from v14.store.spec import Spec


@pytest.mark.parametrize("name", [field.name for field in fields(Row)])
@pytest.mark.parametrize("value", [None, b"\xff", "text", -1, 1 << 62, float("nan")], ids=repr)
def test_any_type_in_any_column(name: str, value: object) -> None:
    event, trace = made(3)
    row = replace(Row.of(event, Spec.of(trace), "1.safetensors", stored_at=1.0, recalled_at=0.0), **{name: value})
    for read in (row.event, lambda: row.spec):
        with suppress(ValueError):
            read()
