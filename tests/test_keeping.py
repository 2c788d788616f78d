"""From options and environment to what the store keeps."""

from pathlib import Path

from tests.tiny import tiny_v14
from v14.config import Switches
from v14.memory import keeping_of
from v14.profile import Profile


def test_voters_keys_stay_fine_where_idle_traces_alone_are_in_4_bits(tmp_path: Path) -> None:
    profile = Profile.load(tiny_v14("llama", tmp_path, idle_trace_codec="int4"))
    keeping = keeping_of(profile, Switches())
    assert keeping.form.text == ""
    assert (keeping.idle.codec, keeping.idle.fine) == ("int4", tuple(profile.voters.slots(profile.geometry)))
