"""The ranks of a large restore speak one after the other, not all at once.

Hundreds of ranks claim, hear a decision and give pages back at the same moment. Each of these words costs
milliseconds, so that the last rank would wait for all others; with turns none waits, and all take no longer.
"""

from typing import Final

# Up to so many ranks may speak at once.
CROWD: Final = 32
# So many ranks have their turn in a second: about half of what one web process answers.
RANKS_PER_S: Final = 100.0


def pace_s(rank_count: int) -> float:
    """Seconds over which the ranks of a restore spread one word each; 0 where they need not."""
    return 0.0 if rank_count <= CROWD else rank_count / RANKS_PER_S


def turn_s(rank: int, *, rank_count: int) -> float:
    """When within that time a rank has its turn, in seconds from the moment all could speak."""
    return pace_s(rank_count) * rank / rank_count
