"""The two exceptions of the course."""

from decodelab.lang import say


class TodoError(NotImplementedError):
    """Raised by a TODO that nobody has written yet; ``todo`` names it, e.g. ``"ch01.2"``."""

    def __init__(self, todo: str) -> None:
        super().__init__(f"TODO {todo} is not written yet | TODO {todo} 还没有写")
        self.todo = todo


class DecodeLabError(Exception):
    """Something that a user can put right: one sentence in each language that says what to do next.

    Give ``both(en=..., zh=...)`` or a plain string where there is one language only.
    """

    def __init__(self, text: "str | dict[str, str]") -> None:
        self.text = {"en": text, "zh": text} if isinstance(text, str) else text
        super().__init__(self.text["en"])

    def __str__(self) -> str:
        return say(self.text)
