"""Sample from servers of other programs, vLLM and SGLang, while a run trains."""
