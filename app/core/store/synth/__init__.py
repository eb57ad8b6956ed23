"""Valid stores made from nothing: flat ones of any size, small ones of every other kind."""

from app.core.store.synth.design import design_layout, minimum_bytes
from app.core.store.synth.flat import MIN_OBJECT_BYTES, SynthesizedSnapshot, synthesize_store
from app.core.store.synth.kinds import StoreKind, SynthesizedEntry, SynthesizedStore, synthesize_kind

__all__ = [
    "MIN_OBJECT_BYTES",
    "StoreKind",
    "SynthesizedEntry",
    "SynthesizedSnapshot",
    "SynthesizedStore",
    "design_layout",
    "minimum_bytes",
    "synthesize_kind",
    "synthesize_store",
]
