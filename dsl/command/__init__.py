"""The `dsl` command. Each subcommand is a module, which is imported only when the subcommand is called.

Exit status: 0 fine, 1 the result differs, 2 the input is wrong, 3 the device failed, 70 an internal error.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import warnings
from importlib import import_module
from typing import Any

import click

from dsl.command import failures
from dsl.command.options import WORDS
from dsl.lowering.ir.location import closest, printable
from dsl.lowering.ir.plugins import NONE, Plugins, give

COMMANDS = {
    "run": "Run a file's example, and check and measure it.",
    "bench": "Show the kernels and schedules of a file side by side.",
    "count": "Count what launches of PTX texts cost, of any compiler, side by side.",
    "tune": "Find the fastest point of the schedules' tune sets.",
    "model": "Fit a cost model to logs, and report how well it orders points.",
    "calibrate": "Fit the numbers of a GPU that costs read, and report how well costs order points.",
    "replay": "Make the trials of a log again, and report what differs; or pack them for others.",
    "compare": "Compare logs: paired ratios, and their geometric mean.",
    "diff": "Report what differs between two launches, and what it costs.",
    "ablate": "Show what each choice is worth: replaced by another option, all others as chosen.",
    "bisect": "Find the choice, or the commit, at which a figure changes.",
    "fuzz": "Give choices random options: results must stay right.",
    "check": "Report all errors of files, without generating code.",
    "format": "Format files in the style of the samples.",
    "server": "Answer an editor: a language server.",
    "verify": "Compare a kernel's results after each pass, and its PTX's.",
    "compile": "Show any level of a kernel as text.",
    "why": "Say why a kernel's code is as it is, and what else it could be.",
    "export": "Write a kernel as C on the CUDA driver, for programs without Python.",
    "schedule": "Print the complete schedule that a call gets, with a reason for each line.",
    "opt": "Run passes on a kernel's IR as text.",
    "inspect": "Write a page: a kernel at all its levels, linked.",
    "layout": "Draw which lane, register or bank holds which element.",
    "cache": "Show the compile cache, or empty it.",
    "new": "Write a first kernel to start from, or copy a sample.",
    "explain": "Explain an error code, a property, a function or a word.",
}
"""Subcommands with their one-line help. The module `dsl.command.NAME` defines the function `command`."""


def take_plugins(context: click.Context, parameter: click.Parameter, files: tuple[str, ...]) -> None:
    """Gives the compiler the plug-ins of `--plugin` until the command ends. They are loaded at their first use, inside
    the command. Therefore an error in a plug-in is reported like an error in the `.tile` file."""

    @functools.cache  # the name `cache` is a command
    def plugins() -> Plugins:
        # Imported here so that `dsl --help` loads neither a grammar nor numpy.
        from dsl.kernels.plugin_files import load_plugins

        return load_plugins(files)

    if files:
        give(plugins)
        # Plug-ins are global while a command runs. They are removed at its end, because tests call several commands in
        # one process.
        context.call_on_close(lambda: give(lambda: NONE))


PLUGIN = click.Option(
    ["--plugin"],
    multiple=True,
    type=click.Path(),
    metavar="FILE.py",
    expose_value=False,
    callback=take_plugins,
    help="A Python file that adds to the compiler (docs/plugins.md); may be repeated.",
)


class Commands(click.Group):
    """A click group that imports a subcommand's module when it is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"dsl.command.{'new_file' if name == 'new' else name}").command
        # `dsl new` compiles only its own template.
        if name != "new" and PLUGIN not in command.params:
            command.params.append(PLUGIN)
        return command

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        # Only the group receives the whole command line. The words are kept here because logs of trials record the
        # command.
        context.meta[WORDS] = ("dsl", *args)
        return super().parse_args(context, args)

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            hint = closest(args[0], list(COMMANDS)) or f"known: {', '.join(COMMANDS)}"
            raise click.UsageError(f"no such command '{args[0]}'; {hint}", context)
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"dsl {version('dsl')}")
        except PackageNotFoundError:
            # A checkout can run as `python -m dsl` without being installed.
            click.echo("dsl of a source tree that is not installed")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=print_version, help="Version.")
def cli() -> None:
    """A small tile language for NVIDIA GPUs: .tile text to PTX, run on a GPU or on a strict emulator."""


def open_outputs() -> None:
    """Replaces a closed standard output or standard error by /dev/null. Otherwise, the next opened file would get the
    file descriptor of the closed stream."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Opened in text mode, because click and print write text.
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (stays open as long as the process)


def show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Prints a warning on one line, without the Python file and line that issued it."""
    click.echo(printable(f"warning: {message}"), err=True)


def main(arguments: list[str] | None = None) -> None:
    """Runs a command line and exits with its status."""
    gc.set_threshold(100_000)  # trees and IR stay alive: early garbage collection costs a tenth of `dsl check`
    open_outputs()
    warnings.showwarning = show_warning
    try:
        with cli.make_context("dsl", sys.argv[1:] if arguments is None else arguments) as context:
            # click prints into a Python buffer. A broken pipe is detected at the flush, which must happen inside this
            # try.
            status = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    # click would end the process for this exception. Here all errors end at the exit below.
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        # 128 + SIGINT, the status that shells report.
        status = 130
    except Exception as error:
        status = failures.show(error)
    try:
        sys.stdout.flush()
    except OSError as error:  # from the output of --help, or output left after another error
        status = failures.show(error)
    sys.exit(status if isinstance(status, int) else 0)
