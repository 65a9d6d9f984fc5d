"""Every exception that Saccade raises on purpose, as one tree.

    SaccadeError
    ├── SettingsError          a setting or an argument is wrong; lists every mistake at once
    ├── RegistryError          an id names nothing; suggests the nearest names
    ├── RecordError            a stored record cannot be read
    │   ├── SchemaVersionError written by another version of the schema
    │   └── TornRecordError    the last line of a file was cut short by a crash; can be recovered
    ├── DataError              a data set is not there, or cannot be read as its card says
    ├── MediaError             a picture or a video cannot be used
    │   ├── DecodeError        broken, truncated or of an unknown format
    │   ├── TooLargeError      more pixels or bytes than the budget allows
    │   └── MissingMediaError  the store holds no such bytes
    ├── SandboxError           the sandbox itself failed (never the guest's program)
    │   ├── IsolationError     a required isolation layer cannot be had on this machine
    │   ├── SandboxClosedError used after it was closed
    │   ├── SandboxLostError   our own processes died; the state of the sessions is gone
    │   ├── SandboxFullError   no room for another session now; there may be later
    │   └── ProtocolError      the other side of a wire sent bytes that do not follow the protocol
    ├── ModelError             a model's backend gave no usable answer
    │   ├── ModelRefusedError  bad key, bad request, unknown model: no retry can help
    │   │   └── ContextLimitError  the messages do not fit the model's context
    │   └── ModelLostError     rate limits, server errors or a broken connection, after all retries
    ├── PromptFileError        a user's own prompt file cannot be used
    ├── ToolError              a tool was declared or registered wrongly (never: called wrongly by a model)
    │   └── ToolLostError      a tool's worker process or server failed, after all retries
    ├── GradingError           a task cannot be graded: no gold answer, or one of another form
    ├── TrainingError          a trajectory has no token form, or a training run cannot start or continue
    ├── OwnCodeError           a part of somebody's own raised an exception, or gave what it may not; names its line
    └── UnavailableError       an optional part is not installed; names the command that installs it
        └── MissingPluginError what a name stands for is in a plug-in of Saccade's own; a RegistryError too

A message says what happened, why, and what to do. These are for a person. What a program in the
sandbox did wrong is not an exception here: it is a typed status in the execution record, which a
model may read.
"""


class SaccadeError(Exception):
    """Root of the tree: `except SaccadeError` catches everything raised on purpose."""


class SettingsError(SaccadeError):
    """A setting or an argument is wrong."""


class RegistryError(SaccadeError, LookupError):
    """An id names nothing that is registered."""


class RecordError(SaccadeError, ValueError):
    """A stored record cannot be read."""


class SchemaVersionError(RecordError):
    """A record was written by another version of the schema."""


class TornRecordError(RecordError):
    """The last line of a file of records was cut short, as a crash does it; the lines before it are whole."""


class DataError(SaccadeError, LookupError):
    """A data set is not there, or cannot be read as its card says."""


class MediaError(SaccadeError):
    """A picture or a video cannot be used."""


class DecodeError(MediaError, ValueError):
    """The bytes are broken, truncated or of an unknown format."""


class TooLargeError(MediaError, ValueError):
    """The picture has more pixels or bytes than the budget allows."""


class MissingMediaError(MediaError, LookupError):
    """The media store holds no bytes under that sha256."""


class SandboxError(SaccadeError):
    """The sandbox itself failed; never raised for what a guest program did."""


class IsolationError(SandboxError):
    """A required isolation layer cannot be had on this machine."""


class SandboxClosedError(SandboxError):
    """A sandbox or a session was used after it had been closed."""


class SandboxLostError(SandboxError):
    """Processes of ours died, and the state of the sessions with them."""


class SandboxFullError(SandboxError):
    """There is no room for another session now; once others are closed, there may be."""


class ProtocolError(SandboxError):
    """The other side of a wire sent bytes that do not follow the protocol."""


class ModelError(SaccadeError):
    """A model's backend gave no usable answer."""


class ModelRefusedError(ModelError):
    """The backend refused for a reason that no retry can cure."""


class ContextLimitError(ModelRefusedError):
    """Messages and answer do not fit the model's context. An end of the episode like any other limit: no outage."""


class ModelDeniedError(ModelRefusedError):
    """The backend refuses whatever it is asked: the key, the model's name, the address or the budget is wrong."""


class ModelLostError(ModelError):
    """The backend could not be reached or kept failing. An outage: never the model's mistake."""


class PromptFileError(SaccadeError, ValueError):
    """A user's own prompt file cannot be used."""


class ToolError(SaccadeError):
    """A tool was declared or registered wrongly; a wrong call by a model is a typed status instead."""


class ToolLostError(ToolError):
    """A tool's worker process or its server failed, after all retries. An outage: never the model's mistake."""


class GradingError(SaccadeError, ValueError):
    """A task cannot be graded; an answer that cannot be graded is a wrong answer instead."""


class OwnCodeError(SaccadeError):
    """A part of somebody's own raised an exception, or gave what such a part may not give."""


class TrainingError(SaccadeError, ValueError):
    """A trajectory has no token form for this checkpoint, or a training run cannot start or continue."""


class UnavailableError(SaccadeError, ImportError):
    """An optional part is not installed; the message names the command that installs it."""


class MissingPluginError(RegistryError, UnavailableError):
    """What an id names is in a plug-in of Saccade's own that is not installed."""
