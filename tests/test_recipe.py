"""The recipe of the bundled model: its loss is the one it claims to be, and every word has its two pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seat.demo.recipe import tokenizer, vocabulary
from seat.demo.recipe.speech import EDGE_FRAME, edges

pytestmark = pytest.mark.model


def test_every_word_is_two_pieces_that_are_no_words_themselves(tmp_path: Path) -> None:
    """So that the first token marks a word's beginning and the second its end; `write` checks the spelling itself."""
    tokenizer.write(tmp_path)
    for word in vocabulary.WORDS:
        head, tail = vocabulary.split(word)
        assert head + tail == word
        assert head
        assert tail
        assert head not in vocabulary.WORDS


def test_a_click_before_a_word_is_not_its_beginning_and_a_short_sound_behind_it_is_its_end() -> None:
    """Recordings that are cut off begin with a click of 10 to 20 ms; the plosive that ends "eight" is as short."""
    levels = np.full(80, 1e-5, np.float32)
    levels[0:2] = 0.02
    levels[30:60] = 0.5
    levels[68:70] = 0.1
    signs = np.resize([1, -1], EDGE_FRAME)
    assert edges(np.kron(levels, signs).astype(np.float32)) == (30 * EDGE_FRAME, 70 * EDGE_FRAME)
    levels[24:26] = 0.1  # the plosive of "two", 40 ms before the vowel
    assert edges(np.kron(levels[10:], signs).astype(np.float32)) == (14 * EDGE_FRAME, 60 * EDGE_FRAME)
    assert edges(np.zeros(4 * EDGE_FRAME, np.float32)) == (0, 0)


@pytest.mark.parametrize("seed", range(6))
def test_the_restricted_loss_is_the_rnnt_loss_within_its_spans(seed: int) -> None:
    """Against the recursion of the paper, cell by cell: ragged rows, narrow spans, wide ones, no tokens at all."""
    import torch

    from seat.demo.recipe.loss import Targets, restricted_loss

    draw = torch.Generator().manual_seed(seed)
    batch, longest, most, width, symbols = 4, 7, 3, 5, 6
    encoded = torch.randn(batch, longest, width, generator=draw)
    predicted = torch.randn(batch, most + 1, width, generator=draw)
    weights = torch.randn(width, symbols + 1, generator=draw)

    def joint(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.tanh(left + right) @ weights

    frames = torch.randint(3, longest + 1, (batch,), generator=draw)
    counts = torch.tensor([0, 1, 2, 3])
    tokens = torch.randint(0, symbols, (batch, most), generator=draw)
    spans = torch.zeros(batch, most, 2, dtype=torch.long)
    for row in range(batch):
        last = int(frames[row]) - 1
        edges = torch.randint(0, last + 1, (most, 2), generator=draw).sort(dim=1).values
        spans[row] = edges.cummax(dim=0).values if seed else torch.tensor([0, last])
    found = restricted_loss(joint, encoded, frames, predicted, Targets(tokens=tokens, counts=counts, spans=spans))
    for row in range(batch):
        scores = joint(encoded[row, :, None], predicted[row, None]).log_softmax(-1)
        reached = {(0, 0): torch.tensor(0.0)}
        last, count = int(frames[row]) - 1, int(counts[row])
        for time in range(last + 1):
            for done in range(count + 1):
                here = reached.get((time, done))
                if here is None:
                    continue
                ways = [(time + 1, done, scores[time, done, symbols])]
                if done < count and spans[row, done, 0] <= time <= spans[row, done, 1]:
                    ways.append((time, done + 1, scores[time, done, tokens[row, done]]))
                for later, written, score in ways:
                    before = reached.get((later, written), torch.tensor(float("-inf")))
                    reached[later, written] = torch.logaddexp(before, here + score)
        assert float(found[row]) == pytest.approx(-float(reached[last + 1, count]), rel=1e-4)
