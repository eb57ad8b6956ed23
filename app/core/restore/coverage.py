"""Whether the copies of a placement follow each other without a gap and are complete in the end."""

from app.core.errors import DeviceError
from app.core.restore.plan import CopySpan
from app.core.store.snapshot import LayerSpan


class Coverage:
    """Counts the spans of one placement (restore-contract §4.2, §3.10).

    Args:
        layers: the destinations.
        payload_bytes: what must be placed in the end.
    """

    def __init__(self, layers: tuple[LayerSpan, ...], *, payload_bytes: int) -> None:
        self._layers = layers
        self._payload_bytes = payload_bytes
        self._placed_bytes = 0
        self._filled_bytes = [0] * len(layers)

    def add(self, span: CopySpan, *, used_bytes: int) -> None:
        """Count a span that lies within ``used_bytes`` of an arena and continues payload and layer.

        Raises:
            DeviceError: it does not, or there is no such layer.
        """
        if not 0 <= span.destination < len(self._layers):
            raise DeviceError("copy span", expected=f"one of {len(self._layers)} layers", found=str(span))
        layer = self._layers[span.destination]
        sound = (
            span.byte_count > 0
            and 0 <= span.arena_offset <= used_bytes - span.byte_count
            and span.snapshot_offset == self._placed_bytes
            and span.destination_offset == self._filled_bytes[span.destination]
            and span.destination_offset + span.byte_count <= layer.end - layer.start
        )
        if not sound:
            raise DeviceError(
                f"copy span into {layer.name}",
                expected=f"to continue at payload byte {self._placed_bytes}, within {used_bytes} arena bytes",
                found=str(span),
            )
        self._placed_bytes += span.byte_count
        self._filled_bytes[span.destination] += span.byte_count

    def require_complete(self, *, error_word: int) -> None:
        """Require every payload byte placed and a device that saw nothing wrong.

        Raises:
            DeviceError: bytes are missing, or the error word is set.
        """
        if self._placed_bytes != self._payload_bytes or error_word:
            raise DeviceError(
                "placement",
                expected=f"{self._payload_bytes} bytes placed, error word 0",
                found=f"{self._placed_bytes} bytes placed, error word {error_word}",
            )
