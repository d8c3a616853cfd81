"""What storage refuses. No message holds a value of a row."""


class IngestError(ValueError):
    """An upload that cannot be taken. Shown to the admin who uploads, and to nobody else.

    code: stable snake_case word. pointer: JSON pointer into the metadata, or "/file".
    problems: every (pointer, message) found, the first one being this error's own; messages hold
    counts and declared names only.
    """

    def __init__(
        self,
        code: str,
        pointer: str,
        message: str,
        problems: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(f"{code} at {pointer}: {message}")
        self.code = code
        self.pointer = pointer
        self.message = message
        self.problems = problems or ((pointer, message),)


class DatasetFileError(RuntimeError):
    """An encrypted file is missing, cut, changed, or of another dataset or schema."""
