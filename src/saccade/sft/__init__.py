"""Supervised fine-tuning: experts and synthesis, curation, data formats, training."""
