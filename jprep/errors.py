"""The few kinds of error that jprep raises on purpose, each with the exit code that the command line answers with."""

from __future__ import annotations


class JprepError(Exception):
    """Something went wrong that a user can mend.

    Args:
        what: what happened, one sentence without a full stop.
        where: the file and offset, the recipe key or the step that it happened in.
        fix: what to do about it, in words or as a command.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what, where, fix)
        self.what, self.where, self.fix = what, where, fix

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes: keep the keyword arguments."""
        return _rebuild, (type(self), self.what, self.where, self.fix)

    def __str__(self) -> str:
        """Say what, where and the fix, in that order."""
        place = f"\n  where: {self.where}" if self.where else ""
        return self.what + place + (f"\n  fix:   {self.fix}" if self.fix else "")


def _rebuild(kind: type[JprepError], what: str, where: str, fix: str) -> JprepError:
    return kind(what, where=where, fix=fix)


class ConfigError(JprepError):
    """A recipe, an option or an argument is wrong; nothing was begun."""

    exit_code = 2


class MismatchError(ConfigError):
    """An output directory holds the work of another recipe, input or version."""


class DamagedError(MismatchError):
    """A file that a receipt or a manifest names is missing, or its content is not what was written."""


class MachineError(JprepError):
    """This machine lacks something: a program, a library, a right, disk space."""

    exit_code = 3


class InputError(JprepError):
    """The input is damaged or hostile, beyond what the recipe allows."""

    exit_code = 4


class TruncatedError(InputError):
    """The input ends too early; what came before is sound."""


class Interrupted(JprepError):  # noqa: N818 - not a fault: the user asked for it
    """The user stopped the run; everything committed stays."""

    exit_code = 130
