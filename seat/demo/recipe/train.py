"""Train the demo model from nothing: `python -m seat.demo.recipe.train --fsdd DIR --minutes 108 --out demo.nemo`.

Two CPU cores are enough. State is kept beside the scratch folder's bank, so a killed run goes on where it was.
"""

import argparse
import copy
import dataclasses
import json
import logging
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
from nemo.collections.asr.models import EncDecRNNTBPEModel
from torch import Tensor

from seat.demo.recipe import bank, model, tokenizer
from seat.demo.recipe.accuracy import quick_check
from seat.demo.recipe.feed import Batch, Drawer, Feed
from seat.demo.recipe.loss import Targets, restricted_loss
from seat.demo.recipe.mix import voices

PEAK_RATE = 1.5e-3
"""Learning rate after warming up."""
WARM_UP_STEPS = 150
AVERAGING = 0.999
"""Decay of the running average of the weights, which is what is measured and saved."""
STEADY_FROM = 0.65
"""Share of the training after which batch norm keeps its statistics, as it will when the model is used."""

log = logging.getLogger("seat.demo.train")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to train with and for how long."""

    fsdd: Path
    """Folder of the Free Spoken Digit Dataset's recordings."""
    minutes: float
    """Training time, measuring included."""
    out: Path
    """The model file, replaced whole at each check."""
    scratch: Path
    """Folder for synthesized speech, tokenizer and state."""
    human: float
    """Share of utterances with people in them."""
    check_minutes: float
    """Between two checks."""


def warp(features: Tensor, rng: np.random.Generator) -> Tensor:
    """Lengthen or shorten vocal tracts: shrink or stretch its frequencies by up to 18 %.

    Args:
        features: (B, M, T) mel features.
        rng: Draws the factors; four in ten utterances are left as they are.
    """
    count = features.shape[1]
    mels = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), count + 2)[1:-1]
    hertz = 700 * (10 ** (mels / 2595) - 1)
    factors = np.where(rng.random(len(features)) < 0.6, rng.uniform(0.85, 1.18, len(features)), 1.0)
    place = np.interp(2595 * np.log10(1 + hertz[None] * factors[:, None] / 700), mels, np.arange(count))
    low = torch.from_numpy(np.minimum(place.astype(np.int64), count - 2))
    share = torch.from_numpy(place).float() - low
    index = low[..., None].expand(-1, -1, features.shape[2])
    return features.gather(1, index) * (1 - share[..., None]) + features.gather(1, index + 1) * share[..., None]


def mask(features: Tensor, rng: np.random.Generator) -> Tensor:
    """Blank a band of up to 12 mels in half of the utterances, and up to 60 ms now and then."""
    for row in features:
        if rng.random() < 0.5:
            low = int(rng.integers(0, 75))
            row[low : low + int(rng.integers(1, 13))] = 0.0
        for _ in range(rng.poisson(features.shape[2] / 600)):
            start = int(rng.integers(0, features.shape[2]))
            row[:, start : start + int(rng.integers(1, 7))] = 0.0
    return features


