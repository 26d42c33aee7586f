"""The course in this folder, as nbgrader finds it: `cd grader`, then any `nbgrader` command."""

from pathlib import Path

from decodelab.grading.nbgrader_plugin import configure

configure(get_config(), Path(__file__).parent)  # type: ignore[name-defined]  # noqa: F821 - traitlets gives it
