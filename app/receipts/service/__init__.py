"""What may be asked of receipts.

append      keep a document
locks       who judges what at a time
stored      receipts as the rules take them
reading     one receipt, lists
"""

from app.receipts.repository import KeptPlace, ReceiptFilter
from app.receipts.service.append import Appended, Origin, Submission, append_and_ask, append_receipts
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
    "KeptPlace",
    "Origin",
    "ReceiptFilter",
    "Submission",
    "append_and_ask",
    "append_receipts",
    "count_receipts",
    "documents",
    "get_receipt",
    "leaf_of_receipt",
    "list_receipts",
    "many_raw_bytes",
    "raw_bytes",
    "require_receipts",
]
