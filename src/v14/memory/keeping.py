"""What the options and the environment say of the store."""

from contextlib import suppress

from v14.codecs.form import Form
from v14.config import Switches
from v14.errors import StoreError
from v14.home import SharedHome
from v14.profile import Profile
from v14.store import view
from v14.store.keeping import Keeping
from v14.store.master import master_key

GIB = 2**30
DAY_S = 86_400.0


def keeping_of(profile: Profile, switches: Switches) -> Keeping:
    """What the options and the environment say of the store. Keys of the voters' layers, which votes read, are never
    in less than 8 bits."""
    options, slots = profile.options, tuple(profile.voters.slots(profile.geometry))
    only = slots if options.trace == "voters" else None
    return Keeping(
        form=Form(codec=options.trace_codec, fine=slots, only=only),
        idle=Form(codec=options.idle_trace_codec, fine=slots, only=only),
        idle_s=options.idle_days * DAY_S,
        max_bytes=None if switches.max_store_gb is None else int(switches.max_store_gb * GIB),
        sync=switches.fsync,
    )


def check_store(switches: Switches, weights_id: str) -> None:
    """Before anything is started: raise `StoreKeyError` for a key that is none or not the store's.

    That of a shared store is checked when it is opened.
    """
    master = master_key(switches)
    if not isinstance(switches.memory_home, SharedHome):
        with suppress(StoreError):  # the store says so itself when it is opened, and the server goes on without memory
            view.check_key(switches.memory_home, weights_id, master)
