"""Prints the report of `dsl run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dsl.command.show_timeline import show_timeline
from dsl.examples.report import Check, LaunchReport, Report, Verdict, lines_of, said_of_check
from dsl.lowering.ir.location import printable
from dsl.text.counted import counted_lines, legend
from dsl.text.figures import COLUMNS, amount, number

if TYPE_CHECKING:
    from dsl.runtime.emulator import Counters

LABEL = 11


def styled(text: str, **style: Any) -> str:
    """Colours the text on a terminal, unless NO_COLOR is set."""
    plain = os.environ.get("NO_COLOR") or not sys.stdout.isatty()
    return text if plain else click.style(text, **style)


def line(label: str, text: str) -> None:
    click.echo(f"  {label:<{LABEL}}{printable(text)}".rstrip())


def pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def show_report(report: Report, explain: bool, counters: bool) -> None:
    """Prints a report, on request with the reasons for the variant, or with counters."""
    click.echo(styled(printable(report.title), bold=True))
    for launch in report.launches:
        line("kernel", launch.kernel + (f" with {launch.schedule}" if launch.schedule else ""))
        clusters = f" in clusters of {launch.cluster}" if launch.cluster > 1 else ""
        line(
            "",
            f"{amount(launch.blocks, 'block')} of {amount(launch.threads, 'thread')}{clusters}, "
            f"{amount(launch.shared_bytes, 'byte')} shared",
        )
        if not report.launches_agree:
            line("", pairs(launch.dims | launch.types))
    line("device", report.place)
    if report.launches_agree:
        line("dims", pairs(report.dims | report.types))
    for check in report.checks:
        show_check(check)
    if not report.compares:
        line("expect", "nothing: no result was compared")
    show_contracts(report)
    show_time(report)
    for launch in report.launches:
        show_resources(launch, len(report.launches) > 1)
        show_bound(launch, len(report.launches) > 1)
        if launch.output:
            click.echo(printable(launch.output.rstrip("\n")))
    for launch in report.launches:
        if launch.timeline is not None:
            show_timeline(launch.timeline)
    for launch in report.launches:
        if explain and launch.explanation is not None:
            show_explanation(launch)
    if counters:
        # Below the example's own file are the other files with functions that the kernels call.
        show_counted(lines_of(report), report.file)


def show_check(check: Check) -> None:
    word = styled("passed", fg="green") if check.passed else styled("FAILED", fg="red", bold=True)
    # An empty text is added at the end, so that there is always a first text.
    first, *rest = [*said_of_check(check), ""]
    line("expect", check.text + (f"  (line {check.line})" if check.line else ""))
    click.echo(f"  {'':<{LABEL}}{word}{': ' + first if first else ''}")
    for text in rest[:-1]:
        line("", text)


def show_contracts(report: Report) -> None:
    """Prints a line for each contract, such as `expect barriers == 0`. Contracts that were not judged come last, with
    the reason."""
    lines: dict[tuple[str, int], list[Verdict]] = {}
    for verdict in report.contracts:
        lines.setdefault((verdict.file, verdict.line), []).append(verdict)
    for (file, at), found in lines.items():
        judged = [each for each in found if each.held is not None]
        place = f"line {at}" if file == report.file else f"{file}:{at}"
        if judged:
            # One line may be judged for several launches that have the same figure.
            figures = dict.fromkeys(f"{each.name} {figure(each.figure)}" for each in judged)
            failed = dict.fromkeys(each.text for each in judged if each.held is False)
            word = styled("FAILED", fg="red", bold=True) if failed else styled("passed", fg="green")
            text = f"{', '.join(figures)}  ({place})"
            click.echo(f"  {'expect':<{LABEL}}{word}: {printable(text)}")
            if failed:
                line("", f"not {', '.join(failed)}")
    reasons: dict[str, dict[str, None]] = {}
    for verdict in report.contracts:
        if verdict.held is None:
            reasons.setdefault(verdict.reason or "", {})[f"{verdict.text} (line {verdict.line})"] = None
    for reason, texts in reasons.items():
        line("not judged", f"{', '.join(texts)}: {reason}")


def figure(value: float | str | None) -> str:
    return value if isinstance(value, str) else number(value)


def show_time(report: Report) -> None:
    if report.times is None:
        line("time", f"none: {report.untimed or 'the emulator counts, it does not measure'}")
        return
    low, middle, high = report.times
    line("time", f"{middle:.1f} us (20% to 80%: {low:.1f} to {high:.1f}; 20 runs, L2 flushed)")
    if report.gbps is not None:
        # The share is unknown if the device does not report the clock of its memory.
        share = "" if report.share_of_limit is None else f", {report.share_of_limit:.0%} of the memory's bandwidth"
        line("rate", f"{number(report.gbps)} GB/s{share}")
    if report.tflops is not None:
        line("", f"{number(report.tflops)} TFLOPS")


def show_resources(launch: LaunchReport, named: bool) -> None:
    label = f"of {launch.kernel}" if named else ""
    if launch.registers is not None:
        text = f"{amount(launch.registers, 'register')}, {amount(launch.spills or 0, 'byte')} spilled"
        if launch.occupancy is not None:
            text += f", occupancy {launch.occupancy:.0%} (limited by {launch.limited_by})"
        line("resources", f"{text} {label}")
        # Without `maxnreg`, ptxas spills only above 255 registers, and the schedule is not the cause.
        if launch.maxnreg is not None and launch.spills:
            line("", f"'maxnreg {launch.maxnreg}' is not enough: what it spills goes through local memory")
    if launch.machine_code is not None:
        code = launch.machine_code
        text = f"{amount(code['instructions'] or 0, 'instruction')} by ptxas"
        text += f", {number(code['loop'])} of them in the longest inner loop" if code["loop"] else ""
        line("SASS", f"{text} {label}")
    if (c := launch.counted) is not None:
        text = f"{amount(c.instructions, 'warp instruction')} of the PTX ({amount(c.moves, 'move')}), "
        line("counters", f"{text}{amount(c.active_lanes, 'lane')} active {label}")
        excess = f" ({c.sectors_over_fewest:.2f} times the fewest)" if c.sectors_over_fewest else ""
        line("", f"{amount(c.sectors, 'sector')} of global memory{excess}")
        # Kernels without shared memory or atomics have no such lines.
        if c.shared_wavefronts:
            conflicts = number(c.bank_conflicts)
            line("", f"{amount(c.shared_wavefronts, 'shared wavefront')}, {conflicts} by bank conflicts")
        # A barrier of a block or cluster counts once for each of its warps, as in the table of lines.
        waits = {"block": c.barriers, "cluster": c.cluster_barriers}
        found = [f"{amount(count, 'warp')} at {scope} barriers" for scope, count in waits.items() if count]
        nouns = {"warp barrier": c.warp_barriers, "shuffle": c.shuffles, "atomic": c.atomics}
        found += [amount(count, noun) for noun, count in nouns.items() if count]
        found += [f"{number(c.mma)} mma"] * bool(c.mma)
        if found:
            line("", ", ".join(found))
        if c.atomic_waits:
            line("", f"{amount(c.atomic_waits, 'turn')} of atomics on one address, executed one after another")


def show_bound(launch: LaunchReport, named: bool) -> None:
    """Prints the hardware unit that limits a launch, with its share of the time, then the other units."""
    bound = launch.bound
    if bound is None or bound.name is None:
        return
    first, *others = bound.terms.items()
    label = f"of {launch.kernel}" if named else ""
    text = f"at least {first[1]:.3g} us on this device"
    if bound.time_us:
        text = f"{bound.share(first[0]):.0%} of the time at its full rate, {first[1]:.3g} us"
    line("bound", f"{first[0]}: {text} {label}")
    # Units that take below a hundredth of the first unit's time cannot matter.
    rest = [f"{unit} {us:.3g}" for unit, us in others if us >= first[1] / 100]
    if rest:
        line("", f"{', '.join(rest)} us")
    for each in bound.missing:
        line("", each)
    if bound.measured:
        busy = sorted(bound.measured.items(), key=lambda unit: -unit[1])
        line("profiler", ", ".join(f"{unit} {share:.0%}" for unit, share in busy if share >= 0.01))


def show_explanation(launch: LaunchReport) -> None:
    about = launch.explanation
    assert about is not None
    click.echo(styled(f"why {launch.kernel}", bold=True))
    for reason in about.reasons:
        line("dispatch", reason)
    line("constants", pairs(about.constants))
    for require in about.requires:
        line("requires", require)
    for name, kind, layout in about.layouts:
        line("layout", f"{name}: {kind}: {layout}")
    levels = ", ".join(f"{level} {seconds * 1e3:.1f}" for level, seconds in about.seconds.items())
    line("ms", levels)


def show_counted(files: Mapping[str, Mapping[int, Counters]], whole: str | None) -> None:
    """Prints source lines with counters beside them. The file `whole` is printed with all of its lines."""
    from dsl.text.terminal import Terminal, Text, add, table

    used, lines = counted_lines(files, whole)
    made = table([*(COLUMNS[name].label for name in used), "", "", ""], left=0)
    for each in lines:
        cells = [COLUMNS[name].text(each.counts[name]) if each.counts.get(name) else "" for name in used]
        text = each.text if each.number else Text(printable(each.text), "bold")
        add(made, [*cells, "|", each.number or "", text])
    terminal = Terminal()
    terminal.say(legend(used))
    terminal.show(made, 0)
