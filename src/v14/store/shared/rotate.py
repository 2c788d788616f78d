"""Other store keys for a shared store, while no server has it open."""

from collections.abc import Callable, Sequence

import psycopg

from v14.errors import StoreError
from v14.home import SharedHome
from v14.store.layout import HOME_VARIABLE
from v14.store.shared.connection import connect, hold_alone
from v14.store.shared.schema import schema_of
from v14.store.shared.statements import replace_keys, stored_keys
from v14.store.vault import StoreKey


def rotate(home: SharedHome, weights_id: str, rewrap: Callable[[Sequence[StoreKey]], Sequence[StoreKey]]) -> int:
    """Replace the store keys by what `rewrap` makes of them, in one transaction; how many there are then.

    A server that runs knows the keys that there were when it was started, and would pass over what others seal with new
    ones. Raises `StoreError` where one runs or the database cannot be reached, and what `rewrap` raises.
    """
    schema = schema_of(weights_id)
    try:
        with connect(home.conninfo, schema) as connection:
            if not hold_alone(connection, schema):
                raise StoreError(
                    f"servers have the store of {weights_id} open, or something looks into it; its keys stay as they "
                    "are. Stop every server of it, then try again."
                )
            with connection.transaction():
                keys = rewrap(stored_keys(connection))
                replace_keys(connection, keys)
            return len(keys)
    except psycopg.Error as error:
        why = home.hide(str(error))
        raise StoreError(
            f"the keys of the shared store {home} stay as they are: {why}. Check {HOME_VARIABLE}."
        ) from error
