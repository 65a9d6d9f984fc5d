"""Faithfulness (CodeV): did the pictures that calls gave back show what the question asks about?"""
