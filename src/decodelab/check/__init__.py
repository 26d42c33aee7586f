"""Checking an answer: what was found, in words that teach."""
