"""What may be asked of receipts.

append      keep a document
locks       who judges what at a time
stored      receipts as the rules take them
reading     one receipt, lists
"""

from app.receipts.repository import ReceiptFilter
from app.receipts.service.append import Appended, Origin, append_receipt
from app.receipts.service.reading import (
    count_receipts,
    documents,
    get_receipt,
    leaf_of_receipt,
    list_receipts,
    many_raw_bytes,
    raw_bytes,
    require_receipts,
)

__all__ = [
    "Appended",
    "Origin",
    "ReceiptFilter",
    "append_receipt",
    "count_receipts",
    "documents",
    "get_receipt",
    "leaf_of_receipt",
    "list_receipts",
    "many_raw_bytes",
    "raw_bytes",
    "require_receipts",
]
