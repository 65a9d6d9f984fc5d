"""Families that do not run in process are refused with the reason and the way out."""

import pytest

from saccade.errors import ModelRefusedError
from saccade.models.families.known import FAMILIES, NOT_YET, family_of


@pytest.mark.parametrize("model_type", sorted(NOT_YET))
def test_what_does_not_run_yet_is_named_with_its_reason(model_type: str) -> None:
    transformers = pytest.importorskip("transformers")
    assert model_type in transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    assert model_type not in FAMILIES
    with pytest.raises(ModelRefusedError) as caught:
        family_of(model_type, "some/checkpoint")
    assert NOT_YET[model_type] in str(caught.value)
    assert "Serve it with vLLM or SGLang" in str(caught.value)
