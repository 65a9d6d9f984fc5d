"""A checkpoint that runs in this process, by transformers.

    model = LocalModel("/models/Qwen2.5-VL-7B-Instruct")                  # a folder, or a name on the hub
    model = LocalModel("Qwen/Qwen3-VL-4B-Instruct", LocalSettings(device="cuda:1"))

Loaded at the first question. Answers are written one at a time, in a thread of the model's own; questions asked side by
side wait their turn, and one that is cancelled stops before its next token. Greedy unless a temperature is given.
Stop strings: the text ends with the first of them; `token_ids` end with the token that completed it, which may continue
beyond it. What `logprobs` mean is said at `local_generate.Draw`. One device, and every question is read from its start
again: for large checkpoints and many questions serve the checkpoint with vLLM.

No promise that two machines, or CPU and GPU, sample the same from the same seed: their arithmetic differs.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from saccade.errors import ModelRefusedError, UnavailableError
from saccade.models.base import Completion, MediaReader, Request, Usage
from saccade.models.local_settings import LocalSettings, check_folder
from saccade.models.stops import check_stops

if TYPE_CHECKING:
    from saccade.models.local_weights import Checkpoint

DEFAULT_SETTINGS = LocalSettings()


class LocalModel:
    """A checkpoint of a known family (see `families.known.FAMILIES`)."""

    def __init__(self, source: str, settings: LocalSettings = DEFAULT_SETTINGS) -> None:
        for package in ("torch", "transformers"):
            if importlib.util.find_spec(package) is None:
                raise UnavailableError(f"the package `{package}` is not installed. Run: pip install 'saccade[local]'")
        check_folder(source)
        self.name = f"local:{source}"
        self._source = source
        self._settings = settings
        self._checkpoint: Checkpoint | None = None
        self._closed = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self.name)

    def __repr__(self) -> str:
        return f"LocalModel({self._source!r})"

    async def complete(
        self, request: Request, media: MediaReader, *, on_text: Callable[[str], None] | None = None
    ) -> Completion:
        """The model's next message; loads the checkpoint if this is the first.

        Raises:
            ModelRefusedError: the checkpoint cannot be loaded, or cannot take what is asked for.
            MediaError: a picture of the messages cannot be read.
        """
        check_stops(request.stop)
        self._check_open()
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[str | None] = asyncio.Queue()
        cancelled = threading.Event()

        def tell(piece: str) -> None:
            if piece and not cancelled.is_set():
                loop.call_soon_threadsafe(heard.put_nowait, piece)

        work = loop.run_in_executor(self._thread, self._work, request, media, tell, cancelled)
        work.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            while (piece := await heard.get()) is not None:
                if on_text is not None:
                    on_text(piece)
            return await work
        finally:
            cancelled.set()
            work.cancel()

    async def close(self) -> None:
        """Forget the weights, and refuse what is being written or asked from now on; idempotent."""
        self._closed.set()
        self._thread.shutdown(wait=False)
        self._checkpoint = None

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise ModelRefusedError(f"{self.name} was closed; make a new one")

    def _work(
        self, request: Request, media: MediaReader, tell: Callable[[str], None], cancelled: threading.Event
    ) -> Completion:
        """In the model's own thread."""
        from saccade.models.local_generate import CancelledGenerationError, Listening, generate, memory_guard
        from saccade.models.local_prompt import build_prompt

        self._check_open()
        listening = Listening(tell, lambda: cancelled.is_set() or self._closed.is_set())
        try:
            listening.check()
            with memory_guard(self.name):
                checkpoint = self._loaded()
                prompt = build_prompt(request, media, checkpoint)
                sampling = request.sampling.model_copy(update={"max_tokens": request.max_tokens})
                generated = generate(checkpoint, prompt, request.stop, sampling, listening, request.context_tokens)
        except CancelledGenerationError:
            self._check_open()
            raise
        return Completion(
            text=generated.text,
            finish=generated.finish,
            token_ids=generated.token_ids,
            logprobs=generated.logprobs,
            usage=Usage(prompt_tokens=prompt.ids.shape[1], sampled_tokens=len(generated.token_ids)),
            model=checkpoint.name,
        )

    def _loaded(self) -> Checkpoint:
        from saccade.models.local_weights import load_checkpoint

        if self._checkpoint is None:
            self._checkpoint = load_checkpoint(self._source, self._settings)
        return self._checkpoint
