"""Write a comparison down: Markdown for people, JSON for programs. Knows tables and sentences; computes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from seat.ab.comparison import LINE_TO_S, Comparison
from seat.ab.statistics import CONFIDENCE, FEWEST_PAIRS, Cost, Estimate
from seat.ab.words import Errors

SHARE: Final = f"{CONFIDENCE:.0%}"


def markdown(told: Comparison) -> str:
    """The whole report."""
    return "\n".join(_lines(told)) + "\n"


def _lines(told: Comparison) -> Iterator[str]:
    yield f"A is `{told.a}`, B is `{told.b}`. {told.machine}; {told.rounds} rounds, interleaved A B B A."
    yield f"One request at a time; the first of each clip does not count. Milliseconds; intervals of {SHARE}."
    yield ""
    yield from in_short(told)
    yield ""
    yield "| audio | clips | pairs | A median | B median | A p95 | B p95 | A/B | interval | |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, found in told.latency.items():
        times = (found.a_median, found.b_median, found.a_p95, found.b_p95)
        ratio = (f"{found.ratio.value:.2f} | {_interval(found.ratio)}") if found.ratio else " | "
        cells = " | ".join(f"{seconds * 1e3:.0f}" for seconds in times)
        yield f"| {name} | {found.clips} | {found.pairs} | {cells} | {ratio} | {found.verdict} |"
    yield ""
    yield f"| clips under {LINE_TO_S:g} s | per request, ms | per second of audio, ms |"
    yield "|---|---|---|"
    for side, line in told.cost.items():
        yield f"| {side} | {_cost(line)} |"
    yield ""
    yield "| words wrong of words said | A | B |"
    yield "|---|---|---|"
    if told.accuracy:
        a, b = told.accuracy.a_wer, told.accuracy.b_wer
        yield f"| all clips, {told.accuracy.words} words | {a:.1%} | {b:.1%} |"
    for probe in told.probes:
        yield f"| {probe.name}, {probe.seconds:.0f} s | {_wrong(probe.a)} | {_wrong(probe.b)} |"
    if told.memory:
        yield ""
        yield "| memory | |"
        yield "|---|---|"
        for who, takes in told.memory.items():
            yield f"| {who} | {takes} |"


def in_short(told: Comparison) -> Iterator[str]:
    """What it comes to, in a sentence for each question."""
    shown = [name for name, found in told.latency.items() if found.verdict.endswith("faster")]
    pairs = sum(found.pairs for found in told.latency.values())
    told_apart = {name: found for name, found in told.latency.items() if found.ratio}
    if not told_apart:
        yield f"- Latency: too few pairs to tell; {FEWEST_PAIRS} rounds are the fewest."
    elif not shown:
        yield f"- Latency: A and B do not differ at this sample size ({pairs} pairs)."
    for name in shown:
        found = told.latency[name]
        yield f"- Latency, {name}: {found.verdict}; A takes {found.ratio.value:.2f} of B's time." if found.ratio else ""
    if shown and len(shown) < len(told_apart):
        rest = ", ".join(name for name in told_apart if name not in shown)
        yield f"- Latency, {rest}: A and B do not differ at this sample size."
    if told.accuracy is None:
        yield "- Words: of no clip that both sides heard is it known what is said."
    else:
        same = f"they say the same in {told.accuracy.same} of {told.accuracy.clips} clips"
        if told.accuracy.difference.holds(0.0):
            yield f"- Words: A and B do not differ at this sample size ({told.accuracy.words} words); {same}."
        else:
            yield f"- Words: {told.accuracy.verdict}; {same}."
    for side, reasons in told.refused.items():
        if reasons:
            yield f"- {side} refused {len(reasons)} requests, such as {reasons[0]}"


def _interval(found: Estimate) -> str:
    return f"{found.low:.2f} to {found.high:.2f}"


def _cost(line: Cost | None) -> str:
    if line is None:
        return " | "
    return " | ".join(
        f"{each.value * 1e3:.1f} ({each.low * 1e3:.1f} to {each.high * 1e3:.1f})"
        for each in (line.fixed_s, line.per_audio_s)
    )


def _wrong(found: Errors | None) -> str:
    return "refused" if found is None else f"{found.wrong} of {found.words}"
