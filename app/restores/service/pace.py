"""The ranks of a large restore speak one after the other, not all at once.

Hundreds of ranks claim, hear a decision and give pages back at the same moment. Each of these words costs
milliseconds, so that the last rank would wait for all others; with turns none waits. The pace is what one web
process carries while it is half idle: a queue that is never empty only grows.
"""

from typing import Final

# Up to so many ranks may speak at once.
CROWD: Final = 32
# What a word costs the web process on average, in seconds of its one core (docs/PERFORMANCE.md).
WORD_S: Final = 0.0025
# At its turn, or while others have theirs, a rank claims, gets ready and asks what is decided.
WORDS_PER_TURN: Final = 3
# So much of the core may be busy with turns. As much again is for beats, other restores and pages.
BUSY: Final = 0.3
# So many ranks have their turn in a second.
RANKS_PER_S: Final = BUSY / (WORD_S * WORDS_PER_TURN)


def pace_s(rank_count: int) -> float:
    """Seconds over which the ranks of a restore spread one word each; 0 where they need not."""
    return 0.0 if rank_count <= CROWD else rank_count / RANKS_PER_S


def turn_s(rank: int, *, rank_count: int) -> float:
    """When within that time a rank has its turn, in seconds from the moment all could speak."""
    return pace_s(rank_count) * rank / rank_count
