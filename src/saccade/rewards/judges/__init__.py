"""Judges: was what a call gave back evidence for the question?"""
