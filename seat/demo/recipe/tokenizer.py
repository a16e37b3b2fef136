"""Write the demo model's SentencePiece tokenizer piece by piece. Knows pieces and scores; no audio, no model."""

import string
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

from seat.demo.recipe.vocabulary import FULL_STOP, WORD_MARK, WORDS, pieces

protobuf: Any = sentencepiece_model_pb2
"""Its classes are made at run time, out of sight of type checkers."""

PIECE_SCORE = -1.0
LETTER_SCORE = -9.0
"""A letter alone costs far more than two pieces, so letters only ever spell what is not a word of the vocabulary."""


def vocabulary_pieces() -> list[str]:
    """List heads, capital heads, tails and the full stop, in a fixed order."""
    spelled = [pieces(form) for word in WORDS for form in (word, word.capitalize())]
    heads = dict.fromkeys(head for head, _ in spelled)
    tails = dict.fromkeys(tail for _, tail in spelled)
    return [FULL_STOP, *heads, *tails]


def write(folder: Path) -> Path:
    """Write `tokenizer.model` and `vocab.txt` as NeMo's `bpe` tokenizer directory wants them.

    Args:
        folder: Made if missing.

    Returns:
        The folder.

    Raises:
        ValueError: A word of the vocabulary would not be spelled with its own two pieces.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = protobuf.ModelProto()
    model.pieces.add(piece="<unk>", score=0.0, type=protobuf.ModelProto.SentencePiece.UNKNOWN)
    known = vocabulary_pieces()
    for piece in known:
        model.pieces.add(piece=piece, score=PIECE_SCORE)
    for letter in (WORD_MARK, *string.ascii_letters):
        if letter not in known:
            model.pieces.add(piece=letter, score=LETTER_SCORE)
    model.trainer_spec.model_type = protobuf.TrainerSpec.UNIGRAM
    model.trainer_spec.vocab_size = len(model.pieces)
    model.trainer_spec.unk_id = 0
    model.trainer_spec.bos_id = model.trainer_spec.eos_id = model.trainer_spec.pad_id = -1
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = True
    model.normalizer_spec.remove_extra_whitespaces = True
    model.normalizer_spec.escape_whitespaces = True
    data = model.SerializeToString()
    (folder / "tokenizer.model").write_bytes(data)
    processor = SentencePieceProcessor(model_proto=data)
    for word in WORDS:
        for form in (word, word.capitalize()):
            if tuple(processor.encode(form, out_type=str)) != pieces(form):
                message = f"{form} is spelled {processor.encode(form, out_type=str)}, not {pieces(form)}"
                raise ValueError(message)
    lines = [piece.piece.replace(WORD_MARK, "##") for piece in model.pieces][1:]
    (folder / "vocab.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
