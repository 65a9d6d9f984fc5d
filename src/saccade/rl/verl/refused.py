"""Settings of `saccade rl` that verl's trainer cannot follow, with what to do instead; and what it does otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Final

from saccade.dialects.registry import load_dialect
from saccade.errors import SettingsError
from saccade.record.mistakes import mistaken
from saccade.rl.generation.slot_model import check_sampling
from saccade.rl.losses.kl import KL_ESTIMATORS
from saccade.rl.train.settings import RlSettings, unserved
from saccade.rl.verl.mapping import context_tokens, most_groups, update_groups, verl_lines
from saccade.rl.verl.settings import check_verl, verl_of

REFUSED: Final[Mapping[str, str]] = {
    "engine": "verl starts vLLM servers itself; leave --engine out",
    "model.revision": "verl takes a folder or a name; download the revision, and name its folder",
    "model.language": "LoRA has not been met on verl; leave it at full",
    "model.lora": "LoRA has not been met on verl; leave it out",
    "model.vision_attention": "verl has one attention for the whole model; leave it out",
    "model.picture_pixels": "verl reads preprocessor_config.json; set its size in a copy of the checkpoint",
    "generation.decoding_batches": "verl's servers batch turns by themselves; leave it out",
    "keep.dtype": "verl writes weights as it trains them; leave it out",
    "retry": "turns go to verl's servers through Ray; set trainer.turn_seconds",
}
"""Setting, with everything below it -> why it must be left as it is, and what to do."""
FAMILIES: Final = ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
"""Those whose image processor is Qwen2-VL's: verl folds the placeholders of no other (`workers/rollout/utils.py`)."""


def check_on_verl(settings: RlSettings) -> None:
    """Refuse what a run on verl would not follow.

    Raises:
        SettingsError: names every such setting.
    """
    check_verl(verl_of(settings))
    check_sampling(settings.recipe.rollout.sampling)
    usual = RlSettings(recipe=settings.recipe)
    wrong = [f"{name}: {why}" for name, why in REFUSED.items() if _at(settings, name) != _at(usual, name)]
    if settings.model.vision == "projector":
        wrong.append("model.vision: verl trains all of the vision tower or nothing; take frozen or full")
    if settings.recipe.rollout.sampling.temperature == 0:
        wrong.append("recipe.rollout.sampling.temperature: verl divides by it; take one above 0")
    if context_tokens(settings.recipe) is None:
        name = load_dialect(settings.recipe.dialect).id
        wrong.append(f"recipe.rollout.limits.context_tokens: verl's servers need it, and {name} sets none")
    loss = settings.recipe.loss
    if loss.kl_weight and not KL_ESTIMATORS.load(loss.kl).verl:
        wrong.append(f"recipe.loss.kl: verl has no estimator {loss.kl}; take {', '.join(KL_ESTIMATORS.names())}")
    if settings.recipe.curriculum is not None and not verl_of(settings).pass_rates:
        wrong.append(
            "recipe.curriculum: verl measures no pass rates; name those of a run without --on verl (of its first step: "
            "--set steps=1) in trainer.pass_rates"
        )
    if why := _undivided(settings):
        wrong.append(f"trainer.gpus: {why}")
    if why := unserved(settings.recipe):
        wrong.append(f"recipe.dialect: {why}")
    wrong += _overriding(settings)
    if wrong:
        raise mistaken(wrong, "--on verl")


def _overriding(settings: RlSettings) -> Iterator[str]:
    """Options of verl that are none, or would let its configuration say otherwise than the settings of the run."""
    ours = {line.key: line.source for line in verl_lines(settings, Path()) if not line.source.startswith("(")}
    for option in verl_of(settings).options:
        key, equals, _ = option.lstrip("+").partition("=")
        if not equals:
            yield f"trainer.options: {option!r} is no setting; write a.b=value"
        elif ours.get(key, "trainer.device") != "trainer.device":  # what a CPU needs is a guess that may be mended
            yield f"trainer.options: {key} comes from {ours[key]}; set that"


def _undivided(settings: RlSettings) -> str:
    """Why verl's processes cannot divide an update; empty where they can. verl finds out after a step was played."""
    groups, size = update_groups(settings.recipe), settings.recipe.rollout.group_size
    ranks = verl_of(settings).gpus * verl_of(settings).nodes
    if groups * size % ranks == 0 or any("sequence_parallel" in option for option in verl_of(settings).options):
        return ""
    return (
        f"an update has {groups * size} rollouts ({groups} group{'s' * (groups > 1)} of {size}), which {ranks} GPUs "
        "cannot divide evenly. Take other --gpus or --nodes, or change rollout.group_size, optimizer.updates or how "
        "many groups are kept"
    )


def check_family(family: str, source: str) -> None:
    """Raises SettingsError for a checkpoint `source` of a `family` whose pictures verl gives to its servers wrongly."""
    if family not in FAMILIES:
        raise SettingsError(
            f"model.source: {source} is of the family {family}. verl 0.9.1 gives its servers the placeholders of a "
            f"picture once alone only for {', '.join(FAMILIES)}; of others they would read another prompt than is "
            "trained on. Train it without --on verl."
        )


def notes(settings: RlSettings) -> list[str]:
    """What verl does otherwise than our own trainer, for this recipe."""
    recipe, said = settings.recipe, []
    if recipe.loss.aggregate != "token-mean":
        rows = most_groups(recipe) * recipe.rollout.group_size
        said.append(
            f"{recipe.loss.aggregate}: verl divides by the {rows} rollouts that a step may have, ours by those that it "
            "has; a step that keeps fewer makes a smaller update"
        )
    if recipe.optimizer.updates > 1:
        said.append("optimizer.updates: verl fills its updates one after another; the last of a small step has fewer")
    if recipe.optimizer.updates * recipe.optimizer.epochs > 1:
        said.append("max_logprob_diff: is not checked, for after the first update of a step a difference is meant")
    said.append("a step that keeps nothing: verl makes an update of advantages 0, ours makes none")
    return said


def _at(settings: RlSettings, name: str) -> Any:
    return reduce(getattr, name.split("."), settings)
