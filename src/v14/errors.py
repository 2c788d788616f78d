"""Every error a user can meet. Each message names the setting or file at fault and the remedy."""


class V14Error(ValueError):
    """Base of all errors that a user can cause and mend."""


class OptionError(V14Error):
    """An option or environment variable is unknown or has a value that cannot work."""


class UpgradeError(V14Error):
    """A checkpoint cannot become a V14 directory."""


class DirectoryError(V14Error):
    """A V14 directory is incomplete, of another version, or not one at all."""


class UnsupportedModelError(V14Error):
    """The model has something that the memory cannot serve; the message names it."""


class StoreError(V14Error):
    """The store cannot be opened, read or written."""


class StoreVersionError(StoreError):
    """A file of the store was written by another format version."""


class StoreUnavailableError(StoreError):
    """The store, or a part of it, does not answer just now; it is asked again later."""


class StoreKeyError(V14Error):
    """The key of an encrypted store is missing, wrong or not one: no `StoreError`, so that no server starts without."""


class TraceCorruptError(StoreError):
    """A stored trace does not match its catalog row; that event is set aside and the rest serves."""


class TraceNotKeptError(StoreError):
    """A part of a trace was not kept when it was stored (`trace: "voters"`); the event itself is there."""


class CheckError(V14Error):
    """A server under check did not start, stopped, or answered a request with an error."""


class ServerError(V14Error):
    """A running server cannot be asked, or answered with an error."""


class EngineError(V14Error):
    """The installed engine is not one that the memory fits."""


class RefusedError(V14Error):
    """A request may not have the memory that it asks for; `status_code` is the HTTP status to answer with."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code


class EventFileError(V14Error):
    """A file of events does not read, is too large, or is another model's."""


class SelectionError(V14Error):
    """What is to be shown or forgotten is not said, or not known."""
