"""What may be asked of the ledger.

record      facts into leaves, within the transaction of the fact
proofs      the head, entries, checkpoints and proofs
signing     the key checkpoints are signed with
extent      where in the log something stands
contents    entries with the rows they keep
audit       the whole log and every row it covers, checked
"""

from app.ledger.repository.rows import RowKey
from app.ledger.service.record import CONTROL_PLANE, all_of, record

__all__ = ["CONTROL_PLANE", "RowKey", "all_of", "record"]
