"""Which model paths are V14 directories."""

from pathlib import Path

from v14.profile import Profile


def is_v14_directory(model_path: str | None) -> bool:
    """Whether `model_path` is a local V14 directory (`v14 upgrade` made it)."""
    return bool(model_path) and (Path(str(model_path)) / "v14" / "profile.json").is_file()


def load_profile(model_path: str) -> Profile:
    """The profile of a V14 directory. Raises `DirectoryError` or `OptionError`."""
    return Profile.load(Path(model_path))
