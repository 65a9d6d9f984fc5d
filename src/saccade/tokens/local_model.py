"""Run a checkpoint in this process, by transformers.

    model = LocalModel("/models/Qwen2.5-VL-7B-Instruct")                  # a folder, or a name on the hub
    model = LocalModel("Qwen/Qwen3-VL-4B-Instruct", LocalSettings(device="cuda:1"))

The checkpoint is loaded at the first question. Concurrent questions are answered together in one thread, a token of
each at a time; a cancelled one stops before its next token. Keys and values are kept, so each turn of an episode reads
only what is new (see `scheduler`). Greedy unless a temperature is given. The text ends with the first stop string;
`token_ids` end with the token that completed it, which may reach beyond it. For `logprobs` see `decoder.TokenSampler`.
One device only: serve large checkpoints or many questions with vLLM. The same seed may sample differently on another
machine or device.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from saccade.core.registry import install
from saccade.errors import ModelRefusedError, UnavailableError
from saccade.models.base import Completion, MediaReader, Request, Usage, check_stops
from saccade.models.hosted import refuse_hosted
from saccade.models.local_text import LocalSettings, check_folder, learned_dialect
from saccade.models.registry import Provider

if TYPE_CHECKING:
    from saccade.tokens.decoder import Scheduler
    from saccade.tokens.turn import SampledTurn

DEFAULT_SETTINGS = LocalSettings()


@dataclass(eq=False)
class _Question:
    """A request and its answer to come, shared by the asking thread and the model's."""

    request: Request
    media: MediaReader
    tell: Callable[[str], None]
    cancelled: threading.Event = field(default_factory=threading.Event)
    outcome: Future[Completion] = field(default_factory=Future)

    def end(self, outcome: Completion | BaseException) -> None:
        """Set the outcome, unless the question was cancelled."""
        try:
            if isinstance(outcome, Completion):
                self.outcome.set_result(outcome)
            else:
                self.outcome.set_exception(outcome)
        except InvalidStateError:
            return  # cancelled


class LocalModel:
    """A checkpoint of a known family (see `families.known.FAMILIES`)."""

    def __init__(self, source: str, settings: LocalSettings = DEFAULT_SETTINGS) -> None:
        for package in ("torch", "transformers"):
            if importlib.util.find_spec(package) is None:
                raise UnavailableError(f"the package `{package}` is not installed. Run: {install('local')}")
        check_folder(source)
        self.name = f"local:{source}"
        self._source = source
        self._settings = settings
        self._scheduler: Scheduler | None = None
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._waiting: deque[_Question] = deque()
        self._working = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self.name)

    def __repr__(self) -> str:
        return f"LocalModel({self._source!r})"

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """Answer with the model's next message; loads the checkpoint first if needed.

        Raises `ModelRefusedError`: the checkpoint cannot be loaded, or cannot take what is asked for; `MediaError`: a
        picture or a video of the messages cannot be read.
        """
        check_stops(request.stop)
        refuse_hosted(request, self.name)
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[str | None] = asyncio.Queue()

        def tell(piece: str) -> None:
            if piece and not question.cancelled.is_set():
                try:
                    loop.call_soon_threadsafe(heard.put_nowait, piece)
                except RuntimeError:  # the loop was closed
                    question.cancelled.set()

        question = _Question(request, media, tell)
        answer = asyncio.wrap_future(question.outcome)
        answer.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            self._ask(question)
            while (piece := await heard.get()) is not None:
                if on_text is not None:
                    on_text(piece)
            return await answer
        finally:
            question.cancelled.set()
            answer.cancel()

    async def close(self) -> None:
        """Drop the weights, and refuse pending and later questions; idempotent."""
        self._closed.set()
        self._thread.shutdown(wait=False)
        with self._lock:
            if not self._working:
                self._scheduler = None

    def _ask(self, question: _Question) -> None:
        with self._lock:
            if self._closed.is_set():
                raise self._closed_error()
            self._waiting.append(question)
            if not self._working:
                self._working = True
                self._thread.submit(self._work)

    def _closed_error(self) -> ModelRefusedError:
        return ModelRefusedError(f"{self.name} was closed; make a new one")

    def _work(self) -> None:
        """Answer questions, in the model's thread, until none is left."""
        while not self._closed.is_set():
            try:
                scheduler = self._loaded()
            except Exception as error:
                if not self._refuse_all(error):
                    return
                continue
            with self._lock:
                question = self._waiting.popleft() if self._waiting and scheduler.has_room else None
                if question is None and scheduler.is_idle:
                    self._working = False
                    return
            if question is None:
                scheduler.step()
            elif not question.cancelled.is_set():
                self._admit(scheduler, question)
        if self._scheduler is not None:
            self._scheduler.fail(self._closed_error())
        self._scheduler = None
        while self._refuse_all(self._closed_error()):
            continue

    def _refuse_all(self, error: BaseException) -> bool:
        """End waiting questions with `error`; return False once there is none, and then the thread is idle."""
        with self._lock:
            refused, self._waiting = self._waiting, deque()
            self._working = bool(refused)
        for question in refused:
            question.end(error)
        return bool(refused)

    def _admit(self, scheduler: Scheduler, question: _Question) -> None:
        from saccade.tokens.decoder import PendingAnswer
        from saccade.tokens.prompt import build_prompt

        try:
            prompt = build_prompt(question.request, scheduler.checkpoint, scheduler.encoder)
        except Exception as error:
            question.end(error)
            return

        def end(outcome: SampledTurn | BaseException | None) -> None:
            if outcome is None:
                question.outcome.cancel()
            elif isinstance(outcome, BaseException):
                question.end(outcome)
            else:
                question.end(completion_of(outcome, scheduler.checkpoint.name, prompt.visual))

        cancelled = question.cancelled.is_set
        scheduler.admit(PendingAnswer(question.request, prompt, question.media, question.tell, cancelled, end))

    def _loaded(self) -> Scheduler:
        from saccade.models.local_weights import load_checkpoint
        from saccade.tokens.decoder import PlainPolicy, Scheduler, refused

        if self._scheduler is None:
            try:
                checkpoint = load_checkpoint(self._source, self._settings)
            except Exception as error:
                raise refused(error) from error
            self._scheduler = Scheduler(PlainPolicy(checkpoint), most_sequences=self._settings.max_sequences)
        return self._scheduler


def completion_of(turn: SampledTurn, name: str, visual: int) -> Completion:
    """Make the completion of a turn for which `visual` tokens were read."""
    return Completion(
        text=turn.text,
        finish=turn.finish,
        token_ids=turn.ids,
        logprobs=turn.logprobs,
        usage=Usage(prompt_tokens=turn.context, sampled_tokens=len(turn.ids), visual_tokens=visual),
        model=name,
    )


LOCAL = Provider(
    name="local",
    description="A checkpoint in this process by transformers, as in `local:FOLDER`.",
    example="local:FOLDER",
    make=lambda provider, name: LocalModel(name),
    checkpoint=str,
    stop_strings="the generator",
    token_ids=True,
    function_calls=False,
    videos=True,
    video_frames=True,
    continues=True,
    learned_dialect=learned_dialect,
)
