"""Which page sets a device has handed out and how far each has come; the same for every kind of device."""

from app.core.errors import DeviceError
from app.core.restore.device import PageSet, PageState
from app.core.store.snapshot import PageLayout


class PageSets:
    """The page sets of one device. Not safe for threads by itself: the device's lock guards it.

    Args:
        device: the device's name.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._states: dict[int, PageState] = {}
        self._unsettled: set[int] = set()
        self._placing = False
        self._count = 0

    def add(
        self, layout: PageLayout, *, block_counts: tuple[int, ...], slots: tuple[tuple[int, ...], ...]
    ) -> PageSet:
        """Private pages under a number of their own."""
        self._count += 1
        pages = PageSet(
            number=self._count, device=self._device, layout=layout, block_counts=block_counts, slots=slots
        )
        self._states[pages.number] = PageState.PRIVATE
        return pages

    @property
    def next_number(self) -> int:
        """The number the next page set gets."""
        return self._count + 1

    def state(self, pages: PageSet) -> PageState:
        """Where in its life a page set is.

        Raises:
            DeviceError: it was never reserved here.
        """
        if pages.device != self._device or not 0 < pages.number <= self._count:
            raise DeviceError(
                f"page set {pages.number} of {pages.device}",
                expected=f"pages of {self._device}",
                found="foreign ones",
            )
        return self._states.get(pages.number, PageState.DISCARDED)

    def require_private(self, pages: PageSet) -> None:
        """Require pages that nobody but the restore may see.

        Raises:
            DeviceError: they are published, discarded or foreign.
        """
        found = self.state(pages)
        if found is not PageState.PRIVATE:
            raise self._refusal(pages, expected=PageState.PRIVATE, found=found)

    def require_kept(self, pages: PageSet) -> None:
        """Require pages that are still reserved.

        Raises:
            DeviceError: they are discarded or foreign.
        """
        if self.state(pages) is PageState.DISCARDED:
            raise self._refusal(pages, expected="pages not yet discarded", found="discarded")

    def begin(self, pages: PageSet) -> None:
        """Open the one placement a device runs at a time; from here on the pages must settle.

        Raises:
            DeviceError: they are not private, or another placement is open.
        """
        self.require_private(pages)
        if self._placing:
            raise DeviceError(f"device {self._device}", expected="no open placement", found="one")
        self._placing = True
        self._unsettled.add(pages.number)

    def end(self, pages: PageSet, *, settled: bool) -> None:
        """The open placement is over; pages it left unsettled can be placed again or discarded."""
        self._placing = False
        if settled:
            self._unsettled.discard(pages.number)

    def publish(self, pages: PageSet) -> None:
        """Make private pages visible (restore-contract §6: what was aborted can never be resumed).

        Raises:
            DeviceError: they are not private, or their last placement has not settled.
        """
        self.require_private(pages)
        if pages.number in self._unsettled:
            raise self._refusal(pages, expected="a settled placement", found="one open or aborted")
        self._states[pages.number] = PageState.PUBLISHED

    def discard(self, pages: PageSet) -> bool:
        """Forget a page set; whether it was still there.

        Raises:
            DeviceError: it was never reserved here.
        """
        self.state(pages)
        self._unsettled.discard(pages.number)
        return self._states.pop(pages.number, None) is not None

    def _refusal(self, pages: PageSet, *, expected: str, found: str) -> DeviceError:
        return DeviceError(f"page set {pages.number} of {self._device}", expected=expected, found=found)
