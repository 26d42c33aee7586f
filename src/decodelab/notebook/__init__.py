"""Notebooks as files: reading learners' ones tolerantly, building the course's own."""
