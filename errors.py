"""Errors that a user meets: located, coded, with a reason and a way out.

Every refusal of bad input is a `DpuError`. The commands print it without a traceback and exit with 2.
"""

from __future__ import annotations


class DpuError(Exception):
    """One located error.

    Args:
        where: the file, ONNX node or graph operation at fault.
        what: what is wrong, with the shape or value seen.
        why: why that cannot be accepted. May be empty.
        hint: what to do about it. May be empty.
        code: a stable code, `E1xx` files and models, `E2xx` graph and passes, `E3xx` programs and
            containers, `E4xx` devices and runs, `E5xx` configuration.
    """

    def __init__(self, where: str, what: str, why: str = "", hint: str = "", code: str = "E100") -> None:
        self.where, self.what, self.why, self.hint, self.code = where, what, why, hint, code
        super().__init__(self.text())

    def text(self) -> str:
        """The message as printed: `error[CODE]: where: what`, then `why` and `try` lines."""
        lines = [f"error[{self.code}]: {self.where}: {self.what}"]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)
