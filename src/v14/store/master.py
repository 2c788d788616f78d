"""Where the operator's key comes from: SGLANG_V14_KEY, SGLANG_V14_KEY_FILE or SGLANG_V14_KEY_COMMAND, at most one."""

import logging
import re
import shlex
import stat
import subprocess
from pathlib import Path

from v14.config import ENV_PREFIX, Switches
from v14.errors import StoreKeyError
from v14.store.seal import KEY_BYTES, MasterKey

log = logging.getLogger("v14.store")

COMMAND_TIMEOUT_S = 30.0
MAX_KEY_FILE_BYTES = 4096


def master_key(switches: Switches) -> MasterKey | None:
    """The key that the environment names, or None where it names none. Raises `StoreKeyError`."""
    if switches.key is not None:
        return parse_key(switches.key, f"{ENV_PREFIX}KEY")
    if switches.key_file is not None:
        return key_of_file(switches.key_file)
    if switches.key_command is not None:
        return key_of_command(switches.key_command)
    return None


def parse_key(text: str, source: str) -> MasterKey:
    """64 hexadecimal digits, space around them left out."""
    if not re.fullmatch(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}", text.strip()):
        raise StoreKeyError(
            f"{source} does not hold a key: {2 * KEY_BYTES} hexadecimal digits, as `openssl rand -hex {KEY_BYTES}` "
            "gives them"
        )
    return MasterKey(source=source, secret=bytes.fromhex(text.strip()))


def key_of_file(path: Path) -> MasterKey:
    """The key in a file. One that others may read is used, with a warning."""
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                log.warning("the key file %s can be read by others than its owner; chmod 600 it", path)
            text = file.read(MAX_KEY_FILE_BYTES).decode(errors="replace")
    except OSError as error:
        raise StoreKeyError(f"the key file {path} cannot be read ({error}); see {ENV_PREFIX}KEY_FILE") from error
    return parse_key(text, str(path))


def key_of_command(command: str) -> MasterKey:
    """What a command writes to its standard output; it is run without a shell and has 30 seconds."""
    source = f"{ENV_PREFIX}KEY_COMMAND"
    try:
        words = shlex.split(command)
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=COMMAND_TIMEOUT_S)
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        # What a command wrote before it was ended may be the key: `error` of a timeout holds it and is not shown.
        why = "took too long" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        raise StoreKeyError(
            f"{source} {command!r} cannot be run: {why}; correct it or give the key in {ENV_PREFIX}KEY_FILE"
        ) from None
    if done.returncode:
        raise StoreKeyError(
            f"{source} {command!r} ended with status {done.returncode}; correct it: {done.stderr.strip()[-500:]}"
        )
    return parse_key(done.stdout, source)
