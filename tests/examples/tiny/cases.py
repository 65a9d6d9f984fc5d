"""A recipe as small as it gets."""

from tests.plugins.worlds.experts.cases import NEAR

from saccade.plugins.worlds.cli_demo import Exam
from saccade_tiny.settings import DemonstrationRun, Stage, TextShape, TinySettings, TokenizerSettings, VisionShape

RECIPE = TinySettings(
    demonstrations=(
        DemonstrationRun(name="close-up", worlds=("sign-close-up",), dialect="tiny:direct", n=6),
        DemonstrationRun(name="look", worlds=("visual-search",), n=3, knobs={"visual-search": NEAR}),
        DemonstrationRun(name="count", worlds=("touching-circles",), n=3),
    ),
    tokenizer=TokenizerSettings(vocabulary=400),
    text=TextShape(hidden=32, layers=1, heads=2, key_heads=1, intermediate=48, rope_sections=(2, 3, 3)),
    vision=VisionShape(hidden=32, layers=1, heads=2, intermediate=32),
    stages=(
        Stage(name="read", demonstrations=("close-up",), steps=2, trajectories=4),
        Stage(name="all", demonstrations=("close-up", "look", "count"), steps=2, trajectories=4),
    ),
    exams=(Exam(name="look", worlds=("visual-search",), knobs={"visual-search": NEAR}, target=0.9),),
)
