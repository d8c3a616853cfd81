"""Errors that a caller can act on. No message is ever a function of private rows."""


class SpecError(ValueError):
    """A request that cannot be planned. pointer: JSON pointer of the field; message: the fix."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}")
        self.pointer = pointer
        self.message = message
