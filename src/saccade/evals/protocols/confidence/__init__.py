"""Confidence: how far samples of one task agree, and how accuracy grows with turns and budget."""
