"""`dsl cache`: shows the compile cache, or empties it."""

from __future__ import annotations

import json

import click

from dsl.command.options import shared
from dsl.runtime.store import MEBIBYTE, Store, place


@click.command()
@click.argument("action", type=click.Choice(["show", "clear"]), default="show")
@shared("as_json")
def command(action: str, as_json: bool) -> int:
    """Show the place of the compile cache, the number of its entries and their size in bytes. `dsl cache clear` removes
    all entries.

    The variable DSL_CACHE places the cache, or switches it off (off). DSL_CACHE_MB limits its size.
    """
    at = place()
    store = None if at.folder is None else Store(at.folder, at.limit)
    is_off = store is None or at.limit <= 0
    reason = at.why if is_off or store is None else store.flaw
    may_write = not is_off and store is not None and store.is_writable()
    removed = store.clear() if store is not None and action == "clear" else None
    usage = None if store is None else store.usage()
    if as_json:
        record = {
            "folder": None if at.folder is None else str(at.folder),
            "placed_by": at.why,
            "off": reason,
            "writable": may_write,
            "limit": at.limit,
            "entries": usage.entries if usage else 0,
            "bytes": usage.bytes if usage else 0,
            "kinds": usage.kinds if usage else {},
            "removed": removed.entries if removed else 0,
        }
        click.echo(json.dumps(record))
        return 0
    if store is None or usage is None:
        click.echo(f"the compile cache is off: {at.why}")
        return 0
    click.echo(f"{store.folder} ({at.why})")
    if removed is not None:
        click.echo(f"removed {removed.entries} entries, {removed.bytes:,} bytes")
    click.echo(f"{usage.entries} entries, {usage.bytes:,} bytes of at most {at.limit / MEBIBYTE:,.0f} MiB")
    for kind, (count, size) in usage.kinds.items():
        click.echo(f"  {kind:8} {count:6} {size:12,} bytes")
    if reason is not None:
        click.echo(f"it is not used: {reason}")
    elif not may_write:
        click.echo("nothing is kept: the folder may not be written")
    return 0
