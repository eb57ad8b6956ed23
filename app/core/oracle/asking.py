"""Ask one rank: what its placed pages say, what the control's tokens say, and what its pages really are."""

from app.core.errors import FormatError
from app.core.oracle.diagnosis import check_pages
from app.core.oracle.partials import RankPartials
from app.core.oracle.question import OracleQuestion, layer_number, require_layout
from app.core.oracle.reference_decoder import most_votes, on_host, recomputed_logits, restored_logits
from app.core.restore.device import Device, PageSet


def ask_rank(device: Device, pages: PageSet, *, question: OracleQuestion, rank: int) -> RankPartials:
    """Compute a rank's part of the answer from its pages as they lie on the device.

    Args:
        device: where the pages are; both computations run on it.
        pages: settled, private or published.
        question: about the snapshot that was restored into them.
        rank: tensor-parallel rank whose shard they hold.

    Raises:
        IncompatibleError: the question is about another layout.
        FormatError: the rank is none of the question's, or the pages are not as many as its blocks.
        DeviceError: the pages are discarded, or of another device.
    """
    if not 0 <= rank < question.ranks:
        raise FormatError("oracle rank", expected=f"0 … {question.ranks - 1}", found=str(rank))
    require_layout(question, layout=pages.layout)
    xp = device.xp
    keys, values = (
        device.layer_pages(pages, layer=layer_number(pages.layout, name=name))
        for name in (question.key_layer, question.value_layer)
    )
    restored = restored_logits(xp, question=question, rank=rank, keys=keys, values=values)
    control = recomputed_logits(xp, question=question, rank=rank, word=question.control)
    check = check_pages(question, rank=rank, keys=on_host(keys), values=on_host(values))
    return RankPartials(
        question_sha256=question.sha256,
        rank=rank,
        restored=restored,
        control=control,
        most=most_votes(question),
        layers=check.layers,
        wrong_pages=len(check.wrong),
        finding=check.finding,
    )