class Trainer:
    """A model in training."""

    def __init__(self, plan: Plan) -> None:
        """Build the model, or go on from the kept state."""
        self._plan = plan
        self.model: EncDecRNNTBPEModel = model.build(tokenizer.write(plan.scratch / "tokenizer"))
        self.average = copy.deepcopy(self.model.state_dict())
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=1e-3, fused=True
        )
        self.step = 0
        self.seconds = 0.0
        self._kept = plan.scratch / "state.pt"
        self._rng = np.random.default_rng(int(time.time()))
        if self._kept.exists():
            state = torch.load(self._kept, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.average = state["average"]
            self.optimizer.load_state_dict(state["optimizer"])
            for group in self.optimizer.param_groups:
                group["fused"] = True
            self.step, self.seconds = state["step"], state["seconds"]

    @property
    def done(self) -> float:
        """Share of the planned time that is used, 0 to 1."""
        return min(1.0, self.seconds / (self._plan.minutes * 60))

    def keep(self) -> None:
        """Write what going on needs."""
        state = {
            "model": self.model.state_dict(),
            "average": self.average,
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "seconds": self.seconds,
        }
        torch.save(state, self._kept.with_suffix(".new"))
        self._kept.with_suffix(".new").replace(self._kept)

    def losses(self, batch: Batch) -> Tensor:
        """Give the loss of each utterance of a batch."""
        net = self.model
        with torch.no_grad():
            audio = torch.from_numpy(batch.samples).float() / 32_767
            features, lengths = net.preprocessor(input_signal=audio, length=torch.from_numpy(batch.lengths))
            if batch.tempo != 1.0:
                features = torch.nn.functional.interpolate(features, scale_factor=batch.tempo, mode="linear")
                lengths = (lengths * batch.tempo).long().clamp(max=features.shape[2])
            features = mask(warp(features, self._rng), self._rng)
        net.encoder.att_context_size = list(batch.context)
        encoded, frames = net.encoder(audio_signal=features, length=lengths)
        tokens, counts = torch.from_numpy(batch.tokens), torch.from_numpy(batch.counts)
        predicted, _, _ = net.decoder(targets=tokens, target_length=counts)
        spans = torch.minimum(torch.from_numpy(batch.spans), frames[:, None, None] - 1)
        return restricted_loss(
            lambda left, right: net.joint.joint_net(left + right),
            net.joint.enc(encoded.transpose(1, 2)),
            frames,
            net.joint.pred(predicted.transpose(1, 2)),
            Targets(tokens=tokens, counts=counts, spans=spans),
        )

    def train(self, batch: Batch) -> float:
        """Take one step and give its loss per token."""
        self.model.train()
        if self.done >= STEADY_FROM:
            for module in self.model.modules():
                if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):  # noqa: SLF001 - the common base
                    module.eval()
        rate = PEAK_RATE * min(1.0, (self.step + 1) / WARM_UP_STEPS) * (0.5 + 0.5 * math.cos(math.pi * self.done))
        for group in self.optimizer.param_groups:
            group["lr"] = rate + 1e-6
        loss = self.losses(batch).sum() / (int(batch.counts.sum()) + 10)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        decay = min(AVERAGING, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                if value.is_floating_point():
                    self.average[name].lerp_(value, 1 - decay)
                else:
                    self.average[name].copy_(value)
        return float(loss.detach())

    def save(self) -> EncDecRNNTBPEModel:
        """Write the averaged model to its place, whole or not at all, and give it."""
        averaged = model.build(self._plan.scratch / "tokenizer")
        averaged.load_state_dict(self.average)
        averaged.eval()
        written = self._plan.out.with_name("." + self._plan.out.name + ".new")
        averaged.save_to(str(written))
        written.replace(self._plan.out)
        return averaged


def train(plan: Plan) -> None:
    """Train as planned."""
    synthetic = bank.kept(plan.scratch, bank.TRAINING)
    people = bank.human(plan.fsdd, held_out=False)
    trainer = Trainer(plan)
    processor = trainer.model.tokenizer.tokenizer
    numbers = {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}
    feed = Feed(Drawer(voices(synthetic), voices(people), numbers, trainer.step, plan.human))
    del synthetic
    losses: list[float] = []
    last_check = trainer.seconds
    try:
        while trainer.done < 1.0:
            begin = time.monotonic()
            losses.append(trainer.train(feed.next(trainer.done)))
            checked = trainer.seconds - last_check > plan.check_minutes * 60
            if checked:
                last_check = trainer.seconds
                trainer.keep()
                log.info(
                    "check at %.1f min: %s",
                    last_check / 60,
                    json.dumps(quick_check(trainer.save(), plan.fsdd, plan.scratch)),
                )
            trainer.seconds += time.monotonic() - begin
            if trainer.step % 100 == 0:
                log.info(
                    "step %d, %.1f min, loss %.3f",
                    trainer.step,
                    trainer.seconds / 60,
                    sum(losses[-100:]) / len(losses[-100:]),
                )
        trainer.keep()
        log.info("final: %s", json.dumps(quick_check(trainer.save(), plan.fsdd, plan.scratch)))
    finally:
        feed.close()


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fsdd", type=Path, required=True, help="folder of the Free Spoken Digit Dataset's recordings")
    parser.add_argument("--minutes", type=float, default=108.0)
    parser.add_argument("--out", type=Path, default=Path("demo.nemo"))
    parser.add_argument("--scratch", type=Path, default=Path("demo-scratch"))
    parser.add_argument("--human", type=float, default=0.25)
    parser.add_argument("--check-minutes", type=float, default=8.0)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(os.cpu_count() or 1)
    train(Plan(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
