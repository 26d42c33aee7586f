"""Grading: a runner that holds student code, and a judge that never does."""
