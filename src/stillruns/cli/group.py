"""The group of verbs: the table of their names, and the boundary where errors become exit codes."""

from __future__ import annotations

import contextlib
import difflib
import errno
import keyword
import os
import shutil
import sys
import traceback

import click

from stillruns import __version__
from stillruns.cli import stopping
from stillruns.cli.late import load
from stillruns.errors import ExitCode, StillrunsError, UsageError
from stillruns.model.hint import CALLER, quoted
from stillruns.report.columns import visible

VERBS: dict[str, str] = {
    "run": "Your own command once under supervision, or the experiment that a file describes.",
    "demo": "The main job on what this machine has; no GPU needed, under two minutes.",
    "selftest": "Inject each kind of fault in each phase and check that it is classified right.",
    "autopsy": "Any log, journal or core: what was asked, what really ran, and why it died.",
    "check": "Which layer stops this GPU, from the files that are really installed.",
    "snapshot": "Pack what `check` reads, to be judged elsewhere.",
    "show": "One trial: asked, applied, how it ended, and the evidence for each.",
    "report": "The tables of runs, judged again from their evidence.",
    "claims": "What the trials say about each hypothesis.",
    "import": "Take someone else's trials, or bare server logs, over into the store.",
    "workarounds": "What the ids in advice mean: what to change, how to undo it, its risk and source.",
    "trace": "Follow an option through source trees, stage by stage.",
    "lint": "Does anything read these flags and variables, and the values given?",
    "replay": "Judge every run again from its evidence and compare with what was recorded.",
    "verify": "Re-derive every digest in the store and name what does not match.",
}
"""Verb -> its line in `stillruns --help`. The verb's module is `stillruns.cli.<verb>` (with a `_`
where the verb is a word of Python's), its command `command`."""


def _no_verb(name: str) -> str:
    """One sentence for a word that is no verb: a slip of the hand, or a command that wants `run --` before it."""
    near = difflib.get_close_matches(name, VERBS, n=1)
    if near:
        return f"there is no verb {visible(name)}; did you mean `{CALLER.program} {near[0]}`?"
    own = f"`{CALLER.program} run -- {quoted((name,))} ...` runs a command of your own"
    return f"there is no verb {visible(name)}; `{CALLER.program} --help` lists them, and {own}"


class LazyGroup(click.Group):
    """Lists verbs from the table above and imports a verb's module only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: the order in which a person meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module; None for a name that is no verb."""
        if cmd_name not in VERBS:
            raise UsageError(_no_verb(cmd_name))
        module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command = load(module).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of verbs, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stillruns", message="%(prog)s %(version)s")
def stillruns() -> None:
    """Does this GPU still run this model? If not, which layer stops it, and what is the smallest change that
    makes it run?

    A server crashes: put `stillruns run --` before its command. The GPU is not used at all: `stillruns check`. You
    have only a log: `stillruns autopsy FILE`. `stillruns VERB --help` tells what a verb takes.
    """


def _debugging() -> bool:
    return "--debug" in sys.argv[1:] or bool(os.environ.get("STILLRUNS_DEBUG"))


def _called() -> str:
    """The words that start this program, as its caller can type them again: its name where a shell finds it, else the
    path or the interpreter that was typed."""
    name, found = sys.argv[0], shutil.which("stillruns")
    if not name.endswith(("/stillruns", "__main__.py")):
        return "stillruns"  # started in some other way, which no command line repeats
    module = name.endswith("__main__.py")
    if found is not None and (module or os.path.realpath(found) == os.path.realpath(name)):
        return "stillruns"
    return quoted((sys.orig_argv[0], "-m", "stillruns") if module else (name,))


def run() -> None:
    """Call the verb; every error that a user can meet becomes one sentence and DESIGN's exit code."""
    CALLER.program = _called()
    try:
        code = stillruns.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        with contextlib.suppress(OSError):
            error.show()
        code = ExitCode.USAGE
    except click.ClickException as error:
        _say(f"stillruns: {_one_sentence(error)}")
        code = ExitCode.USAGE
    except (click.exceptions.Abort, KeyboardInterrupt):
        stopping.say()
        code = ExitCode.INTERRUPTED
    except StillrunsError as error:
        if _debugging():
            traceback.print_exc()
        _say(f"stillruns: {error}")
        code = error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the reader of our output went away; that is no failure
        code = ExitCode.COMPLETE
    except OSError as error:
        if _debugging() or (error.filename is None and error.errno not in _UNWRITABLE):
            code = _fault(error)
        elif error.filename is not None and error.errno in _BARRED:
            _say(f"stillruns: cannot get at {_name(error.filename)}: {_why(error)}; {_BARRED[error.errno]}")
            code = ExitCode.USAGE
        elif error.filename is not None:
            code = _fault(error)
        else:
            _say(f"stillruns: cannot write the output: {error.strerror}; nothing that was recorded is lost.")
            code = ExitCode.FAILED
    except Exception as error:
        code = _fault(error)
    _flush()
    stopping.EAR.deaf()
    sys.exit(int(code or 0))


def _one_sentence(error: click.ClickException) -> str:
    """What is wrong with the arguments, and where it stands what they are."""
    text = " ".join(error.format_message().split()).rstrip(".").replace(". (Did you", " (did you")
    context = error.ctx if isinstance(error, click.UsageError) else None
    verb = context.info_name if context and context.parent else next((w for w in sys.argv[1:] if w in VERBS), "")
    return f"{text[:1].lower()}{text[1:]}; `{f'{CALLER.program} {verb}'.rstrip()} --help` tells what it takes"


_RIGHT = "give this user the right to it, or name another path"
_NAME = "check the path"
_BARRED = {
    errno.EACCES: _RIGHT, errno.EPERM: _RIGHT, errno.ENAMETOOLONG: _NAME, errno.ELOOP: _NAME, errno.ENOTDIR: _NAME,
    errno.EISDIR: _NAME, errno.ESTALE: "mount its file system again", errno.EIO: "see the kernel's log for its disk",
}  # fmt: skip
"""What bars the way to a path that a user named, wherever it is first looked at, and what to do."""


def _name(filename: object) -> str:
    return os.fsdecode(filename) if isinstance(filename, (str, bytes)) else str(filename)


def _why(error: OSError) -> str:
    text = error.strerror or type(error).__name__
    return f"{text[:1].lower()}{text[1:]}"


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF)


def _fault(error: Exception) -> ExitCode:
    if stopping.EAR.heard:
        stopping.say()
        return ExitCode.INTERRUPTED
    if _debugging():
        traceback.print_exc()
    _say(
        f"stillruns: a fault of this program: {type(error).__name__}: {error}; "
        "please report it with the output of the same command and --debug."
    )
    return ExitCode.FAILED


def _say(text: str) -> None:
    """To stderr, if there is one. A sentence may hold a file's name or a line of a spec, which are hostile text."""
    with contextlib.suppress(OSError, AttributeError):
        click.echo(visible(text), err=True)


def _flush() -> None:
    """What cannot be written any more at the end is dropped here, since the interpreter would print a traceback."""
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), number)
