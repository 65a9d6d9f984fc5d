"""Lets new weights arrive at vLLM on a CPU.

There vLLM packs the weights of each linear layer for oneDNN when it starts. After a reload (0.32.0) the layers still
compute with the packed copies of before, while embeddings and norms are new: the server answers with a mixture of two
checkpoints and says nothing. With plain linear layers a reload reaches all of them. On a GPU nothing is packed.
`make engines` copies this file into the environment and registers it as a plugin of vLLM (`vllm.general_plugins`).
"""


def register() -> None:
    """Called by vLLM in each of its processes."""
    from vllm import _custom_ops
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        _custom_ops._supports_onednn = False
