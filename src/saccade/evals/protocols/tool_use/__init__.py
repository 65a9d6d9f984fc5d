"""Tool use: what the code and the calls of a run did to pictures, by PyVision's taxonomy."""
