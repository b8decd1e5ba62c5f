"""The kinds of errors that jprep raises, each with the exit code of the command line."""

from __future__ import annotations

from typing import Any, NamedTuple, Self


class Setting(NamedTuple):
    """An option of a recipe that fixes an error.

    Attributes:
        name: its name, e.g. `max_bad`.
        value: the value that is enough; None where a larger number than the present one is needed.
    """

    name: str
    value: object = None


class JprepError(Exception):
    """An error that a user can fix.

    Args:
        what: what happened, in one sentence without a full stop.
        where: the file and offset, the recipe key, or the step.
        fix: how to fix it, in words or as a command.
        setting: the option of the recipe that the fix names.
        options: the options of the command that the fix names: `-o`, `--restart`.
        command: the command that has these options, e.g. `jprep corpus build`; "" for the one that is running.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        fix: str = "",
        setting: Setting | None = None,
        options: tuple[str, ...] = (),
        command: str = "",
    ) -> None:
        super().__init__(what, where, fix)
        self.what, self.where, self.fix = what, where, fix
        self.setting, self.options, self.command = setting, options, command

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the keyword arguments: errors are pickled between processes."""
        return _rebuild, (type(self), self._details())

    def replace(self, **changes: Any) -> Self:
        """Return an error of the same kind in which some arguments are others."""
        return type(self)(**self._details() | changes)

    def _details(self) -> dict[str, Any]:
        names = ("what", "where", "fix", "setting", "options", "command")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        """Return what happened, where, and the fix."""
        place = f"\n  where: {self.where}" if self.where else ""
        return self.what + place + (f"\n  fix:   {self.fix}" if self.fix else "")


def _rebuild(kind: type[JprepError], details: dict[str, Any]) -> JprepError:
    return kind(**details)


class ConfigError(JprepError):
    """A recipe, an option or an argument is wrong; nothing was started."""

    exit_code = 2


class MismatchError(ConfigError):
    """An output directory has the work of a different recipe, input or version."""


class DamagedError(MismatchError):
    """A file that a receipt or a manifest names is missing, or its content has changed."""


class MachineError(JprepError):
    """This machine lacks something: a program, a library, a permission, disk space."""

    exit_code = 3


class InputError(JprepError):
    """The input is more damaged than the recipe allows, or hostile."""

    exit_code = 4


class InputChangedError(InputError):
    """An input is not what it was when it was hashed."""


class TruncatedError(InputError):
    """The input ends too early; the data before its end is valid."""


class Interrupted(JprepError):  # noqa: N818 - not an error: the user asked for it
    """The user interrupted the run; finished work is kept."""

    exit_code = 130
