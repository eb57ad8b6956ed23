"""The rules, one file per gate (evidence-model §5, §7)."""
