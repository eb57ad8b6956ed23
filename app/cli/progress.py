"""Progress: a bar over bytes, or a line, on standard error so that standard output stays for programs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


@contextmanager
def progress_bar(what: str, *, total: int) -> Iterator[Callable[[int], None]]:
    """A bar for `total` bytes; the yielded function takes how many are done by now."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def progress_line(what: str) -> Iterator[Callable[[str], None]]:
    """A line for work nobody knows the length of; the yielded function takes what to say."""
    columns = (TextColumn("{task.description}"), SpinnerColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None, said="")
        yield lambda said: progress.update(task, said=said)
