"""What may be asked of the ledger.

record      facts into leaves, within the transaction of the fact
"""

from app.ledger.service.record import CONTROL_PLANE, all_of, record

__all__ = ["CONTROL_PLANE", "all_of", "record"]
