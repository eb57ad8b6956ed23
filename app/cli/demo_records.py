"""The two images of the public record that the demo retells, as facts with their sources.

They are shown as *imported record*: neither run nor judged here. The facts stand in public evidence documents
of the sparkring and sparkcache repositories (paths in `record`); the documents themselves are not part of
this repository.
"""

from typing import Any, Final

_SPARKCACHE: Final = "FujitsuPolycom/sparkcache"

IMPORTED_RECORDS: Final[tuple[dict[str, dict[str, Any]], ...]] = (
    {
        "source": {
            "repository": _SPARKCACHE,
            "commit": "eabe7fd0c878db7384ef87fe80a1e96b9bedcf67",
            "tree": "d88a65ea265a6f212367baa8c4a4970079d6b08a",
            "source_sha256": "d9a7800ce201b0671676fc8d71423947c7b24e4797758db727c06e0e684495fe",
        },
        "image": {
            "title": "flat v2, four readers",
            "config_id": "df4e09a32cdbf1c0e69cc7c4c9e95d890d6c7a1e3eaac84f969912a16fd27dd3",
            "origin": "imported-record",
            "record": (
                "Record: all four ranks restored 131,072 tokens, 813,068,464 bytes in 13 objects per rank, "
                "every hash right; the answer was spark, expected red. Recomputation answered red. Declared "
                "research-only, not deployable. Source: sparkcache evidence/glm53-flash-dflash7-bf16/"
                "flat-v2-four-reader-semantic-rejection-eabe7fd.json."
            ),
        },
    },
    {
        "source": {
            "repository": _SPARKCACHE,
            "commit": "a1511d26a1fe2b17b24561bc52e376bf7f54b06a",
            "tree": "4d5b8eb8c5c13793ee7a1e67b2b34bd38fcf4ddb",
            "source_sha256": "6651f2823c816fac93779cbca54a8f19c0ed262830953149f3a87d189d1f833b",
        },
        "image": {
            "title": "snapshot-v1-safe, single reader",
            "config_id": "35b58a7bf414059c65b8f74e4e4b17ee6a81b7008e1bffbc9bd298b5e08c739e",
            "origin": "imported-record",
            "record": (
                "Record: one case of 131,072 tokens, 813,068,464 bytes in 13 objects per rank, restored with "
                "one reader on TP4/DCP1; expected, published and restored answer all red. Declared qualified "
                "for that case only. Source: sparkring performance/receipts/glm53-flash/"
                "dflash7-snapshot-v1-safe/validation.json."
            ),
        },
    },
)
